//! RelayEval: HELO names, reverse DNS and addresses of the relays in `Received:` fields.

use gatepost_mail::{Relay, ip_private, relay_text};

use super::ScannedMail;
use super::{Entry, bound, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_for_numeric_helo", |_| plain(numeric_helo)),
    ("check_for_illegal_ip", |_| plain(|_| false)),
    ("check_all_trusted", |_| {
        plain(|mail| {
            let relays = mail.relays();
            !relays.trusted.is_empty() && relays.untrusted.is_empty() && relays.unparseable == 0
        })
    }),
    ("check_no_relays", |_| {
        plain(|mail| {
            let relays = mail.relays();
            relays.trusted.is_empty() && relays.untrusted.is_empty() && relays.unparseable == 0
        })
    }),
    ("check_relays_unparseable", |_| {
        plain(|mail| mail.relays().unparseable > 0)
    }),
    ("check_for_sender_no_reverse", |_| {
        plain(|mail| {
            mail.relays()
                .untrusted
                .last()
                .is_some_and(|relay| relay.rdns.contains('.') && !relay.ip_private)
        })
    }),
    ("check_for_from_domain_in_received_headers", |arguments| {
        let (domain, desired) = (arguments.text(0)?.to_owned(), arguments.text(1)? == "true");
        let named =
            gatepost_mail::MailPattern::with_flags(&format!(r"\b{}\b", quote(&domain)), "i")?;
        let relayed = gatepost_mail::MailPattern::with_flags(
            &format!(r" rdns=\S*\b{domain} [^\]]*by=\S*\b{domain} "),
            "",
        )?;
        bound(move |mail| {
            let from = mail.header_text("From:addr").unwrap_or_default();
            let relays = mail.relays();
            named.is_match(&from)
                && [&relays.trusted, &relays.untrusted]
                    .iter()
                    .any(|relays| relayed.is_match(relay_text(relays).as_bytes()))
                    == desired
        })
    }),
    ("check_for_forged_received_trail", |_| {
        plain(|mail| forged_trail(mail).0 > 1)
    }),
    ("check_for_forged_received_ip_helo", |_| {
        plain(|mail| forged_trail(mail).1 > 0)
    }),
    ("helo_ip_mismatch", |_| {
        plain(|mail| mail.relays().untrusted.iter().any(helo_ip_mismatch))
    }),
    ("check_for_no_rdns_dotcom_helo", |_| {
        plain(no_rdns_dotcom_helo)
    }),
];

/// A text as a pattern that matches only this text.
fn quote(text: &str) -> String {
    text.chars()
        .flat_map(|letter| {
            if letter.is_alphanumeric() {
                vec![letter]
            } else {
                vec!['\\', letter]
            }
        })
        .collect()
}

fn v4(text: &str) -> Option<std::net::Ipv4Addr> {
    text.parse().ok()
}

fn is_public_v4(text: &str) -> bool {
    v4(text).is_some_and(|address| !ip_private(address.into()))
}

pattern!(
    NUMERIC_HELO,
    r"\bhelo=(?:(?:1\d\d|2[0-4]\d|25[0-5]|[1-9]?\d)(?:\.|\b)){4}(?=[\x00-\x20,;\[()<>]|\z)",
    "i"
);

fn numeric_helo(mail: &ScannedMail<'_>) -> bool {
    let text = relay_text(&mail.relays().untrusted);
    NUMERIC_HELO
        // Private addresses hit too: SpamAssassin tries to except them, but loses the match before
        // the check.
        .is_match(text.as_bytes())
}

fn helo_ip_mismatch(relay: &Relay) -> bool {
    let network = |text: &str| {
        text.rfind('.')
            .and_then(|dot| text.get(..=dot))
            .map(str::to_owned)
    };
    is_public_v4(&relay.helo)
        && is_public_v4(&relay.ip)
        && relay.helo != relay.ip
        && network(&relay.helo).is_some_and(|network| !relay.ip.starts_with(&network))
}

/// Whether the last relay with a public address claims a large provider's name and has no reverse
/// name.
fn no_rdns_dotcom_helo(mail: &ScannedMail<'_>) -> bool {
    const PROVIDERS: [&str; 11] = [
        "lycos.com",
        "lycos.co.uk",
        "hotmail.com",
        "localhost.com",
        "excite.com",
        "caramail.com",
        "cs.com",
        "aol.com",
        "msn.com",
        "yahoo.com",
        "drizzle.com",
    ];
    let last = mail
        .relays()
        .untrusted
        .iter()
        .rfind(|relay| !relay.ip_private);
    last.is_some_and(|relay| {
        let helo = relay.helo.to_ascii_lowercase();
        relay.no_reverse_dns
            && PROVIDERS.iter().any(|provider| {
                helo.strip_suffix(provider)
                    .is_some_and(|before| before.is_empty() || before.ends_with('.'))
            })
    })
}

/// The registered domain of a host, by a heuristic.
fn domain_of(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if !host.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return host;
    }
    let mut labels: Vec<&str> = host.split('.').collect();
    while labels.len() > 1 && labels.last() == Some(&"") {
        labels.pop();
    }
    let last = labels.last().copied().unwrap_or_default();
    let is_generic = last.len() >= 3 || ["ie", "fr", "de"].iter().any(|known| last.contains(known));
    let keep = match labels.len() {
        count if count > 1 && is_generic => 2,
        count if count > 2 => 3,
        _ => return host,
    };
    labels
        .get(labels.len() - keep..)
        .unwrap_or_default()
        .join(".")
}

/// `\w+(?:[\w.-]+\.)+\w+`: a name with at least one dot, as relays write them.
fn is_host_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let Some(dot) = text.rfind('.') else {
        return false;
    };
    dot >= 2
        && dot + 1 < bytes.len()
        && bytes.iter().skip(dot + 1).all(|&byte| is_word(byte))
        && bytes.first().copied().is_some_and(is_word)
        && bytes
            .iter()
            .all(|&byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// The number of relays that claim another sender than the receiver before them, and the number
/// that give an address of another network as their name.
fn forged_trail(mail: &ScannedMail<'_>) -> (usize, usize) {
    let relays = &mail.relays().untrusted;
    let mut from: Vec<Option<String>> = relays
        .iter()
        .map(|relay| Some(domain_of(&relay.rdns)))
        .collect();
    let (mut mismatched_from, mut mismatched_helo) = (0, 0);
    for (index, relay) in relays.iter().enumerate() {
        let by = domain_of(&relay.by);
        if !is_host_name(&by) {
            continue;
        }
        if relay.ip == "127.0.0.1"
            && let Some(name) = from.get_mut(index)
            && name
                .as_deref()
                .is_some_and(|name| matches!(name, "localhost" | "localhost.localdomain"))
        {
            *name = None;
        }
        let helo = domain_of(&relay.helo);
        let network =
            |text: &str| v4(text).map(|address| [address.octets()[0], address.octets()[1]]);
        if let (Some(helo_network), Some(ip_network)) = (network(&helo), network(&relay.ip))
            && helo_network != ip_network
            && is_public_v4(&helo)
        {
            mismatched_helo += 1;
        }
        let previous = index
            .checked_sub(1)
            .and_then(|previous| from.get(previous))
            .cloned()
            .flatten();
        if let Some(previous) = previous
            && is_host_name(&previous)
            && by != previous
            && !(by == "msn.com" && previous == "hotmail.com")
        {
            mismatched_from += 1;
        }
    }
    (mismatched_from, mismatched_helo)
}
