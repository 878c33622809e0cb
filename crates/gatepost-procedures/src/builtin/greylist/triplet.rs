//! The client, sender and recipients of a mail, in the form in which they are compared.

use std::net::IpAddr;

use gatepost_message::{Envelope, Message, Verdict};
use gatepost_settings::PeerNetwork;

/// Large senders use many machines in one network, so the network counts.
const CLIENT_BITS_V4: u8 = 24;
const CLIENT_BITS_V6: u8 = 64;
/// The last bytes of an address that count: longer ones would not fit into a key.
const ADDRESS_BYTES_MAX: usize = 320;

/// The client, the sender and the recipients of one mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Triplets {
    /// The client under which the mail is recorded, first; then others under which it may have been
    /// recorded.
    pub(super) clients: Vec<String>,
    sender: String,
    pub(super) recipients: Vec<String>,
}

impl Triplets {
    /// The triplets of this envelope, with the client's address; `None` if one of them is missing.
    pub(super) fn of(envelope: &Envelope) -> Option<(Self, IpAddr)> {
        let address = envelope.peer.ip()?;
        let sender = envelope.sender.as_deref()?;
        if envelope.recipients.is_empty() {
            return None;
        }
        let network = PeerNetwork::around(address, CLIENT_BITS_V4, CLIENT_BITS_V6);
        let recipients = envelope.recipients.iter();
        let mut recipients: Vec<String> = recipients.map(|one| one.to_lowercase()).collect();
        recipients.sort_unstable();
        recipients.dedup();
        let triplets = Self {
            clients: vec![network.to_string()],
            sender: normalized(sender),
            recipients,
        };
        Some((triplets, address))
    }

    /// The same mail from a client that belongs to this domain.
    pub(super) fn of_domain(&self, domain: &str) -> Self {
        let mut domain_first = self.clone();
        domain_first.clients.insert(0, domain.to_lowercase());
        domain_first
    }

    /// The key of a recipient in the table.
    pub(super) fn key(&self, client: &str, recipient: &str) -> Vec<u8> {
        let parts = [client, &self.sender, recipient].map(|part| {
            let bytes = part.as_bytes();
            &bytes[bytes.len().saturating_sub(ADDRESS_BYTES_MAX)..]
        });
        parts.join(&0)
    }
}

/// The sender without the parts that lists and automatic senders change for each mail: whatever
/// follows a `+`, and digits.
fn normalized(sender: &str) -> String {
    let sender = sender.to_lowercase();
    let Some((local_part, domain)) = sender.rsplit_once('@') else {
        return sender;
    };
    let local_part = local_part.split('+').next().unwrap_or_default();
    let mut normalized = String::with_capacity(sender.len());
    for character in local_part.chars() {
        if !character.is_ascii_digit() {
            normalized.push(character);
        } else if !normalized.ends_with('#') {
            normalized.push('#');
        }
    }
    normalized + "@" + domain
}

/// The identity that SPF checks: the sender, or the client's own name for a bounce, which has no
/// sender (RFC 7208, section 2.4).
pub(super) fn spf_identity(message: &Message) -> Option<(&str, &str)> {
    let envelope = &message.envelope;
    match envelope.sender.as_deref()? {
        "" => {
            let helo = envelope.client.as_deref()?;
            helo.contains('.').then_some(("postmaster", helo))
        }
        sender => sender.rsplit_once('@'),
    }
}

/// Whether an earlier procedure found that SPF permits the client for this domain.
pub(super) fn has_passed_spf(so_far: &Verdict, domain: &str) -> bool {
    so_far.authentication.iter().any(|result| {
        let mut properties = result.properties.iter();
        result.method == "spf"
            && result.result == "pass"
            && properties.any(|(name, value)| {
                let checked = value.rsplit('@').next().unwrap_or_default();
                matches!(*name, "smtp.mailfrom" | "smtp.helo")
                    && checked.eq_ignore_ascii_case(domain)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_parts_of_a_sender_do_not_count() {
        for (sender, expected) in [
            ("Anna@Example.org", "anna@example.org"),
            (
                "list-bounces+1234-anna=x@l.example",
                "list-bounces@l.example",
            ),
            ("m2024-17-x@l2.example", "m#-#-x@l2.example"),
            ("", ""),
            ("anna", "anna"),
        ] {
            assert_eq!(normalized(sender), expected);
        }
    }
}
