//! Every view of a message is made in bounded time, whatever its structure, its head, its encodings
//! and its HTML are.

use std::fmt::Write as _;

use gatepost_mail::{HeaderSelector, Mail};

use super::{SIZE, TIME_MAX, computed, html, numbered, plain};

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
                "Content-Type: text/plain; charset=utf-16\n\
                 Content-Transfer-Encoding: {encoding}\n\n"
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
