//! Tags with values of the message: `_HEADER(name)_`, `_LASTEXTERNALIP_`, `_AUTHORDOMAIN_` and so
//! on.

use std::net::IpAddr;

use gatepost_mail::{HeaderSelector, Mail, Relay, ip, relay_text};

const NAMES: [&str; 12] = [
    "AUTHORDOMAIN",
    "FIRSTTRUSTEDIP",
    "FIRSTTRUSTEDREVIP",
    "LASTEXTERNALHELO",
    "LASTEXTERNALIP",
    "LASTEXTERNALRDNS",
    "LASTEXTERNALREVIP",
    "RELAYSEXTERNAL",
    "RELAYSINTERNAL",
    "RELAYSTRUSTED",
    "RELAYSUNTRUSTED",
    "SENDERDOMAIN",
];

/// The tag of a field's value, whose argument names the field.
pub(crate) const FIELD: &str = "HEADER";

/// Whether the value of a tag is in the message.
pub(crate) fn is_of_message(name: &str) -> bool {
    name == FIELD || NAMES.contains(&name)
}

/// The values of a tag as a pattern names it, `NAME` or `NAME(argument)`; `None` if they are not in
/// the message.
pub(crate) fn values_of(text: &str, mail: &Mail<'_>) -> Option<Vec<String>> {
    let (name, argument) = match text.split_once('(') {
        Some((name, argument)) => (name, argument.strip_suffix(')')),
        None => (text, None),
    };
    if !is_of_message(name) {
        return None;
    }
    let mut values = match name {
        "AUTHORDOMAIN" => mail.author_domains(),
        name => vec![value(name, argument, mail)],
    };
    values.retain(|value| !value.is_empty());
    Some(values)
}

/// The value of a tag; empty where the message has none.
pub(crate) fn value(name: &str, argument: Option<&str>, mail: &Mail<'_>) -> String {
    if name == FIELD {
        return field(argument.unwrap_or_default(), mail);
    }
    let relays = mail.relays();
    let (trusted, external) = (relays.trusted.last(), relays.external.first());
    let text = |relay: Option<&Relay>, part: fn(&Relay) -> String| relay.map(part);
    let address = |relay: &Relay| relay.ip.clone();
    match name {
        "RELAYSTRUSTED" => return relay_text(&relays.trusted),
        "RELAYSUNTRUSTED" => return relay_text(&relays.untrusted),
        "RELAYSINTERNAL" => return relay_text(&relays.internal),
        "RELAYSEXTERNAL" => return relay_text(&relays.external),
        "FIRSTTRUSTEDIP" => text(trusted, address),
        "FIRSTTRUSTEDREVIP" => text(trusted, reversed),
        "LASTEXTERNALIP" => text(external, address),
        "LASTEXTERNALREVIP" => text(external, reversed),
        "LASTEXTERNALRDNS" => text(external, |relay| relay.rdns.clone()),
        "LASTEXTERNALHELO" => text(external, |relay| relay.helo.clone()),
        "SENDERDOMAIN" => mail.sender_domain(),
        "AUTHORDOMAIN" => Some(mail.author_domains().join(" ")),
        _ => None,
    }
    .unwrap_or_default()
}

/// The address in the order in which DNS lists are queried.
fn reversed(relay: &Relay) -> String {
    let address: Option<IpAddr> = ip::parse(relay.ip.as_bytes());
    address.map(ip::reversed).unwrap_or_default()
}

/// The value of a field as `header` rules match it.
fn field(selector: &str, mail: &Mail<'_>) -> String {
    let value = mail.scalar(&HeaderSelector::parse(selector));
    value.map_or_else(String::new, |value| {
        String::from_utf8_lossy(&value).into_owned()
    })
}
