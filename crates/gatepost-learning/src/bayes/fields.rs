//! The words of header fields.
//!
//! All fields count except those known to mislead (`IGNORED`), so unknown tracking fields of bulk
//! mailers contribute too. The token of a word in a field carries the field's name. Some names are
//! shortened, and some fields are also combined, because a word means the same in all of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gatepost_mail::address;

use super::chew;
use super::settings::BayesSettings;
use super::token::Collector;
use super::words::{Region, add_line, mail_address};

/// The most tokens of the head.
const FIELD_TOKENS_MAX: usize = 10_000;
/// The most bytes of the fields with one name, and of all fields, that are divided into words. An
/// address is divided into far more bytes than it has, so the limits of the head are not enough.
const NAME_BYTES_MAX: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// A header field: its name as written, and its value after the colon, decoded and unfolded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BayesField<'a> {
    /// The name, in the case it was written in.
    pub name: Cow<'a, [u8]>,
    /// The value; it begins with the space after the colon if there is one.
    pub value: Cow<'a, [u8]>,
}

/// Field names as shortened in tokens. Case matters, since different software writes different
/// case.
const SHORT_NAMES: [(&[u8], &[u8]); 19] = [
    (b"Message-Id", b"*m"),
    (b"Message-ID", b"*M"),
    (b"Received", b"*r"),
    (b"User-Agent", b"*u"),
    (b"References", b"*f"),
    (b"In-Reply-To", b"*i"),
    (b"From", b"*F"),
    (b"Reply-To", b"*R"),
    (b"Return-Path", b"*p"),
    (b"Return-path", b"*rp"),
    (b"X-Mailer", b"*x"),
    (b"X-Authentication-Warning", b"*a"),
    (b"Organization", b"*o"),
    (b"Organisation", b"*o"),
    (b"Content-Type", b"*ct"),
    (b"Content-Disposition", b"*cd"),
    (b"Content-Transfer-Encoding", b"*ce"),
    (b"x-spam-relays-trusted", b"*RT"),
    (b"x-spam-relays-untrusted", b"*RU"),
];

/// Adds the tokens of the head: its fields, then the views of its relays (`x-spam-relays-…`).
pub(super) fn add_fields(
    fields: &[BayesField<'_>],
    relays: &[BayesField<'_>],
    settings: &BayesSettings,
    tokens: &mut Collector,
) {
    let is_received = |field: &&BayesField<'_>| field.name.eq_ignore_ascii_case(b"Received");
    // Of the Received fields only the two oldest: there are the sender's names and software.
    let oldest = fields.iter().filter(is_received).rev().take(2);
    let ordinary = fields
        .iter()
        .filter(|field| !is_received(field) && !is_ignored(&field.name.to_ascii_lowercase()));

    let mut by_name: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut left = HEAD_BYTES_MAX;
    let mut append = |name: &[u8], value: &[u8]| {
        let all = by_name
            .entry(name.to_vec())
            .and_modify(|all| all.push(b' '))
            .or_default();
        let free = NAME_BYTES_MAX.saturating_sub(all.len()).min(left);
        let value = value.get(..free).unwrap_or(value);
        all.extend_from_slice(value);
        left -= value.len();
    };
    for field in ordinary.chain(relays).chain(oldest) {
        let name = field.name.as_ref();
        let lower = name.to_ascii_lowercase();
        if settings.ignored_fields.contains(&lower) {
            continue;
        }
        let value = simplify(name, &lower, &field.value);
        let together: Option<&[u8]> = match lower.as_slice() {
            b"in-reply-to" | b"references" | b"message-id" => Some(b"*MI"),
            b"from" | b"to" | b"cc" => Some(b"*Ad"),
            b"x-mailer" | b"user-agent" => Some(b"*UA"),
            _ => None,
        };
        if let Some(together) = together {
            append(together, &value);
        }
        let short = SHORT_NAMES
            .iter()
            .find(|(long, _)| *long == name)
            .map_or(name, |(_, short)| short);
        append(short, &value);
    }

    let before = tokens.len();
    for (name, value) in &by_name {
        let prefix = [b"H", name.as_slice(), b":"].concat();
        add_line(value, &prefix, Region::Field, settings, tokens);
        if tokens.len() - before >= FIELD_TOKENS_MAX {
            break;
        }
    }
}

/// The value of a field without the parts that never occur again.
fn simplify<'a>(name: &[u8], lower: &[u8], value: &'a [u8]) -> Cow<'a, [u8]> {
    let bare = lower
        .strip_prefix(b"x-")
        .or_else(|| lower.strip_prefix(b"resent-"))
        .unwrap_or(lower);
    match bare {
        b"message-id" => return chew::message_id(value).into(),
        b"return-path" | b"from" | b"to" | b"cc" | b"reply-to" | b"errors-to"
        | b"mail-followup-to" | b"sender" => return addresses(value).into(),
        _ => {}
    }
    match name {
        b"Received" => chew::received(value).into(),
        b"Content-Type" => chew::content_type(value).into(),
        b"MIME-Version" => without_first(value, b"1.0").into(),
        b"x-spam-relays-external"
        | b"x-spam-relays-internal"
        | b"x-spam-relays-trusted"
        | b"x-spam-relays-untrusted" => chew::relays(value).into(),
        _ if is_marked_only(lower) => Cow::Borrowed(b"1"),
        _ => Cow::Borrowed(value),
    }
}

/// Names and addresses of a field that lists them, up to [`NAME_BYTES_MAX`].
fn addresses(value: &[u8]) -> Vec<u8> {
    let mut words = Vec::new();
    let mut is_first = true;
    let mut add = |words: &mut Vec<u8>, pieces: &[&[u8]]| {
        if !std::mem::take(&mut is_first) {
            words.push(b' ');
        }
        for piece in pieces {
            words.extend_from_slice(piece);
        }
    };
    for address in address::parse(value) {
        if words.len() >= NAME_BYTES_MAX {
            break;
        }
        for word in address.name.iter().flat_map(|name| blank_separated(name)) {
            add(&mut words, &[b"N*", word]);
        }
        if let Some(address) = &address.address {
            mail_address(address, |pieces| add(&mut words, pieces));
        }
    }
    words
}

/// The words between runs of blanks; a leading blank yields an empty first word.
fn blank_separated(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let leading = text.first().is_some_and(u8::is_ascii_whitespace);
    let words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    leading.then_some(&b""[..]).into_iter().chain(words)
}

fn without_first(value: &[u8], what: &[u8]) -> Vec<u8> {
    match memchr::memmem::find(value, what) {
        Some(at) => {
            let (before, after) = value.split_at(at);
            [before, after.get(what.len()..).unwrap_or_default()].concat()
        }
        None => value.to_vec(),
    }
}

/// Whether only the presence of a field counts: signatures are different every time.
fn is_marked_only(lower: &[u8]) -> bool {
    const FINGERPRINTS: [&[u8]; 8] = [
        b"x-gnupg-fingerprint",
        b"x-gnu-pg-fingerprint",
        b"x-pgp-fingerprint",
        b"x-gpg-fingerprint",
        b"x-gnupg-key-fingerprint",
        b"x-gnu-pg-key-fingerprint",
        b"x-pgp-key-fingerprint",
        b"x-gpg-key-fingerprint",
    ];
    matches!(
        lower,
        b"x-face"
            | b"dkim-signature"
            | b"domainkey-signature"
            | b"x-google-dkim-signature"
            | b"arc-message-signature"
            | b"arc-seal"
            | b"autocrypt"
    ) || FINGERPRINTS.contains(&lower)
}

/// Fields that give no tokens, sorted.
const IGNORED: &[&str] = &[
    "content-class",
    "content-length",
    "date",
    "delivered-to",
    "delivery-date",
    "forwarded",
    "lines",
    "mail-followup-to",
    "replied",
    "spam",
    "subject",
    "thread-index",
    "thread-topic",
    "x-antispam",
    "x-ap-spam-score",
    "x-ap-spam-status",
    "x-beenthere",
    "x-bogosity",
    "x-converted-to-plain-text",
    "x-egroups-from",
    "x-egroups-return",
    "x-filtered-by",
    "x-flags",
    "x-gnus-mail-source",
    "x-imapbase",
    "x-keywords",
    "x-list",
    "x-loop",
    "x-mailman-version",
    "x-mailscanner",
    "x-mailscanner-spamcheck",
    "x-mass-check-id",
    "x-mdaemon-deliver-to",
    "x-mdmailing-list",
    "x-mime-autoconverted",
    "x-originalarrivaltime",
    "x-perlmx-spam",
    "x-pyzor",
    "x-rbl-warning",
    "x-ripe-spam-status",
    "x-scanned-by",
    "x-scanner",
    "x-smtpd",
    "x-spam",
    "x-spam-checker-version",
    "x-spam-flag",
    "x-spam-hits",
    "x-spam-level",
    "x-spam-report",
    "x-spam-score",
    "x-spam-status",
    "x-sympa-to",
    "x-uid",
    "x-uidl",
    "x-unsub",
    "x-unsubscribe",
    "x-virus-scanned",
    "x-vm-bookmark",
    "x-vm-imap-retrieved",
    "x-vm-labels",
    "x-vm-last-modified",
    "x-vm-message-order",
    "x-vm-pop-retrieved",
    "x-vm-summary-format",
    "x-vm-vheader",
    "x-xemacs-list",
    "xref",
];

/// Fields that give no tokens, with `x-` in front or without, sorted.
const IGNORED_EITHER_WAY: &[&str] = &[
    "envelope-to",
    "list-admin",
    "list-archive",
    "list-comment",
    "list-help",
    "list-host",
    "list-id",
    "list-manager",
    "list-name",
    "list-owner",
    "list-post",
    "list-subscribe",
    "list-unsubscribe",
    "list-url",
    "mailing-list",
    "original-date",
    "original-from",
    "original-to",
    "resent-date",
    "resent-from",
    "resent-to",
    "sender",
    "spam-apparently-to",
    "status",
];

/// Whether a field (its name in lower case) gives no tokens: it misleads, or other filters and
/// mailing lists wrote it.
fn is_ignored(lower: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(lower) else {
        return false;
    };
    let bare = name.strip_prefix("x-").unwrap_or(name);
    let longer_than = |prefix: &str| name.len() > prefix.len() && name.starts_with(prefix);
    IGNORED.binary_search(&name).is_ok()
        || IGNORED_EITHER_WAY.binary_search(&bare).is_ok()
        || longer_than("x-spamcop-")
        || longer_than("x-bugzilla-")
        || name
            .strip_prefix("x-vm-v")
            .and_then(|rest| rest.strip_suffix("-data"))
            .is_some_and(|digit| digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit())
        || name
            .strip_prefix("x-dcc-")
            .and_then(|rest| rest.strip_suffix("-metrics"))
            .is_some_and(|brand| (2..=25).contains(&brand.len()) && !brand.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_fields_are_ignored() {
        for name in [
            "date",
            "x-status",
            "list-id",
            "x-list-id",
            "x-uidl",
            "x-vm-v5-data",
            "x-dcc-brand-metrics",
            "x-spam-status",
            "x-spamcop-note",
            "xref",
        ] {
            assert!(is_ignored(name.as_bytes()), "{name}");
        }
        for name in [
            "received",
            "from",
            "x-mailer",
            "x-date",
            "x-dcc-a-metrics",
            "x-spamcop-",
        ] {
            assert!(!is_ignored(name.as_bytes()), "{name}");
        }
    }

    fn tokens_of(fields: &[BayesField<'_>]) -> usize {
        let mut tokens = Collector::default();
        add_fields(fields, &[], &BayesSettings::default(), &mut tokens);
        tokens.len()
    }

    #[test]
    fn addresses_give_bounded_tokens() {
        let host = ["a"; 127].join(".");
        let value = format!(" a@{host},").repeat(4000).into_bytes();
        assert!(addresses(&value).len() < NAME_BYTES_MAX + 127 * 256);
        let count = NAME_BYTES_MAX.div_ceil("a ".len());
        let to = BayesField {
            name: b"To"[..].into(),
            value: value.into(),
        };
        let all = vec![to; 3];
        // `To`, and `*Ad` for all addresses.
        assert!(tokens_of(&all) <= 2 * count, "{}", tokens_of(&all));

        let fields: Vec<BayesField<'_>> = (0..100)
            .map(|number| BayesField {
                name: format!("X-{number}").into_bytes().into(),
                value: b"abc ".repeat(NAME_BYTES_MAX / 4).into(),
            })
            .collect();
        assert!(tokens_of(&fields) <= FIELD_TOKENS_MAX + NAME_BYTES_MAX / 4);
    }

    #[test]
    fn words_of_a_phrase_keep_an_empty_first_one() {
        assert!(blank_separated(b" a  b").eq([&b""[..], b"a", b"b"]));
        assert!(blank_separated(b"a b ").eq([&b"a"[..], b"b"]));
    }
}
