//! WLBLEval and WelcomeListSubject: welcome lists and block lists of addresses, hosts and subjects.

use gatepost_mail::{MailPattern, Relay, parse_ip};

use super::ScannedMail;
use super::settings::SenderFromHost;
use super::{Entry, bound, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_from_in_blocklist", |_| {
        plain(|mail| sender_is_in(mail, "blocklist_from"))
    }),
    ("check_from_in_blacklist", |_| {
        plain(|mail| sender_is_in(mail, "blocklist_from"))
    }),
    ("check_to_in_blocklist", |_| {
        plain(|mail| recipient_is_in(mail, "blocklist_to"))
    }),
    ("check_to_in_blacklist", |_| {
        plain(|mail| recipient_is_in(mail, "blocklist_to"))
    }),
    ("check_to_in_welcomelist", |_| {
        plain(|mail| recipient_is_in(mail, "welcomelist_to"))
    }),
    ("check_to_in_whitelist", |_| {
        plain(|mail| recipient_is_in(mail, "welcomelist_to"))
    }),
    ("check_to_in_more_spam", |_| {
        plain(|mail| recipient_is_in(mail, "more_spam_to"))
    }),
    ("check_to_in_all_spam", |_| {
        plain(|mail| recipient_is_in(mail, "all_spam_to"))
    }),
    ("check_from_in_list", |arguments| {
        let list = arguments.text(0)?.to_owned();
        bound(move |mail| sender_is_in(mail, &list))
    }),
    ("check_to_in_list", |arguments| {
        let list = arguments.text(0)?.to_owned();
        bound(move |mail| recipient_is_in(mail, &list))
    }),
    ("check_replyto_in_list", |arguments| {
        let list = arguments.text(0)?.to_owned();
        bound(move |mail| {
            let address = mail.header_text("Reply-To:addr").unwrap_or_default();
            !address.is_empty() && is_in(mail, &list, &address)
        })
    }),
    ("check_from_in_welcomelist", |_| {
        plain(|mail| sender_is_welcome(mail) > 0)
    }),
    ("check_from_in_whitelist", |_| {
        plain(|mail| sender_is_welcome(mail) > 0)
    }),
    ("check_from_in_default_welcomelist", |_| {
        plain(|mail| sender_is_welcome_by_default(mail) > 0)
    }),
    ("check_from_in_default_whitelist", |_| {
        plain(|mail| sender_is_welcome_by_default(mail) > 0)
    }),
    ("check_forged_in_welcomelist", |_| {
        plain(|mail| sender_is_welcome(mail) < 0 && sender_is_welcome_by_default(mail) == 0)
    }),
    ("check_forged_in_whitelist", |_| {
        plain(|mail| sender_is_welcome(mail) < 0 && sender_is_welcome_by_default(mail) == 0)
    }),
    ("check_forged_in_default_welcomelist", |_| {
        plain(|mail| sender_is_welcome_by_default(mail) < 0 && sender_is_welcome(mail) == 0)
    }),
    ("check_forged_in_default_whitelist", |_| {
        plain(|mail| sender_is_welcome_by_default(mail) < 0 && sender_is_welcome(mail) == 0)
    }),
    ("check_mailfrom_matches_rcvd", |_| {
        plain(envelope_sender_matches_relay)
    }),
    ("check_uri_host_listed", |arguments| {
        let list = arguments.text(0)?.to_owned();
        bound(move |mail| listed(mail).contains(&list))
    }),
    ("check_uri_host_in_blocklist", |_| {
        plain(|mail| listed(mail).iter().any(|list| list == "BLOCK"))
    }),
    ("check_uri_host_in_blacklist", |_| {
        plain(|mail| listed(mail).iter().any(|list| list == "BLOCK"))
    }),
    ("check_uri_host_in_welcomelist", |_| {
        plain(|mail| listed(mail).iter().any(|list| list == "WELCOME"))
    }),
    ("check_uri_host_in_whitelist", |_| {
        plain(|mail| listed(mail).iter().any(|list| list == "WELCOME"))
    }),
];

/// WelcomeListSubject.
pub(super) const SUBJECT_FUNCTIONS: &[Entry] = &[
    ("check_subject_in_welcomelist", |_| {
        plain(|mail| subject_fits(mail, &mail.settings().welcomelist_subject))
    }),
    ("check_subject_in_whitelist", |_| {
        plain(|mail| subject_fits(mail, &mail.settings().welcomelist_subject))
    }),
    ("check_subject_in_blocklist", |_| {
        plain(|mail| subject_fits(mail, &mail.settings().blocklist_subject))
    }),
    ("check_subject_in_blacklist", |_| {
        plain(|mail| subject_fits(mail, &mail.settings().blocklist_subject))
    }),
];

fn subject_fits(mail: &ScannedMail<'_>, patterns: &[MailPattern]) -> bool {
    let subject = mail.head().last(b"subject").unwrap_or_default();
    patterns.iter().any(|pattern| pattern.is_match(subject))
}

fn is_in(mail: &ScannedMail<'_>, list: &str, address: &[u8]) -> bool {
    mail.settings()
        .address_list(list)
        .is_some_and(|list| list.contains(address))
}

fn sender_is_in(mail: &ScannedMail<'_>, list: &str) -> bool {
    mail.settings().address_list(list).is_some_and(|list| {
        mail.sender_addresses()
            .iter()
            .any(|address| list.contains(address))
    })
}

fn recipient_is_in(mail: &ScannedMail<'_>, list: &str) -> bool {
    mail.settings().address_list(list).is_some_and(|list| {
        mail.recipient_addresses()
            .iter()
            .any(|address| list.contains(address))
    })
}

/// 1: welcome; -1: the address is listed, but another host sent it; 0: not listed.
fn sender_is_welcome(mail: &ScannedMail<'_>) -> i32 {
    if sender_is_in(mail, "welcomelist_from") {
        return 1;
    }
    sender_from(mail, &mail.settings().welcomelist_from_rcvd)
}

fn sender_is_welcome_by_default(mail: &ScannedMail<'_>) -> i32 {
    sender_from(mail, &mail.settings().default_welcomelist_from_rcvd)
}

/// The relays from which an address may come: the last untrusted one, else all trusted ones.
fn sending_relays<'a>(mail: &'a ScannedMail<'_>) -> &'a [Relay] {
    let relays = mail.relays();
    relays.untrusted.get(..1).unwrap_or(&relays.trusted)
}

fn sender_from(mail: &ScannedMail<'_>, list: &[SenderFromHost]) -> i32 {
    if list.is_empty() {
        return 0;
    }
    let relays = sending_relays(mail);
    let mut verdict = 0;
    for address in mail.sender_addresses() {
        let listed = list
            .iter()
            .filter(|sender| sender.pattern.is_match(address));
        for sender in listed {
            if relays.iter().any(|relay| relay_fits(relay, &sender.host)) {
                return 1;
            }
            verdict = -1;
        }
        if verdict < 0 && is_in(mail, "welcomelist_allows_relays", address) {
            verdict = 0;
        }
    }
    verdict
}

/// Whether a relay is the host, or its address in the brackets: `example.com`, `[10.1.]`,
/// `[2001:db8::]/32`.
fn relay_fits(relay: &Relay, host: &str) -> bool {
    let Some((network, length)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    else {
        let (rdns, host) = (relay.rdns.to_ascii_lowercase(), host.to_ascii_lowercase());
        return rdns
            .strip_suffix(&host)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'));
    };
    let mut networks = gatepost_mail::Networks::default();
    networks.add(&format!("{network}{length}")).is_ok()
        && parse_ip(relay.ip.as_bytes()).is_some_and(|address| networks.contains(address))
}

fn envelope_sender_matches_relay(mail: &ScannedMail<'_>) -> bool {
    let sender = mail.header_text("EnvelopeFrom:addr").unwrap_or_default();
    let Some(sign) = memchr::memrchr(b'@', &sender) else {
        return false;
    };
    let domain =
        String::from_utf8_lossy(sender.get(sign + 1..).unwrap_or_default()).to_ascii_lowercase();
    if !domain.contains('.') || domain.starts_with('.') || domain.ends_with('.') {
        return false;
    }
    let boundaries = &mail.view_settings().boundaries;
    let registered = boundaries.registered(&domain);
    sending_relays(mail).iter().any(|relay| {
        !relay.rdns.is_empty()
            && boundaries.registered(&relay.rdns.to_ascii_lowercase()) == registered
    })
}

/// The most labels of a host that are looked up, from the right.
const LABELS_MAX: usize = 11;

/// The lists that contain a host of a link.
fn listed<'a>(mail: &'a ScannedMail<'_>) -> &'a [String] {
    mail.findings()
        .listed_hosts
        .get_or_init(|| find_listed(mail))
}

fn find_listed(mail: &ScannedMail<'_>) -> Vec<String> {
    let lists = &mail.settings().uri_hosts;
    let mut found: Vec<String> = Vec::new();
    if lists.is_empty() {
        return found;
    }
    let links = mail.uri_list().details.iter().filter(|uri| {
        !uri.raw
            .get(..7)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"))
    });
    for (host, _) in links.flat_map(|uri| &uri.hosts) {
        let keys = keys_of(host);
        for (name, list) in lists {
            // The longest listed name decides.
            if keys.iter().find_map(|key| list.get(*key)) == Some(&true) && !found.contains(name) {
                found.push(name.clone());
            }
        }
    }
    found
}

/// `a.b.c`, `b.c`, `c`; an address unchanged.
fn keys_of(host: &str) -> Vec<&str> {
    if parse_ip(host.as_bytes()).is_some() {
        return vec![host];
    }
    let mut keys = vec![host];
    let mut rest = host;
    while let Some((_, parent)) = rest.split_once('.') {
        keys.push(parent);
        rest = parent;
    }
    let skipped = keys.len().saturating_sub(LABELS_MAX);
    keys.drain(..skipped);
    keys
}
