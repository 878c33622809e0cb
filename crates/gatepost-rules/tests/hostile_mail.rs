//! Messages made to take long: every view of each is there, and all rules end, in bounded time.
//!
//! What is measured is what the thread computes, so that a busy machine fails nothing; the bound is
//! far above what unoptimised builds take and far below what work that grows with the square of a
//! message's size would.

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
