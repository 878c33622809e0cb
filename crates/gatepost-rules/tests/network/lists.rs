//! Lists of addresses, links and domains.

use std::sync::atomic::Ordering;

use gatepost_rules::{RuleSet, RulesSettings};
use gatepost_settings::Period;

use super::hits;
use super::server::{Server, Zone};

const RULES: &str = include_str!("../data/network/lists.cf");

const MESSAGE: &str = "Return-Path: <bounce@sender.example>\n\
Received: from mail.sender.example (mail.sender.example [192.0.2.7]) by mx.example.com (Postfix) \
with ESMTP id AB for <x@example.com>; Sat, 21 Nov 2026 04:00:00 +0000 (UTC)\n\
Received: from home (home [198.51.100.9]) by mail.sender.example with ESMTP id 2; Sat, 21 Nov 2026 \
03:59:00 +0000\n\
From: anna@author.example\n\
Subject: links\n\
\n\
see http://www.bad.example/ and http://skipped.example/ and http://mail.quiet.example/\n";

fn zone() -> Zone {
    let long: &'static str = Box::leak(format!("{} end", "x".repeat(1500)).into_boxed_str());
    Zone::from([
        (
            ("7.2.0.192.zen.example", "A"),
            vec!["127.0.0.2", "127.0.0.11"],
        ),
        (("7.2.0.192.bits.example", "A"), vec!["127.0.0.6"]),
        (
            ("9.100.51.198.text.example", "TXT"),
            vec!["Listed, see the page"],
        ),
        (("7.2.0.192.long.example", "TXT"), vec![long]),
        (("7.2.0.192.page.example", "A"), vec!["192.0.2.80"]),
        (("sender.example.rhs.example", "A"), vec!["127.0.0.2"]),
        (("bad.example.multi.example", "A"), vec!["127.0.0.12"]),
        (("quiet.example.only.example", "A"), vec!["127.0.0.2"]),
        (("www.bad.example", "A"), vec!["192.0.2.33"]),
        (("33.2.0.192.zen.example", "A"), vec!["127.0.0.3"]),
        (("quiet.example", "NS"), vec!["ns.quiet.example"]),
        (("ns.quiet.example", "A"), vec!["192.0.2.44"]),
        (("44.2.0.192.zen.example", "A"), vec!["127.0.0.4"]),
        (("author.example.ask.example", "A"), vec!["127.2.0.2"]),
        (("sender.example", "TXT"), vec!["v=spf1 +all"]),
    ])
}

#[test]
fn lists_and_domains_are_queried() {
    let server = Server::start(zone());
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let expected = [
        "ASKED",
        "ASKED_ANY",
        "ASKED_LIST",
        "ASKED_TEXT",
        "BITS",
        "BOTH",
        "FROM_LIST",
        "IN_PBL",
        "IN_SBL",
        "LINK_BITS",
        "LINK_DOMAIN",
        "LINK_EXACT",
        "LINK_HOST",
        "LINK_SERVER",
        "LONG_TEXT",
        "ONLINE",
        "TEXT",
    ];
    assert_eq!(hits(&rules, MESSAGE), expected);
    assert_eq!(
        server.by_tcp.load(Ordering::Relaxed),
        1,
        "what does not fit is queried by TCP"
    );
    let questions = server.questions();
    assert!(
        !questions
            .iter()
            .any(|question| question.contains("skipped")),
        "{questions:?}"
    );
    let mut once = questions.clone();
    once.sort();
    once.dedup();
    assert_eq!(
        once.len(),
        questions.len(),
        "each question is put once: {questions:?}"
    );
}

/// SpamAssassin's rule about it never hits.
#[test]
fn a_sender_without_a_domain() {
    let server = Server::start(Zone::new());
    let (rules, _) = RuleSet::from_text("net.cf", RULES.as_bytes(), &server.settings());
    assert_eq!(hits(&rules, MESSAGE), ["ONLINE"]);
}

#[test]
fn without_network_nothing_is_queried_and_each_rule_is_named() {
    let server = Server::start(zone());
    let settings = RulesSettings {
        network: false,
        ..server.settings()
    };
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &settings);
    assert_eq!(hits(&rules, MESSAGE), [""; 0]);
    assert_eq!(server.questions(), [""; 0]);
    let named = |name: &str| {
        let mut all = problems.iter();
        all.any(|problem| {
            problem.rule.as_deref() == Some(name) && problem.cause == "network tests are off"
        })
    };
    for name in [
        "__ZEN",
        "IN_SBL",
        "FROM_LIST",
        "NO_SENDER",
        "LINK_BITS",
        "LINK_SERVER",
        "ASKED",
    ] {
        assert!(named(name), "{name}: {problems:?}");
    }
}

#[test]
fn unanswered_queries_do_not_hit() {
    let server = Server::start(Zone::from([(
        ("7.2.0.192.zen.example", "A"),
        vec!["127.0.0.2"],
    )]));
    let settings = RulesSettings {
        network_time_max: Period::milliseconds(1500),
        ..server.settings()
    };
    let text = "trusted_networks 203.0.113.0/24\n\
        header QUICK eval:check_rbl('zen', 'zen.example.')\n\
        askdns SILENT silent.example A\n";
    let (rules, problems) = RuleSet::from_text("net.cf", text.as_bytes(), &settings);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(hits(&rules, MESSAGE), ["QUICK"]);
    let silent = server.questions();
    let silent = silent
        .iter()
        .filter(|question| question.starts_with("silent"));
    assert_eq!(silent.count(), 2, "what is not answered is sent once more");
}

#[test]
fn a_lost_question_is_sent_again() {
    let server = Server::start(Zone::from([(("lost.example", "A"), vec!["127.0.0.2"])]));
    let settings = RulesSettings {
        network_time_max: Period::seconds(3),
        ..server.settings()
    };
    let (rules, problems) =
        RuleSet::from_text("net.cf", b"askdns LOST lost.example A\n", &settings);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(hits(&rules, MESSAGE), ["LOST"]);
}

#[test]
fn a_list_that_does_not_answer_is_left_out_for_a_while() {
    let server = Server::start(Zone::from([(
        ("7.2.0.192.zen.example", "A"),
        vec!["127.0.0.2"],
    )]));
    let settings = RulesSettings {
        network_time_max: Period::milliseconds(200),
        list_unanswered_max: 2,
        ..server.settings()
    };
    let text = "header QUICK eval:check_rbl('zen', 'zen.example.')\n\
        askdns DEAD silent._LASTEXTERNALREVIP_.dead.example A\n";
    let (rules, problems) = RuleSet::from_text("net.cf", text.as_bytes(), &settings);
    assert!(problems.is_empty(), "{problems:?}");
    let dead_was_queried = || {
        assert_eq!(hits(&rules, MESSAGE), ["QUICK"]);
        let questions = server.questions();
        questions.iter().any(|question| question.contains("silent"))
    };
    assert!(dead_was_queried() && dead_was_queried());
    assert!(!dead_was_queried(), "it is silent by now");
    let silent = rules.silent_lists();
    let silent: Vec<_> = silent
        .iter()
        .map(|list| (&*list.list, list.skipped))
        .collect();
    assert_eq!(silent, [("dead.example", 1)]);
}

#[test]
fn a_list_that_refuses_is_not_queried_for_a_while() {
    let server = Server::start(Zone::from([
        (("7.2.0.192.zen.example", "A"), vec!["127.255.255.254"]),
        (("7.2.0.192.other.example", "A"), vec!["127.0.0.2"]),
    ]));
    let text = "trusted_networks 203.0.113.0/24\n\
        header LISTED eval:check_rbl('zen', 'zen.example.')\n\
        header REFUSED eval:check_rbl_sub('zen', '127.255.255.254')\n\
        header OTHER eval:check_rbl('other', 'other.example.')\n\
        dns_block_rule REFUSED zen.example\n\
        dns_block_rule LISTED_NOWHERE other.example\n";
    let (rules, problems) = RuleSet::from_text("net.cf", text.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    let queried = || {
        let questions = server.questions();
        questions.iter().any(|question| question.contains("zen"))
    };
    let first = hits(&rules, MESSAGE);
    assert!(first.contains(&"REFUSED".to_owned()) && first.contains(&"OTHER".to_owned()));
    assert!(queried());
    assert_eq!(hits(&rules, MESSAGE), ["OTHER"]);
    assert!(!queried(), "the list is blocked");
}

#[test]
fn an_impossible_server_is_reported() {
    let settings = RulesSettings {
        network: true,
        dns_server: Some("moon".to_owned()),
        ..RulesSettings::default()
    };
    let (rules, problems) = RuleSet::from_text("net.cf", RULES.as_bytes(), &settings);
    assert!(
        problems
            .iter()
            .any(|problem| problem.cause == "no DNS server"),
        "{problems:?}"
    );
    assert_eq!(hits(&rules, MESSAGE), [""; 0]);
}

/// A rule that ends the scan before the network has its turn, alone or as a part of a meta.
#[test]
fn a_scan_that_ends_early_asks_nothing() {
    let server = Server::start(zone());
    let text = "loadplugin Mail::SpamAssassin::Plugin::DNSEval\n\
        loadplugin Mail::SpamAssassin::Plugin::Shortcircuit\n\
        header QUICK eval:check_rbl('zen', 'zen.example.')\n\
        header __LINKS Subject =~ /links/\nmeta STOP __LINKS\npriority STOP -1000\n\
        shortcircuit STOP on\nheader STOP_LATER Subject =~ /late/\nshortcircuit STOP_LATER on\n";
    let (rules, problems) = RuleSet::from_text("net.cf", text.as_bytes(), &server.settings());
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(hits(&rules, MESSAGE), ["SHORTCIRCUIT", "STOP"]);
    let late = MESSAGE.replace("Subject: links", "Subject: late");
    assert_eq!(hits(&rules, &late), ["SHORTCIRCUIT", "STOP_LATER"]);
    assert_eq!(server.questions(), [""; 0]);
    let other = MESSAGE.replace("Subject: links", "Subject: other");
    assert_eq!(hits(&rules, &other), ["QUICK"]);
    assert!(!server.questions().is_empty());
}
