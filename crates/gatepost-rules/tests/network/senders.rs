//! SPF, DKIM, ARC, DMARC, the network a message came from, and lists by hashes: the same results as
//! SpamAssassin's for the same messages with the same server.

use gatepost_rules::{RuleSet, ScanContext};

use super::hits;
use super::oracle::theirs;
use super::server::{Server, Zone};

/// The usual rules about senders, and lists of those who are welcome.
const SENDER_RULES: &str = include_str!("../data/network/senders.cf");

fn sender_zone() -> Zone {
    let mut zone = Zone::new();
    let text = include_str!("../data/authentication/keys.txt");
    for line in text.lines() {
        let (name, value) = line.split_once(" TXT ").expect("a key");
        zone.insert((name, "TXT"), vec![value]);
    }
    zone.extend([
        (
            ("author.example", "TXT"),
            vec!["v=spf1 include:_spf.author.example mx -all"],
        ),
        (
            ("_spf.author.example", "TXT"),
            vec!["v=spf1 a:out.author.example ~all"],
        ),
        (("out.author.example", "A"), vec!["192.0.2.7"]),
        (("author.example", "MX"), vec!["mx.author.example"]),
        (("mx.author.example", "A"), vec!["192.0.2.8"]),
        (("soft.example", "TXT"), vec!["v=spf1 ~all"]),
        (("soft.example", "MX"), vec!["mx.author.example"]),
        (("broken.example", "TXT"), vec!["v=spf1 moon"]),
        (("_adsp._domainkey.soft.example", "TXT"), vec!["dkim=all"]),
        (("mail.author.example", "TXT"), vec!["v=spf1 a -all"]),
        (("mail.author.example", "A"), vec!["192.0.2.7"]),
        (
            ("7.2.0.192.asn.example", "TXT"),
            vec!["64496 | 192.0.2.0/24 | ZZ"],
        ),
        // md5 of anna@author.example, and a word of the text as it stands.
        (
            ("9c59fc35eaeda938da824d6690ef827f.hash.example", "A"),
            vec!["127.0.0.2"],
        ),
        (("signed.raw.example", "A"), vec!["127.0.0.2"]),
        (
            ("support@author.example.all.example", "A"),
            vec!["127.0.0.2"],
        ),
        (("anna@asked.example.plain.example", "A"), vec!["127.0.0.2"]),
        (
            ("cara@asked.example.hidden.example", "A"),
            vec!["127.0.0.2"],
        ),
        (
            ("spared@asked.example.spared.example", "A"),
            vec!["127.0.0.2"],
        ),
        (("neutral.example", "TXT"), vec!["v=spf1 ?all"]),
        (("_dmarc.author.example", "TXT"), vec!["v=DMARC1; p=reject"]),
        (
            ("_dmarc.soft.example", "TXT"),
            vec!["v=DMARC1; p=quarantine; pct=100"],
        ),
        (("_dmarc.custom.example", "TXT"), vec!["v=DMARC1; p=none"]),
        (("custom.example", "A"), vec!["192.0.2.9"]),
        (("strict.example", "A"), vec!["192.0.2.9"]),
        (
            ("_dmarc.strict.example", "TXT"),
            vec!["v=DMARC1; p=reject; aspf=s"],
        ),
        (("mail.strict.example", "TXT"), vec!["v=spf1 +all"]),
    ]);
    zone
}

/// Addresses that are looked up, that are not, and that name a quoted author.
const ADDRESSES: &str = "From: support@author.example\nSubject: x\n\n\
    write to anna@asked.example or spared@asked.example\n\n\
             <cara@asked.example> wrote http://x.example/?to=cara@asked.example\n";

const SIGNED: &str = include_str!("../data/authentication/signed.eml");
const FORWARDED: &str = include_str!("../data/authentication/forwarded.eml");

/// Messages of several senders, by what they show.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn sent_messages() -> Vec<(&'static str, String)> {
    let plain = SIGNED.split_once("From: ").expect("a field").1;
    let plain = format!("From: {plain}");
    let through = |address: &str, sender: &str, helo: &str, message: &str| {
        format!(
            "Return-Path: <{sender}>\nReceived: from {helo} ({helo} [{address}]) by mx.example.com \
             (Postfix) with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 \
             (UTC)\n{message}"
        )
    };
    let ours = "anna@author.example";
    vec![
        (
            "signed, right server",
            through("192.0.2.7", ours, "mail.author.example", SIGNED),
        ),
        (
            "signed, exchanger",
            through("192.0.2.8", ours, "mail.author.example", SIGNED),
        ),
        (
            "signed, wrong server",
            through("198.51.100.1", ours, "unknown.example", SIGNED),
        ),
        (
            "changed",
            through(
                "192.0.2.7",
                ours,
                "[192.0.2.7]",
                &SIGNED.replace("Hello", "Hallo"),
            ),
        ),
        (
            "forwarded",
            through("198.51.100.1", "list@forward.example", "forward", FORWARDED),
        ),
        (
            "forwarded, changed",
            through(
                "198.51.100.1",
                "",
                "forward.example",
                &FORWARDED.replace("Hello", "Hi"),
            ),
        ),
        (
            "plain",
            through(
                "192.0.2.7",
                "x@soft.example",
                "soft.example",
                &plain.replace("author", "soft"),
            ),
        ),
        (
            "no such author",
            through(
                "192.0.2.7",
                "x@broken.example",
                "h.example",
                &plain.replace("author", "nowhere"),
            ),
        ),
        (
            "custom",
            through(
                "192.0.2.7",
                "x@nothing.example",
                "h.example",
                &plain.replace("author", "custom"),
            ),
        ),
        ("no relay", plain.clone()),
        (
            "unclosed author",
            through(
                "198.51.100.1",
                "x@soft.example",
                "h.example",
                &plain.replace("anna@author.example>", "anna@author.example"),
            ),
        ),
        ("addresses", ADDRESSES.to_owned()),
        (
            "of a subdomain, by its sender",
            through(
                "192.0.2.7",
                "x@mail.strict.example",
                "neutral.example",
                &plain.replace("author", "strict"),
            ),
        ),
        (
            "of a subdomain, author",
            through(
                "198.51.100.1",
                "x@soft.example",
                "broken.example",
                &plain.replace("author", "news.soft"),
            ),
        ),
        (
            "noted",
            format!(
                "Received-SPF: softfail (x) identity=mailfrom; x\n{}",
                through("192.0.2.7", ours, "h.example", &plain)
            ),
        ),
    ]
}

/// The rules that hit a message that this server received directly from `sender`.
fn hits_from(rules: &RuleSet, sender: &str, message: &str) -> Vec<String> {
    let context = ScanContext {
        envelope_sender: Some(sender),
        ..ScanContext::default()
    };
    let report = rules.scan(message.as_bytes(), &context);
    report.hits.iter().map(|hit| hit.name.to_string()).collect()
}

#[test]
fn a_client_proves_only_its_own_sender() {
    let server = Server::start(sender_zone());
    let (rules, problems) =
        RuleSet::from_text("net.cf", SENDER_RULES.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let received = |helo: &str, program: &str| {
        format!(
            "Received: from {helo} ([192.0.2.8])\r\n\tby mx.example.com ({program}) with ESMTP \
             id AB;\r\n\tSat, 21 Nov 2026 04:00:00 +0000\r\nFrom: anna@strict.example\r\n\
             Subject: x\r\n\r\nHello\r\n"
        )
    };
    // SPF passes for author.example only, and the author's domain is another.
    let own = hits_from(
        &rules,
        "x@author.example",
        &received("h.example", "Gatepost"),
    );
    assert!(own.iter().any(|name| name == "SPF_PASS"), "{own:?}");
    // A name of the client that claims a sender proves nothing for the real one, nor for a bounce.
    for program in ["Gatepost", "Gatepost milter", "elsewhere"] {
        for sender in ["x@strict.example", ""] {
            let message = received("envelope-from=x@author.example", program);
            let names = hits_from(&rules, sender, &message);
            let is_proven = |name: &String| name == "SPF_PASS" || name == "DMARC_PASS";
            assert!(
                !names.iter().any(is_proven),
                "{program} {sender}: {names:?}"
            );
            assert!(
                names.iter().any(|name| name == "DMARC_REJECT"),
                "{program} {sender}: {names:?}"
            );
        }
    }
}

#[test]
fn senders_are_proven_as_spamassassin_proves_them() {
    let server = Server::start(sender_zone());
    let (rules, problems) =
        RuleSet::from_text("net.cf", SENDER_RULES.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let messages = sent_messages();
    let theirs = theirs(&server, SENDER_RULES, &messages);
    let mut ours: Vec<Vec<String>> = messages
        .iter()
        .map(|(_, message)| hits(&rules, message))
        .collect();
    let mut theirs = theirs;
    // SpamAssassin's header rules may run before the field exists.
    let has_field = |names: &Vec<String>| names.iter().any(|name| name == "ASN_FIELD");
    assert!(ours.iter().any(has_field), "{ours:#?}");
    // It no longer notices that a key is marked as one that is being tried.
    let is_tested = |names: &Vec<String>| names.iter().any(|name| name == "DKIM_TESTING");
    assert!(ours.iter().any(is_tested), "{ours:#?}");
    assert!(!theirs.iter().any(is_tested), "as ours: compare it below");
    // It calls a chain valid of which one seal is, though the message was changed since.
    for names in ours.iter_mut().chain(&mut theirs) {
        names.retain(|name| name != "ASN_FIELD" && name != "DKIM_TESTING");
    }
    let both = messages.iter().zip(ours.iter_mut().zip(&mut theirs));
    for ((name, _), names) in
        both.flat_map(|(message, (ours, theirs))| [(message, ours), (message, theirs)])
    {
        let by_chain = ["ARC_VALID", "DMARC_PASS", "DMARC_REJECT"];
        names.retain(|rule| *name != "forwarded, changed" || !by_chain.contains(&rule.as_str()));
    }
    let mut wrong = Vec::new();
    for (((name, _), ours), theirs) in messages.iter().zip(&ours).zip(&theirs) {
        if ours != theirs {
            wrong.push(format!("{name}:\n  ours {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The address that a mail program shows as the author counts, closed or not.
    let unclosed = messages
        .iter()
        .zip(&ours)
        .find(|(message, _)| message.0 == "unclosed author");
    let names = unclosed.expect("it is there").1;
    assert!(names.iter().any(|name| name == "DMARC_REJECT"), "{names:?}");
    let all: std::collections::BTreeSet<&String> = ours.iter().flatten().collect();
    for rule in [
        "SPF_PASS",
        "SPF_FAIL",
        "SPF_SOFTFAIL",
        "SPF_NONE",
        "SPF_PERMERROR",
        "SPF_HELO_PASS",
        "SPF_WELCOME",
        "DKIM_VALID_AU",
        "DKIM_VALID_EF",
        "DKIM_INVALID",
        "DKIM_WELCOME",
        "DKIM_DEF_WELCOME",
        "DKIM_NXDOMAIN",
        "DKIM_ALL",
        "DKIM_CUSTOM",
        "ARC_VALID",
        "DMARC_PASS",
        "DMARC_REJECT",
        "DMARC_QUAR",
        "DMARC_NONE",
        "DMARC_MISSING",
        "ASN",
        "HASHED",
        "HASHED_TEXT",
        "HASHED_SUPPORT",
        "HASHED_BODY",
    ] {
        assert!(
            all.iter().any(|name| *name == rule),
            "{rule} hits nothing: {ours:#?}"
        );
    }
}
