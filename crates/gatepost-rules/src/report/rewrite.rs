//! The rewritten message: with `X-Spam` header fields, or attached to a report (`report_safe`).

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Report;
use super::encoded_words::encode;
use super::template::fill;
use super::wrap::{FoldingPoint, LineLayout};

/// The width of header fields.
const FIELD_WIDTH: usize = 79;
/// The prefix of all fields of this kind; those of the original are removed, since they may be
/// forged.
pub(super) const PREFIX: &str = "X-Spam-";

/// The fields that the rules request for ham or for spam.
pub(super) fn header_fields(report: &Report) -> Vec<(String, String)> {
    let options = &report.options;
    let templates = if report.is_spam() {
        &options.spam_fields
    } else {
        &options.ham_fields
    };
    templates
        .iter()
        .map(|(name, template)| {
            let name = format!("{PREFIX}{name}");
            let value = fill(template, report);
            let value = value.trim_end_matches(['\n', '\r']);
            let value = match (options.fold_fields, value.contains('\n')) {
                (true, true) => {
                    let lines: Vec<&str> = value.split('\n').map(str::trim).collect();
                    lines.join("\n\t")
                }
                (true, false) => folded(&name, value),
                (false, _) => value.replace('\n', " "),
            };
            (name, encode(&value))
        })
        .collect()
}

/// A value of one line, folded for its field.
fn folded(name: &str, value: &str) -> String {
    /// Stands for the colon and the blank after it, where nothing is to be folded.
    const SEPARATOR: &str = "!!";
    let lines = LineLayout {
        first: "",
        indent: "\t",
        length_max: FIELD_WIDTH,
        overflows: false,
    };
    let field = format!("{name}{SEPARATOR}{value}");
    let field = lines.fold(&field, FoldingPoint::AfterBlanksAndCommas);
    let lines = field.lines().filter(|line| !line.trim().is_empty());
    let field = lines.collect::<Vec<_>>().join("\n");
    field
        .split_once(SEPARATOR)
        .map_or_else(String::new, |(_, value)| value.to_owned())
}

/// The rewritten message, with the line ends that the original has.
pub(super) fn message(report: &Report, message: &[u8]) -> Vec<u8> {
    let line_end = if message.windows(2).any(|pair| pair == b"\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let (separator, message) = mbox_separator(message);
    let mut out = separator.to_vec();
    if report.is_spam() && report.options.report_safe > 0 {
        wrapped(report, message, line_end, &mut out);
    } else {
        with_fields(report, message, line_end, &mut out);
    }
    out
}

/// An mbox file's "From " line, which is not a field.
pub(super) fn mbox_separator(message: &[u8]) -> (&[u8], &[u8]) {
    let end = if message.starts_with(b"From ") {
        memchr::memchr(b'\n', message).map_or(0, |end| end + 1)
    } else {
        0
    };
    message.split_at(end)
}

/// The fields of a head, each with its continuation lines and line ends, and the rest.
pub(super) fn split_head(message: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut fields: Vec<&[u8]> = Vec::new();
    let mut rest = message;
    let mut start = 0;
    let mut end = 0;
    while let Some(length) = memchr::memchr(b'\n', rest.get(end..).unwrap_or_default()) {
        let line = rest.get(end..end + length).unwrap_or_default();
        let is_continuation = matches!(line.first(), Some(b' ' | b'\t'));
        let is_blank = line.trim_ascii().is_empty() && !is_continuation;
        if !is_continuation && end > start {
            fields.push(rest.get(start..end).unwrap_or_default());
            start = end;
        }
        if is_blank {
            break;
        }
        end += length + 1;
    }
    if end > start {
        fields.push(rest.get(start..end).unwrap_or_default());
        start = end;
    }
    rest = rest.get(start..).unwrap_or_default();
    (fields, rest)
}

pub(super) fn is_field(field: &[u8], name: &str) -> bool {
    let colon = memchr::memchr(b':', field).unwrap_or(0);
    field
        .get(..colon)
        .is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
}

pub(super) fn is_spam_report_field(field: &[u8]) -> bool {
    let begins = |text: &str| {
        field
            .get(..text.len())
            .is_some_and(|beginning| beginning.eq_ignore_ascii_case(text.as_bytes()))
    };
    begins(PREFIX) && !begins("X-Spam-Prev-")
}

fn push_fields(report: &Report, line_end: &str, out: &mut Vec<u8>) {
    for (name, value) in header_fields(report) {
        let value = value.replace('\n', line_end);
        out.extend_from_slice(format!("{name}: {value}{line_end}").as_bytes());
    }
}

fn with_fields(report: &Report, message: &[u8], line_end: &str, out: &mut Vec<u8>) {
    let (fields, rest) = split_head(message);
    let mut previous = Vec::new();
    let made_up = subject_to_make_up(report, &fields).then(|| format!("Subject: {line_end}"));
    let mut fields = fields.into_iter().peekable();
    // Return-Path remains at the top, where delivery agents expect it.
    while let Some(field) = fields.next_if(|field| is_field(field, "Return-Path")) {
        out.extend_from_slice(field);
    }
    push_fields(report, line_end, out);
    for field in fields.filter(|field| !is_spam_report_field(field)) {
        if let Some(field_with_tag) = rewritten(report, field) {
            previous.extend_from_slice(b"X-Spam-Prev-");
            previous.extend_from_slice(field);
            out.extend_from_slice(&field_with_tag);
        } else {
            out.extend_from_slice(field);
        }
    }
    if let Some(subject) = made_up
        && let Some(field_with_tag) = rewritten(report, subject.as_bytes())
    {
        out.extend_from_slice(&field_with_tag);
        previous.extend_from_slice(format!("{NO_SUBJECT_BEFORE}{line_end}").as_bytes());
    }
    out.extend_from_slice(&previous);
    out.extend_from_slice(rest);
}

/// The mark that stands for the subject of a message without one, as SpamAssassin writes it.
pub(super) const NO_SUBJECT_BEFORE: &str = "X-Spam-Prev-Subject: (nonexistent)";

/// Whether a tag is to be put before the subject of a message that has none.
fn subject_to_make_up(report: &Report, fields: &[&[u8]]) -> bool {
    let rewrites = &report.options.rewrites;
    rewrites.iter().any(|(name, _)| name == "Subject")
        && !fields.iter().any(|field| is_field(field, "Subject"))
}

/// A field with the texts of `rewrite_header` and `subjprefix` in it, if any apply.
fn rewritten(report: &Report, field: &[u8]) -> Option<Vec<u8>> {
    let mut rewrites = report.options.rewrites.iter();
    let (name, template) = rewrites.find(|(name, _)| is_field(field, name))?;
    if !report.is_spam() {
        let is_prefixed = name == "Subject" && !report.subject_prefix.is_empty();
        return is_prefixed.then(|| prefixed(field, &report.subject_prefix));
    }
    let tag = fill(template, report).replace('\n', " ");
    let tag = match name.as_str() {
        "Subject" => tag,
        _ => format!("({tag})"),
    };
    let prefixes = if name == "Subject" {
        report.subject_prefix.as_str()
    } else {
        ""
    };
    Some(prefixed(field, &format!("{tag} {prefixes}")))
}

/// A field with a text before its value, once.
fn prefixed(field: &[u8], prefix: &str) -> Vec<u8> {
    let colon = memchr::memchr(b':', field).map_or(0, |colon| colon + 1);
    let (name, value) = field.split_at(colon);
    let blanks = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let value = value.get(blanks.count()..).unwrap_or_default();
    let value = value.strip_prefix(prefix.as_bytes()).unwrap_or(value);
    [name, b" ", prefix.as_bytes(), value].concat()
}

/// The mark of the original within its wrapping. Filters of users, and SpamAssassin, look for the
/// parameter and for the description.
pub(super) const ORIGINAL: &str = "x-spam-type=original";
const ORIGINAL_DESCRIPTION: &str = "original message before SpamAssassin";

/// Fields of the original that its wrapping repeats.
const REPEATED: [&str; 6] = ["From", "To", "Cc", "Subject", "Date", "Message-Id"];

/// A new message: the report first, the original attached.
fn wrapped(report: &Report, message: &[u8], line_end: &str, out: &mut Vec<u8>) {
    let (fields, _) = split_head(message);
    for name in REPEATED {
        for field in fields.iter().filter(|field| is_field(field, name)) {
            match rewritten(report, field) {
                Some(field) => out.extend_from_slice(&field),
                None => out.extend_from_slice(field),
            }
        }
    }
    push_fields(report, line_end, out);
    let boundary = boundary(message);
    let original_type = match report.options.report_safe {
        2 => "text/plain",
        _ => "message/rfc822",
    };
    // Mail programs must not automatically display the content of a message that is not plain text.
    let is_plain = is_plain_text(&fields);
    let (disposition, unsafe_report) = if is_plain {
        ("inline", "")
    } else {
        ("attachment", report.options.unsafe_report.as_str())
    };
    let text = format!(
        "MIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=\"{boundary}\"\n\
         \n\
         This is a multi-part message in MIME format.\n\
         \n\
         --{boundary}\n\
         Content-Type: text/plain; charset=UTF-8\n\
         Content-Disposition: inline\n\
         Content-Transfer-Encoding: 8bit\n\
         \n\
         {}{}\n\
         --{boundary}\n\
         Content-Type: {original_type}; {ORIGINAL}\n\
         Content-Description: {ORIGINAL_DESCRIPTION}\n\
         Content-Disposition: {disposition}\n\
         Content-Transfer-Encoding: 8bit\n\
         \n",
        report.text(),
        fill(unsafe_report, report),
    );
    out.extend_from_slice(text.replace('\n', line_end).as_bytes());
    out.extend_from_slice(message);
    // An mbox file wants an empty line after each message.
    out.extend_from_slice(format!("{line_end}--{boundary}--{line_end}{line_end}").as_bytes());
}

/// Whether a message's type is plain text, or none.
fn is_plain_text(fields: &[&[u8]]) -> bool {
    let content_type = fields.iter().find(|field| is_field(field, "Content-Type"));
    content_type.is_none_or(|field| {
        memchr::memmem::find(&field.to_ascii_lowercase(), b"text/plain").is_some()
    })
}

/// A boundary that the message does not contain.
fn boundary(message: &[u8]) -> String {
    let random = RandomState::new();
    for attempt in 0u32.. {
        let mut hasher = random.build_hasher();
        hasher.write_u32(attempt);
        let boundary = format!("----------=_{:016X}", hasher.finish());
        if memchr::memmem::find(message, boundary.as_bytes()).is_none() {
            return boundary;
        }
    }
    unreachable!("some of four thousand million boundaries is not in the message")
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn wanted_mail_gets_fields_and_loses_forged_ones() {
        let message = b"Return-Path: <a@b>\r\nX-Spam-Status: No,\r\n lies\r\nFrom: a\r\n\r\nbody";
        let rewritten = super::message(&report(1.0), message);
        let text = String::from_utf8(rewritten).unwrap();
        assert!(text.starts_with("Return-Path: <a@b>\r\nX-Spam-"), "{text}");
        assert!(
            text.contains("X-Spam-Status: No, score=1.0 required=5.0"),
            "{text}"
        );
        assert!(!text.contains("lies"), "{text}");
        assert!(text.ends_with("From: a\r\n\r\nbody"), "{text}");
    }

    #[test]
    fn spam_is_wrapped_whole() {
        let message = b"From: a\nSubject: x\n\nbody";
        let rewritten = super::message(&report(9.0), message);
        let text = String::from_utf8(rewritten).unwrap();
        assert!(text.starts_with("From: a\nSubject: x\nX-Spam-"), "{text}");
        assert!(
            text.contains("\n\nFrom: a\nSubject: x\n\nbody\n--"),
            "{text}"
        );
    }

    #[test]
    fn heads_of_every_shape_are_split() {
        for (message, count, rest) in [
            (&b""[..], 0, &b""[..]),
            (b"\n\nbody", 0, b"\n\nbody"),
            (b"A: b", 0, b"A: b"),
            (b"A: b\n", 1, b""),
            (b"A: b\n c\nD: e\n\nbody", 2, b"\nbody"),
        ] {
            let (fields, tail) = split_head(message);
            assert_eq!((fields.len(), tail), (count, rest));
        }
    }
}
