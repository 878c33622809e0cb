//! The senders and recipients of a message, from all fields that name them.

use std::collections::HashSet;

use super::Mail;
use super::ascii::find_ignore_case;
use super::domain::is_fully_qualified;

impl Mail<'_> {
    /// All sender addresses of the message, in lower case.
    pub fn sender_addresses(&self) -> &[Vec<u8>] {
        self.senders.get_or_init(|| self.find_senders())
    }

    /// All recipient addresses of the message.
    pub fn recipient_addresses(&self) -> &[Vec<u8>] {
        self.recipients.get_or_init(|| self.find_recipients())
    }

    /// The domains of the addresses in `From`, in lower case, without repetition.
    pub fn author_domains(&self) -> Vec<String> {
        self.domains("From:addr:host")
    }

    /// The domain of the envelope's sender, in lower case.
    pub fn sender_domain(&self) -> Option<String> {
        let mut domains = self.domains("EnvelopeFrom:first:addr:host");
        (!domains.is_empty()).then(|| domains.swap_remove(0))
    }

    fn domains(&self, selector: &str) -> Vec<String> {
        let mut domains: Vec<String> = Vec::new();
        for host in self.values_of(selector) {
            let host = String::from_utf8_lossy(&host).trim().to_lowercase();
            if !host.is_empty() && !domains.contains(&host) {
                domains.push(host);
            }
        }
        domains
    }

    fn find_senders(&self) -> Vec<Vec<u8>> {
        let resent = self.values_of("Resent-From:first:addr");
        let found = if resent.is_empty() {
            [
                "From:addr",
                "Envelope-Sender:addr",
                "Resent-Sender:addr",
                "X-Envelope-From:addr",
                "EnvelopeFrom:addr",
            ]
            .iter()
            .flat_map(|selector| self.values_of(selector))
            .filter(|address| !address.is_empty())
            .map(|address| with_single_dots(&address))
            .collect()
        } else {
            resent
                .into_iter()
                .map(std::borrow::Cow::into_owned)
                .collect::<Vec<_>>()
        };
        without_repetition(
            found
                .into_iter()
                .map(|address| address.to_ascii_lowercase()),
        )
    }

    fn find_recipients(&self) -> Vec<Vec<u8>> {
        let resent: Vec<_> = ["Resent-To:first:addr", "Resent-Cc:first:addr"]
            .iter()
            .flat_map(|name| self.values_of(name))
            .collect();
        if !resent.is_empty() {
            return without_repetition(resent.into_iter().map(std::borrow::Cow::into_owned));
        }
        const FIELDS: [&str; 12] = [
            "To",
            "Apparently-To",
            "Delivered-To",
            "Envelope-Recipients",
            "Apparently-Resent-To",
            "X-Envelope-To",
            "Envelope-To",
            "X-Delivered-To",
            "X-Original-To",
            "X-Rcpt-To",
            "X-Real-To",
            "Cc",
        ];
        let received = self
            .head()
            .all(b"received")
            .take(3)
            .filter_map(|field| recipient_in(field.decoded()));
        let named = FIELDS
            .iter()
            .flat_map(|name| self.values_of(&format!("{name}:addr")));
        without_repetition(received.chain(named.map(std::borrow::Cow::into_owned)))
    }
}

fn without_repetition(addresses: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut all: Vec<Vec<u8>> = Vec::new();
    for address in addresses {
        if !seen.contains(&address) {
            seen.insert(address.clone());
            all.push(address);
        }
    }
    all
}

/// Consecutive dots are a common mistake.
fn with_single_dots(address: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(address.len());
    for &byte in address {
        if byte != b'.' || out.last() != Some(&b'.') {
            out.push(byte);
        }
    }
    out
}

/// The recipient in a `Received:` field: ` for <user@host>;`.
fn recipient_in(line: &[u8]) -> Option<Vec<u8>> {
    let mut from = 0;
    while let Some(at) = find_ignore_case(line, b" for ", from) {
        from = at + 1;
        let rest = line.get(at + 5..)?;
        let rest = rest.strip_prefix(b"<").unwrap_or(rest);
        let end = rest
            .iter()
            .position(|&byte| byte == b';' || byte.is_ascii_whitespace())?;
        let word = rest.get(..end).unwrap_or_default();
        let word = word.strip_suffix(b">").unwrap_or(word);
        let host = memchr::memchr(b'@', word)
            .filter(|&sign| sign > 0)
            .and_then(|sign| word.get(sign + 1..));
        if rest.get(end) == Some(&b';') && host.is_some_and(is_fully_qualified) {
            return Some(word.to_vec());
        }
    }
    None
}
