//! Tags whose values are in the message itself: its fields, its relays, its domains.

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
        "SENDERDOMAIN" => domains("EnvelopeFrom:first:addr:host", mail)
            .into_iter()
            .next(),
        "AUTHORDOMAIN" => Some(domains("From:addr:host", mail).join(" ")),
        _ => None,
    }
    .unwrap_or_default()
}

/// The address in the order in which DNS lists are asked.
fn reversed(relay: &Relay) -> String {
    let address: Option<IpAddr> = ip::parse(relay.ip.as_bytes());
    address.map(ip::reversed).unwrap_or_default()
}

/// The hosts that a selector names, in lower case, without repetition.
fn domains(selector: &str, mail: &Mail<'_>) -> Vec<String> {
    let mut domains: Vec<String> = Vec::new();
    for host in mail.values_of(selector) {
        let host = String::from_utf8_lossy(&host).trim().to_lowercase();
        if !host.is_empty() && !domains.contains(&host) {
            domains.push(host);
        }
    }
    domains
}

/// The value of a field as `header` rules match it.
fn field(selector: &str, mail: &Mail<'_>) -> String {
    let value = mail.scalar(&HeaderSelector::parse(selector));
    value.map_or_else(String::new, |value| {
        String::from_utf8_lossy(&value).into_owned()
    })
}
