//! SPF, DKIM, ARC, DMARC, the network a message came from, and lists by hashes: the same as
//! SpamAssassin says, asked about the same messages with the same server.

use std::io::Write as _;

use gatepost_rules::RuleSet;

use super::hits;
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

/// Addresses that are asked about, are not, and name who is quoted.
const ADDRESSES: &str = "From: support@author.example\nSubject: x\n\nwrite to anna@asked.example or spared@asked.example\n\n\
             <cara@asked.example> wrote http://x.example/?to=cara@asked.example\n";

const SIGNED: &str = include_str!("../data/authentication/signed.eml");
const FORWARDED: &str = include_str!("../data/authentication/forwarded.eml");

/// Messages of several senders, by what they show.
fn sent_messages() -> Vec<(&'static str, String)> {
    let plain = SIGNED.split_once("From: ").expect("a field").1;
    let plain = format!("From: {plain}");
    let through = |address: &str, sender: &str, helo: &str, message: &str| {
        format!(
            "Return-Path: <{sender}>\nReceived: from {helo} ({helo} [{address}]) by mx.example.com (Postfix) \
             with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\n{message}"
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

/// What SpamAssassin itself says with the same rules and the same server.
fn theirs(server: &Server, rules: &str, messages: &[(&str, String)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["rules", "site", "state"] {
        std::fs::create_dir(path(name)).expect("a folder");
    }
    let plugins = [
        "Check", "DNSEval", "SPF", "DKIM", "ASN", "HashBL", "WLBLEval", "DMARC",
    ];
    let plugins = plugins.map(|name| format!("loadplugin Mail::SpamAssassin::Plugin::{name}\n"));
    let network = format!("dns_available yes\ndns_server {}\n", server.address);
    std::fs::write(path("site/init.pre"), plugins.concat()).expect("written");
    std::fs::write(path("rules/cases.cf"), format!("{network}{rules}")).expect("written");
    let suffixes = path("suffixes");
    std::fs::write(&suffixes, "example\n").expect("written");
    let dmarc = format!(
        "[dns]\ntimeout = 5\npublic_suffix_list = {}\n",
        suffixes.display()
    );
    std::fs::write(path("dmarc.ini"), dmarc).expect("written");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hits.pl");
    let mut judge = std::process::Command::new("perl")
        .arg(script)
        .env("RULES", path("rules"))
        .env("SITE", path("site"))
        .env("STATE", path("state"))
        .env("NETWORK", "1")
        // Mail::DMARC asks by a resolver of its own, which these turn to ours, and knows `example`
        // for a top-level domain only if it is told.
        .env("MAIL_DMARC_CONFIG_FILE", path("dmarc.ini"))
        .env("RES_NAMESERVERS", server.address.ip().to_string())
        .env("RES_OPTIONS", format!("port:{}", server.address.port()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the peers 'perl' and 'spamassassin' are installed");
    let mut input = judge.stdin.take().expect("is piped");
    for (index, (_, message)) in messages.iter().enumerate() {
        let file = path(&format!("{index}.eml"));
        std::fs::write(&file, message).expect("written");
        writeln!(input, "{index}\t{}", file.display()).expect("SpamAssassin reads");
    }
    drop(input);
    let output = judge.wait_with_output().expect("SpamAssassin ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().map(|line| {
        let names = line.rsplit('\t').next().unwrap_or_default().split(',');
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    });
    names.collect()
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
    // SpamAssassin's header rules may run before the field is there.
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
