//! Removes the markup of an earlier scan from a message, as `spamassassin -d` does, so that the
//! filter's own text is not learned.

use std::borrow::Cow;

use super::rewrite::{
    NO_SUBJECT_BEFORE, ORIGINAL, PREFIX, is_field, is_spam_report_field, mbox_separator, split_head,
};
use crate::language::options::ReportOptions;

/// Wrappings within each other that are taken off.
const WRAPPINGS_MAX: usize = 4;

/// Removes the wrapping of a report, the fields that a filter added, and its tag on the subject.
pub(crate) fn remove_markup<'m>(message: &'m [u8], options: &ReportOptions) -> Cow<'m, [u8]> {
    let (separator, rest) = mbox_separator(message);
    match without_markup(rest, options) {
        Cow::Borrowed(plain) if plain.len() == rest.len() => Cow::Borrowed(message),
        Cow::Borrowed(plain) if separator.is_empty() => Cow::Borrowed(plain),
        plain => Cow::Owned([separator, &plain].concat()),
    }
}

/// The same of a message without the line that separates it from others in an mbox file.
fn without_markup<'m>(message: &'m [u8], options: &ReportOptions) -> Cow<'m, [u8]> {
    let mut message = message;
    for _ in 0..WRAPPINGS_MAX {
        let Some(original) = unwrapped(message) else {
            break;
        };
        message = original;
    }
    let (fields, rest) = split_head(message);
    if !fields
        .iter()
        .any(|field| is_spam_report_field(field) || is_previous(field))
    {
        return Cow::Borrowed(message);
    }
    let mut previous: Vec<&[u8]> = fields
        .iter()
        .filter_map(|field| field.get(PREVIOUS.len()..).filter(|_| is_previous(field)))
        .collect();
    let had_no_subject = fields
        .iter()
        .any(|field| field.trim_ascii_end() == NO_SUBJECT_BEFORE.as_bytes());
    let mut plain = Vec::with_capacity(message.len());
    for field in fields
        .iter()
        .filter(|field| !is_spam_report_field(field) && !is_previous(field))
    {
        if had_no_subject && is_field(field, "Subject") {
            previous.retain(|earlier| !is_field(earlier, "Subject"));
            continue;
        }
        let replaced = previous
            .iter()
            .position(|earlier| !name(earlier).is_empty() && is_field(field, name(earlier)));
        match replaced {
            Some(index) => plain.extend_from_slice(previous.remove(index)),
            None => push_untagged(field, options, &mut plain),
        }
    }
    // Fields that were removed.
    plain.extend(previous.into_iter().flatten());
    plain.extend_from_slice(&without_report_lines(rest));
    Cow::Owned(plain)
}

/// The name of a field; empty if it has none.
fn name(field: &[u8]) -> &str {
    let colon = memchr::memchr(b':', field).unwrap_or(0);
    std::str::from_utf8(field.get(..colon).unwrap_or_default()).unwrap_or_default()
}

/// The body without the reports that SpamAssassin up to 2.4 put before it, each between two rules.
fn without_report_lines(rest: &[u8]) -> Cow<'_, [u8]> {
    let (separator, body) = rest.split_at(first_line(rest).len());
    let mut body = body;
    while let Some(after) = after_report_lines(body) {
        body = after;
    }
    if separator.len() + body.len() == rest.len() {
        return Cow::Borrowed(rest);
    }
    Cow::Owned([separator, body].concat())
}

/// The text after a report, its rules, and the empty line at its end.
fn after_report_lines(body: &[u8]) -> Option<&[u8]> {
    const LINE: &[u8] = b"SPAM:";
    const RULE: &[u8] = b"SPAM: ----";
    let mut rest = body;
    if first_line(rest).trim_ascii().is_empty() {
        rest = rest.get(first_line(rest).len()..)?;
    }
    let mut rules = 0;
    while rules < 2 {
        let line = first_line(rest);
        if !line.starts_with(if rules == 0 { RULE } else { LINE }) {
            return None;
        }
        rules += usize::from(line.starts_with(RULE));
        rest = rest.get(line.len()..)?;
    }
    let line = first_line(rest);
    (line.ends_with(b"\n") && line.trim_ascii().is_empty())
        .then(|| rest.get(line.len()..).unwrap_or_default())
}

/// A line with its line end; empty at the end.
fn first_line(text: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
    text.get(..end).unwrap_or_default()
}

const PREVIOUS: &str = "X-Spam-Prev-";

fn is_previous(field: &[u8]) -> bool {
    field
        .get(..PREVIOUS.len())
        .is_some_and(|beginning| beginning.eq_ignore_ascii_case(PREVIOUS.as_bytes()))
}

/// The subject without the tags that `rewrite_header` puts before it, if the tag is a fixed text.
fn push_untagged(field: &[u8], options: &ReportOptions, out: &mut Vec<u8>) {
    let tag = options.rewrites.iter().find(|(name, _)| name == "Subject");
    let subject = b"Subject: ".len();
    if let Some((_, tag)) = tag
        && is_field(field, "Subject")
        && let Some((name, mut value)) = field.split_at_checked(subject)
    {
        let tag = format!("{tag} ");
        while let Some(rest) = value.strip_prefix(tag.as_bytes()) {
            value = rest;
        }
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        return;
    }
    out.extend_from_slice(field);
}

/// The message inside a report.
fn unwrapped(message: &[u8]) -> Option<&[u8]> {
    let (fields, body) = split_head(message);
    let is_marked = |field: &&[u8]| {
        let name = format!("{PREFIX}Checker-Version");
        is_field(field, &name) || is_field(field, "X-Spam-Status")
    };
    if !fields.iter().any(is_marked) {
        return None;
    }
    let content_type = fields
        .iter()
        .find(|field| is_field(field, "Content-Type"))?;
    let boundary = boundary(content_type)?;
    let delimiter = [b"--", boundary].concat();
    let mut parts = memchr::memmem::find_iter(body, &delimiter).collect::<Vec<_>>();
    parts.push(body.len());
    for pair in parts.windows(2) {
        let &[start, end] = pair else { continue };
        let part = body.get(start + delimiter.len()..end)?;
        let part = part.strip_prefix(b"\r").unwrap_or(part);
        let Some(part) = part.strip_prefix(b"\n") else {
            continue;
        };
        let (fields, content) = split_head(part);
        let is_original = fields.iter().any(|field| {
            is_field(field, "Content-Type")
                && memchr::memmem::find(&field.to_ascii_lowercase(), ORIGINAL.as_bytes()).is_some()
        });
        if is_original {
            let content = content.strip_prefix(b"\r").unwrap_or(content);
            let content = content.strip_prefix(b"\n").unwrap_or(content);
            let content = content.strip_suffix(b"\n").unwrap_or(content);
            return Some(content.strip_suffix(b"\r").unwrap_or(content));
        }
    }
    None
}

fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let lower = content_type.to_ascii_lowercase();
    let start = memchr::memmem::find(&lower, b"boundary=")? + "boundary=".len();
    let value = content_type.get(start..)?;
    match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|&byte| byte == b'"').next(),
        None => value
            .split(|byte| byte.is_ascii_whitespace() || *byte == b';')
            .next(),
    }
    .filter(|boundary| !boundary.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;

    fn marked(options: ReportOptions, score: f64, message: &[u8]) -> (Vec<u8>, ReportOptions) {
        let report = Report {
            score,
            required: 5.0,
            options: std::sync::Arc::new(options.clone()),
            ..Report::default()
        };
        (report.rewrite(message), options)
    }

    #[test]
    fn the_original_is_restored() {
        let with_subject =
            &b"Return-Path: <a@b>\r\nFrom: a\r\nSubject: lunch\r\n\r\nat noon\r\n"[..];
        let without_subject = &b"From: a\n\nat noon"[..];
        let of_mbox = &b"From a@b Mon Nov 23 2026\nFrom: a\n\nat noon\n"[..];
        for message in [with_subject, without_subject, of_mbox] {
            marked_and_restored(message);
        }
    }

    #[test]
    fn reports_of_old_versions_are_removed() {
        let report = "SPAM: ---- Start\nSPAM: Hit!\nSPAM: ---- End\n\n";
        let marked = format!(
            "Subject: *S* *S* a\nX-Spam-Prev-Content-Type: text/html\nX-Spam-Flag: YES\n\n\
             {report}\n{report}SPAM: ---- b\n"
        );
        let options = ReportOptions {
            rewrites: vec![("Subject".to_owned(), "*S*".to_owned())],
            ..ReportOptions::default()
        };
        let plain = remove_markup(marked.as_bytes(), &options);
        let expected = "Subject: a\nContent-Type: text/html\n\nSPAM: ---- b\n";
        assert_eq!(String::from_utf8_lossy(&plain), expected);
    }

    fn marked_and_restored(message: &[u8]) {
        for report_safe in [0, 1, 2] {
            for score in [1.0, 9.0] {
                let options = ReportOptions {
                    report_safe,
                    rewrites: vec![("Subject".to_owned(), "[SPAM]".to_owned())],
                    ..ReportOptions::default()
                };
                let (text, options) = marked(options, score, message);
                assert_ne!(text, message);
                let plain = remove_markup(&text, &options);
                assert_eq!(
                    String::from_utf8_lossy(&plain),
                    String::from_utf8_lossy(message),
                    "report_safe {report_safe}, score {score}"
                );
            }
        }
        assert!(matches!(
            remove_markup(message, &ReportOptions::default()),
            Cow::Borrowed(_)
        ));
    }
}
