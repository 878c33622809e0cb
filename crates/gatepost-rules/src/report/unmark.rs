//! A message as it was before a filter marked it: what is taught from has no marks of the teacher.

use std::borrow::Cow;

use super::rewrite::{PREFIX, is_field, is_ours, split_head};
use crate::language::options::Options;

/// What begins the type of an original within a report.
const ORIGINAL: &[u8] = b"x-spam-type=original";
/// Wrappings within each other that are taken off.
const WRAPPINGS_MAX: usize = 4;

/// Takes off a report's wrapping, the fields that a filter added, and its tag on the subject.
pub(crate) fn unmark<'m>(message: &'m [u8], options: &Options) -> Cow<'m, [u8]> {
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
        .any(|field| is_ours(field) || is_previous(field))
    {
        return Cow::Borrowed(message);
    }
    let previous: Vec<&[u8]> = fields
        .iter()
        .filter_map(|field| field.get(PREVIOUS.len()..).filter(|_| is_previous(field)))
        .collect();
    let mut plain = Vec::with_capacity(message.len());
    for field in fields
        .iter()
        .filter(|field| !is_ours(field) && !is_previous(field))
    {
        let name_of = |field: &[u8]| memchr::memchr(b':', field).unwrap_or(0);
        let replaced = previous.iter().find(|earlier| {
            let name = earlier.get(..name_of(earlier)).unwrap_or_default();
            std::str::from_utf8(name).is_ok_and(|name| !name.is_empty() && is_field(field, name))
        });
        match replaced {
            Some(earlier) => plain.extend_from_slice(earlier),
            None => push_untagged(field, options, &mut plain),
        }
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

const PREVIOUS: &str = "X-Spam-Prev-";

fn is_previous(field: &[u8]) -> bool {
    field
        .get(..PREVIOUS.len())
        .is_some_and(|beginning| beginning.eq_ignore_ascii_case(PREVIOUS.as_bytes()))
}

/// The subject without the tag that `rewrite_header` puts before it, if the tag is a fixed text.
fn push_untagged(field: &[u8], options: &Options, out: &mut Vec<u8>) {
    let tag = options.rewrites.iter().find(|(name, _)| name == "Subject");
    if let Some((_, tag)) = tag
        && is_field(field, "Subject")
        && let Some(at) = memchr::memmem::find(field, format!(": {tag} ").as_bytes())
        && field.get(..at).is_some_and(|name| !name.contains(&b':'))
    {
        let (name, value) = field.split_at(at + 2);
        out.extend_from_slice(name);
        out.extend_from_slice(value.get(tag.len() + 1..).unwrap_or_default());
        return;
    }
    out.extend_from_slice(field);
}

/// The message that a report carries.
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
                && memchr::memmem::find(&field.to_ascii_lowercase(), ORIGINAL).is_some()
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

    fn marked(options: Options, score: f64, message: &[u8]) -> (Vec<u8>, Options) {
        let report = Report {
            score,
            required: 5.0,
            options: std::sync::Arc::new(options.clone()),
            ..Report::default()
        };
        (report.rewrite(message), options)
    }

    #[test]
    fn what_was_marked_is_as_it_was() {
        let message = &b"Return-Path: <a@b>\r\nFrom: a\r\nSubject: lunch\r\n\r\nat noon\r\n"[..];
        for report_safe in [0, 1, 2] {
            for score in [1.0, 9.0] {
                let options = Options {
                    report_safe,
                    rewrites: vec![("Subject".to_owned(), "[SPAM]".to_owned())],
                    ..Options::default()
                };
                let (text, options) = marked(options, score, message);
                assert_ne!(text, message);
                let plain = unmark(&text, &options);
                if report_safe == 2 && score > 5.0 {
                    // The original is plain text there, which anybody may write.
                    continue;
                }
                assert_eq!(
                    String::from_utf8_lossy(&plain),
                    String::from_utf8_lossy(message),
                    "report_safe {report_safe}, score {score}"
                );
            }
        }
        assert!(matches!(
            unmark(message, &Options::default()),
            Cow::Borrowed(_)
        ));
    }
}
