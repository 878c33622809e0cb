//! Lists of links and of hashes: the same results as SpamAssassin's for the same messages with the
//! same server; and the queries that rule files suppress.

use gatepost_rules::RuleSet;

use super::hits;
use super::oracle::theirs;
use super::server::{Server, Zone};

const RULES: &str = include_str!("../data/network/links.cf");

fn zone() -> Zone {
    let listed = [
        ("bad.example.multi.example", "127.0.0.2"),
        ("mailed.example.multi.example", "127.0.0.2"),
        ("9.2.0.192.multi.example", "127.0.0.2"),
        ("www.bad.example.whole.example", "127.0.0.2"),
        ("bad.example.whole.example", "127.0.0.3"),
        ("provider.example.servers.example", "127.0.0.2"),
        ("ns1.provider.example.servers.example", "127.0.0.3"),
        ("www.bad.example", "192.0.2.33"),
        ("33.2.0.192.addresses.example", "127.0.0.2"),
        ("7.2.0.192.addresses.example", "127.0.0.2"),
        ("7.2.0.192.relays.example", "127.0.0.2"),
        ("bad.example.raw.example", "127.0.0.2"),
        ("www.bad.example.raw.example", "127.0.0.2"),
        ("192.0.2.7.raw.example", "127.0.0.2"),
        ("annab.users.example", "127.0.0.2"),
        ("mail.reply.example.hosts.example", "127.0.0.2"),
        ("reply.example.domains.example", "127.0.0.2"),
        ("skipped.example.hosts.example", "127.0.0.2"),
        ("ab12.raw.example", "127.0.0.2"),
        ("ab12.asked.example", "127.0.0.2"),
    ];
    let mut zone: Zone = listed
        .into_iter()
        .map(|(name, address)| ((name, "A"), vec![address]))
        .collect();
    zone.insert(("bad.example", "NS"), vec!["ns1.provider.example"]);
    zone.insert(("text.example", "TXT"), vec!["two words"]);
    zone.insert(("text.example", "MX"), vec!["mx.text.example"]);
    zone
}

fn message(from: &str, text: &str) -> String {
    format!(
        "Received: from mail.sender.example (mail.sender.example [192.0.2.7]) by mx.example.com \
         (Postfix) with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\n\
         From: {from}\nReply-To: anna.b+tag@mail.reply.example\nX-Skipped: x@skipped.example\n\
         Subject: links\n\n{text}\n"
    )
}

fn messages() -> Vec<(&'static str, String)> {
    let from = "anna@author.example";
    let signed = format!(
        "{from}\nDKIM-Signature: v=1; a=rsa-sha256; d=bad.example; s=x;\n h=from; bh=AA==; b=AA=="
    );
    vec![
        ("a host", message(from, "see http://www.bad.example/x")),
        ("a domain", message(from, "see http://bad.example/")),
        ("an address", message(from, "see http://192.0.2.9/")),
        (
            "a private address",
            message(from, "see http://10.0.0.9/ and http://127.0.0.1/"),
        ),
        (
            "a mail address",
            message(from, "write to mailto:anna@mailed.example"),
        ),
        ("of a listed host", message("anna@bad.example", "nothing")),
        ("a signer", message(&signed, "nothing")),
        ("a captured text", message(from, "order AB12 now")),
        (
            "a skipped domain",
            message(from, "see http://www.skipped.example/"),
        ),
    ]
}

/// Rules that SpamAssassin and we must agree on, with lines that exclude domains from queries.
fn compare(switches: &str) -> Vec<Vec<String>> {
    let server = Server::start(zone());
    let rules = format!("{RULES}{switches}");
    let (set, problems) = RuleSet::from_text("net.cf", rules.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let messages = messages();
    let theirs = theirs(&server, &rules, &messages);
    let ours: Vec<Vec<String>> = messages
        .iter()
        .map(|(_, message)| hits(&set, message))
        .collect();
    let mut wrong = Vec::new();
    for (((name, _), ours), theirs) in messages.iter().zip(&ours).zip(&theirs) {
        if ours != theirs {
            wrong.push(format!("{name}:\n  ours {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{switches}\n{}", wrong.join("\n"));
    ours
}

#[test]
fn links_are_queried_as_by_spamassassin() {
    let ours = compare("");
    let all: std::collections::BTreeSet<&String> = ours.iter().flatten().collect();
    for rule in [
        "BY_DOMAIN",
        "BY_HOST",
        "HOST_OF_DOMAIN",
        "IP_ONLY",
        "NAME_ONLY",
        "SERVER_DOMAIN",
        "SERVER_LISTED",
        "SERVER_NAME",
        "ADDRESS",
        "RELAY",
        "FROM_HOST",
        "BY_TAG",
        "TAG_DOMAIN",
        "TAG_HOST",
        "TAG_IP",
        "MAIL_USER",
        "MAIL_HOST",
        "MAIL_DOMAIN",
        "MAIL_ALL",
        "CAPTURED",
        "ASKED_CAPTURED",
        "ASKED_FIELD",
        "ASKED_MASK",
        "ASKED_CODE",
        "ASKED_CODES",
        "ASKED_TEXT",
        "ASKED_MX",
        "ASKED_NS",
    ] {
        assert!(
            all.iter().any(|name| *name == rule),
            "{rule} hits nothing: {ours:#?}"
        );
    }
    for rule in [
        "TAG_NO_IP",
        "MAIL_SKIPPED",
        "ASKED_NO_FIELD",
        "ASKED_NO_MASK",
        "ASKED_NO_CODE",
        "ASKED_NO_TEXT",
    ] {
        assert!(!all.iter().any(|name| *name == rule), "{rule}: {ours:#?}");
    }
}

#[test]
fn disabled_checks_send_no_query() {
    for (switch, rule, other) in [
        ("skip_rbl_checks 1\n", "RELAY", Some("BY_DOMAIN")),
        ("skip_uribl_checks 1\n", "BY_DOMAIN", Some("RELAY")),
        ("uridnsbl_max_domains 0\n", "BY_DOMAIN", Some("RELAY")),
        (
            "dns_query_restriction deny example\ndns_query_restriction allow multi.example\n",
            "RELAY",
            Some("BY_DOMAIN"),
        ),
        ("dns_available no\n", "BY_DOMAIN", None),
    ] {
        let ours = compare(switch);
        let mut all = ours.iter().flatten();
        assert!(!all.any(|name| name == rule), "{switch}: {ours:#?}");
        if let Some(other) = other {
            let mut all = ours.iter().flatten();
            assert!(all.any(|name| name == other), "{switch}: {ours:#?}");
        }
    }
}

/// Domains of signatures are links, unless rule files say otherwise; SpamAssassin agrees with both.
#[test]
fn signers_are_queried_as_links() {
    for (switch, is_queried) in [("", true), ("parse_dkim_uris 0\n", false)] {
        let ours = compare(switch);
        let messages = messages();
        let signed = messages.iter().position(|(name, _)| *name == "a signer");
        let hits = &ours[signed.expect("the message")];
        assert_eq!(
            hits.iter().any(|name| name == "BY_DOMAIN"),
            is_queried,
            "{hits:?}"
        );
    }
}
