//! VBounce: bounce messages (backscatter) for mail that was not sent from this site.

use gatepost_mail::lines;

use super::ScannedMail;
use super::{Entry, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("have_any_bounce_relays", |_| plain(has_relays)),
    ("check_welcomelist_bounce_relays", |_| {
        plain(names_own_relay)
    }),
    ("check_whitelist_bounce_relays", |_| plain(names_own_relay)),
];

fn has_relays(mail: &ScannedMail<'_>) -> bool {
    !mail.settings().bounce_relays.is_empty()
}

pattern!(RECEIVED, r"^[> ]*Received:", "i");
pattern!(HOST_WORD, r"\s(\S+\.\S+)(?=\s)");

/// Whether a quoted head names one of the site's own relays.
fn names_own_relay(mail: &ScannedMail<'_>) -> bool {
    if !has_relays(mail) {
        return false;
    }
    let relays = &mail.settings().bounce_relays;
    let names_ours = |line: &[u8]| {
        HOST_WORD
            .spans(line)
            .any(|(start, end)| relays.contains(line.get(start + 1..end).unwrap_or_default()))
    };
    if mail
        .body()
        .iter()
        .any(|line| RECEIVED.is_match(line) && names_ours(line))
    {
        return true;
    }
    let mut field: Vec<u8> = Vec::new();
    let mut found = false;
    for line in lines(mail.head().body) {
        found |= RECEIVED.is_match(line);
        if !found {
            continue;
        }
        if !line.first().is_some_and(u8::is_ascii_whitespace) {
            field.clear();
        }
        field.extend_from_slice(line);
        if RECEIVED.is_match(&field) && names_ours(&field) {
            return true;
        }
    }
    false
}
