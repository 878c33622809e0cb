//! All rules judge a message in bounded time, and use little memory in addition to it.

use std::fmt::Write as _;
use std::path::PathBuf;

use gatepost_learning::Learning;
use gatepost_learning::bayes::{Class, Learned};
use gatepost_mail::Mail;
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

use super::{SIZE, TIME_MAX, attached, computed, held, html, numbered, plain};

/// Size of those that all rules judge without optimisation, bytes.
const JUDGED_SIZE: usize = 2_500_000;
/// The memory that judging may hold beside the message: so many times its size, and the automata
/// that the rules compile on first use.
const HELD_SIZES_MAX: usize = 5;
const COMPILED_MAX: usize = 12_000_000;

#[test]
fn all_stock_rules_end() {
    let stock = [PathBuf::from("/usr/share/spamassassin")];
    let (rules, _) = RuleSet::load(&stock, &RulesSettings::default());
    assert!(rules.statistics().rules > 2000, "the stock rules are there");
    let words = "your name: address: phone: send me the money within 48 hours, my malware ";
    let links = numbered(300_000, |all, number| {
        let _ = write!(all, "<a href=http://h{number}.example.com/>x</a>");
    });
    let nested = numbered(20_000, |all, level| {
        let _ = write!(
            all,
            "Content-Type: multipart/mixed; boundary=\"b{level}\"\n\n--b{level}\n"
        );
    });
    let messages = [
        (
            "words that rules look for",
            plain(&words.repeat(SIZE / words.len())),
        ),
        ("one line", plain(&"x".repeat(SIZE))),
        ("blank lines", plain(&"\n".repeat(SIZE))),
        ("links", html(&links)),
        ("deep HTML", html(&"<div>".repeat(SIZE / 5))),
        ("nested parts", nested.into_bytes()),
        (
            "texts of nested alternatives",
            (alternatives() + &texts_of_alternatives()).into_bytes(),
        ),
        (
            "a long subject",
            [b"Subject: ", "your ".repeat(SIZE / 5).as_bytes(), b"\n\n"].concat(),
        ),
    ];
    for (name, message) in messages {
        let start = computed();
        let report = rules.scan(&message, &ScanContext::default());
        let time = computed().checked_sub(start).unwrap_or_default();
        println!(
            "{name}: {time:?}, {} rules at their limits",
            report.limited.len()
        );
        assert!(time < TIME_MAX, "{name} took {time:?}");
    }
}

/// The texts of an alternative.
const TEXT_KINDS: [&str; 2] = ["text/html", "text/plain"];

/// Twenty alternatives inside each other, up to the first part of the innermost.
fn alternatives() -> String {
    numbered(20, |all, level| {
        let kind = "multipart/alternative";
        let _ = write!(
            all,
            "Content-Type: {kind}; boundary=b{level}\n\n--b{level}\n"
        );
    })
}

/// As many texts as are read of each of these, and of all.
fn texts_of_alternatives() -> String {
    numbered(20, |all, number| {
        let boundary = format!("--b{}", 19 - number);
        let texts = TEXT_KINDS.map(|kind| format!("Content-Type: {kind}\n\n<p>x\n{boundary}\n"));
        // A part of the outer multipart follows the end of the inner one.
        let first = if number == 0 { "" } else { &boundary };
        let _ = write!(all, "{first}\n{}{boundary}--\n", texts.concat().repeat(498));
    })
}

/// The rules with learned data that suffices for Bayes.
fn trained(rules: RuleSet) -> RuleSet {
    let rules = rules.with_learning(Learning::in_memory());
    let learning = rules.learning().expect("was joined");
    for class in [Class::Spam, Class::Ham] {
        let text = format!("Message-Id: <{class:?}@b.com>\nTo: a@a.a\n\n{class:?} hello\n");
        let settings = rules.learning_settings();
        let learned = learning.learn(&Mail::parse(text.as_bytes()), class, settings);
        assert_eq!(learned.expect("learns"), Learned::New);
    }
    rules
}

/// All rules, those that open office files, and Bayes.
fn judge_bounded(messages: &[(&str, Vec<u8>)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let office = folder.path().join("office.cf");
    let text = "loadplugin Mail::SpamAssassin::Plugin::OLEVBMacro\n\
        olemacro_extended_scan 1\n\
        body MACRO eval:check_olemacro()\n\
        body MALICE eval:check_olemacro_malice()\n\
        bayes_min_spam_num 1\n\
        bayes_min_ham_num 1\n";
    std::fs::write(&office, text).expect("written");
    let folders = [PathBuf::from("/usr/share/spamassassin"), office];
    let (rules, _) = RuleSet::load(&folders, &RulesSettings::default());
    let rules = trained(rules);
    let learning = rules.learning().expect("was joined");
    assert!(learning.bayes.is_ready(&rules.learning_settings().bayes));
    for (name, message) in messages {
        let start = computed();
        let (report, held) = held::most_held(|| rules.scan(message, &ScanContext::default()));
        let (_, held_by_learning) = held::most_held(|| {
            let mail = Mail::parse(message);
            learning.learn(&mail, Class::Spam, rules.learning_settings())
        });
        let held = held.max(held_by_learning);
        let time = computed().checked_sub(start).unwrap_or_default();
        println!(
            "{name}: {} bytes in {time:?}, {held} bytes held, {} rules at their limits",
            message.len(),
            report.limited.len()
        );
        assert!(time < TIME_MAX, "{name} took {time:?}");
        let held_max = HELD_SIZES_MAX * message.len() + COMPILED_MAX;
        assert!(held < held_max, "{name} held {held} bytes");
    }
}

/// Repeats `piece` up to the size of a message.
fn many(piece: &str) -> String {
    piece.repeat(JUDGED_SIZE / piece.len())
}

#[test]
fn heads_are_judged_within_bounds() {
    let people = numbered(JUDGED_SIZE / 30, |all, number| {
        let _ = writeln!(all, "From: \"Joe {number}\" <a{number}@b.com>");
    });
    let relays = numbered(JUDGED_SIZE / 130, |all, number| {
        let _ = writeln!(
            all,
            "Received: from h{number}.example.com (h.example.com [11.1.{}.{}]) by mx.example.net \
             (Postfix) with ESMTP id A{number}; Thu, 5 Jun 2025 10:00:00 +0000",
            number / 256 % 256,
            number % 256
        );
    });
    let recipients = numbered(JUDGED_SIZE / 13, |all, number| {
        let _ = write!(all, "a{number}@b.c,\n ");
    });
    let host = ["a"; 127].join(".");
    let names = numbered(JUDGED_SIZE / 12, |all, number| {
        let _ = writeln!(all, "X{number}: b");
    });
    judge_bounded(&[
        ("fields", format!("{}\nx\n", many("A: b\n")).into_bytes()),
        (
            "fields of different names",
            format!("{names}\nx\n").into_bytes(),
        ),
        ("authors", format!("{people}\nx\n").into_bytes()),
        ("relays", format!("{relays}\nx\n").into_bytes()),
        (
            "recipients",
            format!("To: {recipients}\n\nx\n").into_bytes(),
        ),
        (
            "recipients in fields",
            format!("{}\nx\n", people.replace("From:", "To:")).into_bytes(),
        ),
        (
            "recipients of hosts with many labels",
            format!("{}\nx\n", many(&format!("To: a@{host}\n"))).into_bytes(),
        ),
        (
            "a recipient of a host with many labels",
            format!("To: a@{}a\n\nx\n", "a.".repeat(4000)).into_bytes(),
        ),
    ]);
}

#[test]
fn parts_are_judged_within_bounds() {
    let pieces = numbered(JUDGED_SIZE / 18, |all, number| {
        let _ = write!(all, "; name*{number}*=%41");
    });
    let multipart = "Content-Type: multipart/mixed; boundary=b\n\n--b\n";
    let text = "hello world, this is text\n".repeat(20_000);
    let words = numbered(JUDGED_SIZE / 16, |all, number| {
        let _ = write!(all, "{number:07} ");
    });
    let texts = TEXT_KINDS.map(|kind| format!("Content-Type: {kind}\n\n{words}\n--b19\n"));
    let texts = alternatives() + &texts.concat();
    let nested = (0..4).fold(format!("Subject: x\n\n{text}"), |inner, _| {
        let encoded = base64(inner.as_bytes());
        format!("Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{encoded}")
    });
    judge_bounded(&[
        (
            "pieces of a parameter",
            format!("Content-Type: a/b{pieces}\n\nx\n").into_bytes(),
        ),
        (
            "fields of a part",
            (multipart.to_owned() + &many("Content-Type: a/b; name=x\n")).into_bytes(),
        ),
        ("messages in messages", nested.into_bytes()),
        ("words of nested alternatives", texts.into_bytes()),
        ("a word with many labels", plain(&many("a."))),
        ("short words", plain(&many("A.b "))),
        (
            "links",
            html(&numbered(JUDGED_SIZE / 120, |all, number| {
                let _ = writeln!(
                    all,
                    "<a href=\"http://h{number}.example{number}.com/{}?q={number}\">\
                     http://o{number}.com/</a>",
                    "p".repeat(60)
                );
            })),
        ),
    ]);
}

#[test]
fn attached_files_are_judged_within_bounds() {
    let code = b"\x01\xff\xbfAttribut VB_Name auto_open shell createobject ".repeat(10_000);
    judge_bounded(&[
        (
            "streams of one chain",
            attached::message("a.doc", &attached::compound_file(10_000, &code)),
        ),
        (
            "members of one place",
            attached::message("a.docm", &attached::archive(60_000, &code)),
        ),
    ]);
}

/// RFC 2045, section 6.8, in lines of 76.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for (index, three) in bytes.chunks(3).enumerate() {
        let number = (0..3).fold(0_usize, |number, at| {
            number << 8 | three.get(at).map_or(0, |&byte| usize::from(byte))
        });
        for place in 0..4 {
            let letter = char::from(LETTERS[number >> (18 - 6 * place) & 63]);
            text.push(if place <= three.len() { letter } else { '=' });
        }
        if index % 19 == 18 {
            text.push('\n');
        }
    }
    text
}
