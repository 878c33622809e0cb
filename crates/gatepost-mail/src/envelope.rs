//! The envelope sender, from the trace fields that mail servers add.

use super::Mail;
use super::ascii::find_ignore_case;

/// The envelope sender; empty for a bounce, `None` if no trace field can be trusted.
pub(super) fn sender(mail: &Mail<'_>) -> Option<Vec<u8>> {
    let first = |name: &str| {
        mail.first_of(&format!("{name}:first:addr"))
            .map(std::borrow::Cow::into_owned)
    };
    let usable = |address: &Vec<u8>| {
        address.is_empty() || memchr::memchr(b'@', address).is_some_and(|at| at > 0)
    };
    if let Some(name) = &mail.view_settings().envelope_sender_field {
        return first(name).filter(usable);
    }
    let relays = mail.relays();
    let relay = relays.untrusted.first().or(relays.trusted.last());
    let noted = relay
        .and_then(|relay| relay.envelope_from.clone())
        .map(String::into_bytes);
    if let Some(noted) = noted.filter(usable) {
        return Some(noted);
    }
    // Mailing list software keeps the original sender in X-Sender, which fetchmail takes for the
    // envelope sender.
    if first("X-Sender").is_some_and(|address| address.contains(&b'@'))
        && mail
            .head()
            .all(b"received")
            .any(|field| find_ignore_case(field.decoded(), b"(fetchmail", 0).is_some())
    {
        return None;
    }
    if let Some(address) = first("X-Envelope-From") {
        return is_above_received(mail, b"x-envelope-from").then_some(address);
    }
    for (name, lower) in [
        ("Envelope-Sender", &b"envelope-sender"[..]),
        ("Return-Path", b"return-path"),
    ] {
        if let Some(address) = first(name)
            && is_above_received(mail, lower)
        {
            return Some(address);
        }
    }
    None
}

/// A field below a `Received:` field was written before the last hop.
fn is_above_received(mail: &Mail<'_>, name: &[u8]) -> bool {
    let fields = &mail.head().fields;
    let received = fields.iter().position(|field| field.is(b"received"));
    let last = fields.iter().rposition(|field| field.is(name));
    match (received, last) {
        (Some(received), Some(last)) => last < received,
        _ => true,
    }
}
