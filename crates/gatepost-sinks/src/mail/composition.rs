//! A mail as text: its fields, and a body that any relay passes on unchanged.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_message::{EditedField, MessageId};
use time::OffsetDateTime;
use time::macros::format_description;

/// RFC 5321, section 4.5.3.1.6, without the line end.
const LINE_BYTES_MAX: usize = 998;
/// RFC 2045, section 6.8.
const BASE64_LINE: usize = 76;
/// Characters of a subject.
const SUBJECT_CHARACTERS_MAX: usize = 200;

/// The content of a mail.
pub(super) struct MailContent<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a [String],
    pub(super) subject: &'a str,
    pub(super) body: &'a str,
    /// The body once more, as HTML, for the mail programs that show it.
    pub(super) html: Option<&'a str>,
    /// The message that the mail is about: the same again in each attempt, so that a mail that
    /// arrives twice is known.
    pub(super) id: MessageId,
    pub(super) sink: &'a str,
}

/// The whole mail, with CR LF.
pub(super) fn compose(content: &MailContent<'_>) -> Vec<u8> {
    let MailContent {
        from, to, id, sink, ..
    } = content;
    let host = host_of(from);
    let mut text = format!("From: <{from}>\r\nTo: {}\r\n", list(to));
    text += &field("Subject", content.subject);
    let (date, id) = (date(id.time()), id.to_string());
    text += &[
        "Date: ",
        &date,
        "\r\nMessage-ID: <",
        &id,
        ".",
        sink,
        "@",
        host,
        ">\r\n",
    ]
    .concat();
    text += "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n";
    match content.html {
        None => push_part(&mut text, "plain", content.body),
        Some(html) => {
            let boundary = boundary(&id, &[content.body, html]);
            text += "Content-Type: multipart/alternative; boundary=\"";
            text += &[&boundary, "\"\r\n\r\n"].concat();
            // RFC 2046, section 5.1.4: the best form is last.
            for (kind, body) in [("plain", content.body), ("html", html)] {
                text += &["--", &boundary, "\r\n"].concat();
                push_part(&mut text, kind, body);
            }
            text += &["--", &boundary, "--\r\n"].concat();
        }
    }
    text.into_bytes()
}

/// A boundary that no part contains.
fn boundary(id: &str, parts: &[&str]) -> String {
    let mut boundary = format!("=_{id}");
    while parts.iter().any(|part| part.contains(&boundary)) {
        boundary.push('_');
    }
    boundary
}

/// Adds a text of this kind with the fields that describe it.
fn push_part(text: &mut String, kind: &str, body: &str) {
    *text += &["Content-Type: text/", kind, "; charset=utf-8\r\n"].concat();
    let lines: Vec<&str> = body.lines().collect();
    let is_plain = body.is_ascii()
        && !body.contains('\0')
        && lines
            .iter()
            .all(|line| line.len() <= LINE_BYTES_MAX && !line.contains('\r'));
    if is_plain {
        *text += "Content-Transfer-Encoding: 7bit\r\n\r\n";
        for line in lines {
            *text += line;
            *text += "\r\n";
        }
    } else {
        *text += "Content-Transfer-Encoding: base64\r\n\r\n";
        let whole = [lines.join("\r\n").as_bytes(), b"\r\n"].concat();
        for line in BASE64.encode(whole).as_bytes().chunks(BASE64_LINE) {
            *text += &String::from_utf8_lossy(line);
            *text += "\r\n";
        }
    }
}

/// Whether a mail may be sent from or to this address: one `@`, and nothing that would end it.
pub(crate) fn is_address(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !"<>()[]\\,;:\"".contains(c);
    let parts = text.split_once('@');
    parts.is_some_and(|(local, host)| {
        !local.is_empty()
            && !host.is_empty()
            && !host.contains('@')
            && text.len() <= 254
            && text.chars().all(is_plain)
    })
}

/// The host of an address.
pub(super) fn host_of(address: &str) -> &str {
    address
        .rsplit_once('@')
        .map_or("localhost", |(_, host)| host)
}

fn list(addresses: &[String]) -> String {
    let each = addresses.iter().map(|address| format!("<{address}>"));
    each.collect::<Vec<_>>().join(",\r\n ")
}

/// A field in one line of text: control characters, line ends among them, become spaces.
fn field(name: &str, value: &str) -> String {
    let value: String = value
        .chars()
        .take(SUBJECT_CHARACTERS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let field = EditedField::new(name, value.trim());
    let written = field.map(|field| field.write(b"\r\n")).unwrap_or_default();
    String::from_utf8_lossy(&written).into_owned()
}

/// RFC 5322, section 3.3, in universal time.
fn date(time: SystemTime) -> String {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] +0000"
    );
    OffsetDateTime::from(time)
        .format(format)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(subject: &str, body: &str) -> String {
        let to = ["anna@example.net".to_owned(), "bert@example.net".to_owned()];
        let content = MailContent {
            from: "gate@example.org",
            to: &to,
            subject,
            body,
            html: None,
            id: MessageId::from_number(7 << 20),
            sink: "alarms",
        };
        String::from_utf8(compose(&content)).expect("text")
    }

    #[test]
    fn no_subject_and_no_body_ends_its_place() {
        let text = mail("a\r\nBcc: x@example.com\r\n\r\nb", "one\n.\ntwo");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        assert!(!head.contains("\nBcc"), "{head}");
        assert_eq!(body, "one\r\n.\r\ntwo\r\n");
        assert!(
            head.contains("To: <anna@example.net>,\r\n <bert@example.net>\r\n"),
            "{head}"
        );
        assert!(head.contains("@example.org>\r\n"), "{head}");
    }

    #[test]
    fn text_that_relays_might_change_is_base64() {
        for body in ["grün", "a\rb", "\0", &"x".repeat(999)] {
            let text = mail("Grüße", body);
            assert!(text.is_ascii(), "{text}");
            assert!(text.contains("Transfer-Encoding: base64\r\n\r\n"), "{text}");
            assert!(
                text.lines().all(|line| line.len() <= LINE_BYTES_MAX),
                "{text}"
            );
        }
    }

    #[test]
    fn no_text_ends_its_part() {
        let id = MessageId::from_number(7 << 20);
        let body = format!("--=_{id}\n--=_{id}_--");
        let content = MailContent {
            from: "gate@example.org",
            to: &["anna@example.net".to_owned()],
            subject: "two forms",
            body: &body,
            html: Some("<p>gr\u{fc}n"),
            id,
            sink: "digest",
        };
        let text = String::from_utf8(compose(&content)).expect("text");
        let boundary = format!("--=_{id}__");
        let parts: Vec<&str> = text.split(&boundary).collect();
        assert_eq!(parts.len(), 4, "{text}");
        assert!(
            parts[1].contains("text/plain") && parts[1].ends_with(&format!("\r\n--=_{id}_--\r\n"))
        );
        let is_html = parts[2].contains("text/html") && parts[2].contains("base64");
        assert!(is_html && parts[3] == "--\r\n", "{text}");
    }

    #[test]
    fn addresses_are_plain() {
        for address in ["a@b", "anna+x@mail.example.org"] {
            assert!(is_address(address), "{address}");
        }
        for wrong in [
            "", "a", "@b", "a@", "a@b@c", "a b@c", "<a@b>", "a@b\r\n", "a@b,c@d", "ü@b",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
