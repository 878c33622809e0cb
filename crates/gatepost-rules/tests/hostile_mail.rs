//! Messages made to take long: every view of each is there, and all rules end, in bounded time.
//!
//! What is measured is what the thread computes, so that a busy machine fails nothing; the bound is
//! far above what unoptimised builds take and far below what work that grows with the square of a
//! message's size would. So is the memory that the thread held at most.

#[path = "hostile/attached.rs"]
mod attached;
#[path = "hostile/held.rs"]
mod held;

use gatepost_rules::mail::{HeaderSelector, Mail};
use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What all views, or all rules, of one message may compute.
const TIME_MAX: Duration = Duration::from_mins(1);
/// Size of the large ones, bytes.
const SIZE: usize = 10_000_000;
/// Size of those that all rules judge without optimisation, bytes.
const JUDGED_SIZE: usize = 2_500_000;
/// What judging may hold beside the message: so many times its size, and what the rules compile when
/// they first meet what they look for.
const HELD_SIZES_MAX: usize = 5;
const COMPILED_MAX: usize = 12_000_000;

/// What this thread computed so far.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn read_all(name: &str, message: &[u8]) {
    let start = computed();
    let mail = Mail::parse(message);
    let mut total = mail.body().len() + mail.visible_body().len() + mail.invisible_body().len();
    total += mail.rawbody().len() + mail.uris().len() + mail.readable_text().len();
    for selector in [
        "ALL",
        "ALL:raw",
        "From:addr",
        "To:name",
        "Received",
        "X-Spam-Relays-Untrusted",
        "EnvelopeFrom",
    ] {
        total += mail
            .header(&HeaderSelector::parse(selector))
            .map_or(0, |text| text.len());
    }
    let time = computed().checked_sub(start).unwrap_or_default();
    println!("{name}: {} bytes in {time:?} ({total})", message.len());
    assert!(time < TIME_MAX, "{name} took {time:?}");
}

/// The pieces made of the numbers up to `count`.
fn numbered(count: usize, piece: impl Fn(&mut String, usize)) -> String {
    let mut all = String::new();
    (0..count).for_each(|number| piece(&mut all, number));
    all
}

fn html(body: &str) -> Vec<u8> {
    format!("Content-Type: text/html; charset=utf-8\n\n{body}").into_bytes()
}

fn plain(body: &str) -> Vec<u8> {
    format!("Subject: x\n\n{body}").into_bytes()
}

#[test]
fn nested_parts_are_bounded() {
    let mut message = String::new();
    for level in 0..20_000 {
        let _ = write!(
            message,
            "Content-Type: multipart/mixed; boundary=\"b{level}\"\n\n--b{level}\n"
        );
    }
    read_all("nested multiparts", message.as_bytes());
    let attached = "Content-Type: message/rfc822\n\n".repeat(100_000);
    read_all("nested messages", attached.as_bytes());
    let same = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n{}",
        "--b\nContent-Type: multipart/mixed; boundary=b\n\n".repeat(100_000)
    );
    read_all("one boundary", same.as_bytes());
}

#[test]
fn many_parts_are_bounded() {
    let parts = "--b\nContent-Type: text/plain\n\nx\n".repeat(SIZE / 32);
    read_all(
        "many parts",
        format!("Content-Type: multipart/mixed; boundary=b\n\n{parts}").as_bytes(),
    );
    let html = "--b\nContent-Type: text/html\n\n<p>x\n".repeat(SIZE / 34);
    read_all(
        "many HTML parts",
        format!("Content-Type: multipart/mixed; boundary=b\n\n{html}").as_bytes(),
    );
}

#[test]
fn deep_html_is_bounded() {
    for tag in [
        "div",
        "font color=red",
        "table",
        "td",
        "span style='color:#fff'",
        "a href=x",
        "b",
        "x",
    ] {
        let count = SIZE / (tag.len() + 2);
        read_all(tag, &html(&format!("<{tag}>").repeat(count)));
        let name = tag.split(' ').next().unwrap_or_default();
        read_all(
            name,
            &html(
                &(format!("<{tag}>").repeat(count / 2)
                    + &"</span></font></td></div>".repeat(SIZE / 50)),
            ),
        );
    }
}

#[test]
fn broken_html_is_bounded() {
    for piece in [
        "<",
        "<!--",
        "<![CDATA[",
        "<!DOCTYPE \"",
        "<a '",
        "<a b=\"",
        "&",
        "&#",
        "&amp",
        "</",
        "<a/href=x>",
        "]]>",
        "--",
        "<![x[",
        "<script>",
        "<title>",
        "\u{201c}",
        "<br/>",
        "<x:y>",
    ] {
        read_all(piece, &html(&piece.repeat(SIZE / piece.len())));
    }
    read_all(
        "attributes",
        &html(&format!("<a {}>", "x=y ".repeat(SIZE / 4))),
    );
    read_all(
        "different tags",
        &html(&numbered(SIZE / 10, |all, number| {
            let _ = write!(all, "<t{number:07}>");
        })),
    );
}

#[test]
fn many_links_are_bounded() {
    let text = numbered(400_000, |all, number| {
        let _ = write!(all, "http://h{number}.example.com/ ");
    });
    read_all("links in text", &plain(&text));
    let links = numbered(300_000, |all, number| {
        let _ = write!(all, "<a href=http://h{number}.example.com/>x</a>");
    });
    read_all("links in HTML", &html(&links));
    read_all(
        "one link",
        &plain(&format!(
            "http://a.com/?{}",
            "http://b.com/?".repeat(SIZE / 14)
        )),
    );
    read_all(
        "redirections",
        &html(&format!("<a href='{}'>", "http://b.com/?".repeat(1000)).repeat(600)),
    );
    for piece in [
        "@", "a@", "www.", ".com", "a.", "mailto:", "x@y.com,", "(", "http:", "1.2.3.4 ", "%41",
    ] {
        read_all(piece, &plain(&piece.repeat(SIZE / piece.len())));
    }
}

#[test]
fn long_lines_and_heads_are_bounded() {
    read_all("one line", &plain(&"x".repeat(SIZE)));
    read_all("one line of words", &plain(&"word ".repeat(SIZE / 5)));
    read_all("blank lines", &plain(&"\n".repeat(SIZE)));
    read_all("blanks", &plain(&" ".repeat(SIZE)));
    read_all("zero bytes", &plain(&"\0".repeat(SIZE)));
    read_all("fields", "A: b\n".repeat(SIZE / 5).as_bytes());
    read_all(
        "one field",
        format!("To: {}\n\n", "a@b.c, ".repeat(SIZE / 7)).as_bytes(),
    );
    read_all(
        "folds",
        format!("Subject: {}\n\n", "x\n ".repeat(SIZE / 3)).as_bytes(),
    );
    read_all(
        "words",
        format!("Subject: {}\n\n", "=?utf-8?q?a?= ".repeat(500)).as_bytes(),
    );
    read_all(
        "subjects",
        "Subject: =?iso-2022-jp?b?GyRCJCIbKEI=?=\n"
            .repeat(SIZE / 41)
            .as_bytes(),
    );
    read_all("no head", &vec![b'\xff'; SIZE]);
}

#[test]
fn odd_fields_are_bounded() {
    for piece in [
        "(", "\"", "<", "a@b <", "\\", "((", ",", "\"a\" <", "()", "<a@b>", ":", "a:;", "@", " ",
        "\t\n ",
    ] {
        let value: String = piece.repeat(8000 / piece.len());
        let mut message = Vec::new();
        for name in [
            "From",
            "To",
            "Cc",
            "Reply-To",
            "Received",
            "Content-Type",
            "Return-Path",
            "X-Envelope-From",
        ] {
            message.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        message.extend_from_slice(b"\nbody\n");
        read_all(piece, &message);
    }
    for piece in [
        "from a (b [1.2.3.4]) by c ",
        "from [",
        "(HELO x) ",
        "by ",
        "from x (",
        "1.2.3.4 ",
        "[::1] ",
        ";",
    ] {
        let line = format!("Received: from {}\n", piece.repeat(4000 / piece.len()));
        read_all(piece, format!("{}\n\nbody", line.repeat(100)).as_bytes());
    }
}

#[test]
fn encodings_are_bounded() {
    for encoding in ["base64", "quoted-printable"] {
        for piece in ["A", "=", "=4", "AAAA\n", "=\n", "=3D", "\u{e9}", "  \n"] {
            let body = piece.repeat(SIZE / piece.len());
            let head = format!(
                "Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: {encoding}\n\n"
            );
            read_all(&format!("{encoding} {piece:?}"), (head + &body).as_bytes());
        }
    }
    for charset in [
        "utf-8",
        "iso-2022-jp",
        "gb18030",
        "big5",
        "utf-16",
        "koi8-r",
        "none",
        "utf-7",
    ] {
        let mut message = format!("Content-Type: text/plain; charset={charset}\n\n").into_bytes();
        message.extend((0..SIZE).map(|at| (at * 7 % 251) as u8));
        read_all(charset, &message);
    }
}

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

/// All rules, and those that open office files.
fn judge_bounded(messages: &[(&str, Vec<u8>)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let office = folder.path().join("office.cf");
    let text = "loadplugin Mail::SpamAssassin::Plugin::OLEVBMacro\n\
        olemacro_extended_scan 1\n\
        body MACRO eval:check_olemacro()\n\
        body MALICE eval:check_olemacro_malice()\n";
    std::fs::write(&office, text).expect("written");
    let folders = [PathBuf::from("/usr/share/spamassassin"), office];
    let (rules, _) = RuleSet::load(&folders, &RulesSettings::default());
    for (name, message) in messages {
        let start = computed();
        let (report, held) = held::most_held(|| rules.scan(message, &ScanContext::default()));
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

/// So many of `piece` that they are the size of a message.
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
    ]);
}

#[test]
fn parts_are_judged_within_bounds() {
    let pieces = numbered(JUDGED_SIZE / 18, |all, number| {
        let _ = write!(all, "; name*{number}*=%41");
    });
    let multipart = "Content-Type: multipart/mixed; boundary=b\n\n--b\n";
    let text = "hello world, this is text\n".repeat(20_000);
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
        (
            "links",
            html(&numbered(JUDGED_SIZE / 120, |all, number| {
                let _ = writeln!(
                    all,
                    "<a href=\"http://h{number}.example{number}.com/{}?q={number}\">http://o{number}.com/</a>",
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

/// RFC 2045 section 6.8, in lines of 76.
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

/// Whatever the machine: the pattern takes more steps than it may, and is named; others still run.
#[test]
fn rules_at_their_limits_are_named() {
    let text = r"
body     HEAVY      /^(?=(?:a|aa)+$)/
body     HEAVY_TOO  /order (?=(?:a|aa)+$)/
rawbody  HEAVY_RAW  /^(?=(?:a|aa)+$)/
header   HEAVY_HEAD Subject =~ /^(?:a|aa)+$/
header   NOT_HEAVY  Subject !~ /^(?:a|aa)+$/
full     HEAVY_FULL /\n\n(?=(?:a|aa)+$)/
body     LIGHT      /now/
meta     BOTH       LIGHT && !HEAVY
";
    let (rules, problems) =
        RuleSet::from_text("test.cf", text.as_bytes(), &RulesSettings::default());
    assert!(problems.is_empty(), "{problems:?}");
    let row = "a".repeat(1000);
    let message = format!("Subject: {row}!\n\n{row}!\n\norder {row}! now\n");
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    let mut limited: Vec<&str> = report.limited.iter().map(AsRef::as_ref).collect();
    limited.sort_unstable();
    let heavy = [
        "HEAVY",
        "HEAVY_FULL",
        "HEAVY_HEAD",
        "HEAVY_RAW",
        "HEAVY_TOO",
        "NOT_HEAVY",
    ];
    assert_eq!(limited, heavy);
    let mut hits: Vec<&str> = report.hits.iter().map(|hit| &*hit.name).collect();
    hits.sort_unstable();
    assert_eq!(hits, ["BOTH", "LIGHT"]);
}
