//! The head of a message: its fields, and the beginning of the body.
//!
//! A blank line ends a head. A mail without a blank line must still be read as mail programs read
//! it, so a MIME boundary ends the head too, and so does the fourth line that is not a field.

mod separator;

use std::borrow::Cow;
use std::cell::OnceCell;

use super::ascii::{is_field_name, lines};
use super::limits::MailLimits;
use super::words::decode_field;
use separator::split_separator;

/// The longest field name that is kept, in bytes.
const FIELD_NAME_LENGTH_MAX: usize = 256;
/// The longest field value that is kept, in bytes, folds included.
const FIELD_VALUE_LENGTH_MAX: usize = 8192;
/// The longest text of all decoded fields, in bytes.
const ALL_FIELDS_LENGTH_MAX: usize = 65_536;
/// The number of lines that are not fields and do not end the head.
const BROKEN_LINES_MAX: usize = 3;

/// A header field.
#[derive(Debug)]
pub struct HeaderField<'a> {
    name: Cow<'a, [u8]>,
    raw: Cow<'a, [u8]>,
    decoded: OnceCell<Vec<u8>>,
}

impl<'a> HeaderField<'a> {
    /// A field with this name and raw value.
    pub fn new(name: impl Into<Cow<'a, [u8]>>, raw: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            name: name.into(),
            raw: raw.into(),
            decoded: OnceCell::new(),
        }
    }

    /// The name as written.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether the field has this name.
    pub fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The text after the colon, including folds and line end.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The value unfolded, trimmed and decoded to UTF-8.
    pub fn decoded(&self) -> &[u8] {
        self.decoded
            .get_or_init(|| decode_field(&self.name, &self.raw))
    }
}

/// The head of a message.
#[derive(Debug)]
pub struct MessageHead<'a> {
    /// Its fields, in order.
    pub fields: Vec<HeaderField<'a>>,
    /// The original text, including the blank line that ends it.
    pub(crate) pristine: Cow<'a, [u8]>,
    /// The text after the head.
    pub body: &'a [u8],
    /// The preceding mbox `From ` line.
    pub mbox_separator: Option<&'a [u8]>,
    /// Lines end with CR LF.
    pub crlf: bool,
    /// No blank line ends the head.
    pub separator_missing: bool,
    /// A field was longer than the limit, or there were too many fields.
    pub truncated: bool,
    /// The most fields that are read.
    fields_max: usize,
}

impl<'a> MessageHead<'a> {
    /// Reads the head of `message`.
    pub(crate) fn parse(message: &'a [u8], limits: MailLimits) -> Self {
        let (mbox_separator, text) = split_separator(message);
        let crlf = ends_lines_in_crlf(text);
        let mut head = Self {
            fields: Vec::new(),
            pristine: Cow::Borrowed(b""),
            body: b"",
            mbox_separator,
            crlf,
            separator_missing: true,
            truncated: false,
            fields_max: limits.header_fields_max,
        };
        let line_end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
        let (mut at, mut field_start, mut broken, mut mixed) = (0, None, 0, false);
        for line in lines(text) {
            let is_mixed = crlf && line.ends_with(b"\n") && !line.ends_with(b"\r\n");
            if matches!(line.first(), Some(b' ' | b'\t')) {
                field_start.get_or_insert(at);
            } else {
                if let Some(start) = field_start.replace(at) {
                    head.push(text.get(start..at).unwrap_or_default());
                }
                if line == line_end || is_mixed && line == b"\n" {
                    head.separator_missing = false;
                    field_start = None;
                    mixed |= is_mixed;
                    at += line.len();
                    break;
                }
                if line.starts_with(b"--") {
                    field_start = None;
                    break;
                }
                if !is_field_line(line) {
                    broken += 1;
                    if broken > BROKEN_LINES_MAX {
                        field_start = None;
                        break;
                    }
                }
            }
            mixed |= is_mixed;
            at += line.len();
        }
        if let Some(start) = field_start {
            head.push(text.get(start..at).unwrap_or_default());
        }
        let (pristine, body) = text.split_at_checked(at).unwrap_or((text, b""));
        head.pristine = if mixed {
            Cow::Owned(with_crlf(pristine))
        } else {
            Cow::Borrowed(pristine)
        };
        head.body = body;
        head
    }

    fn push(&mut self, text: &'a [u8]) {
        let Some(colon) = memchr::memchr(b':', text) else {
            return;
        };
        if self.fields.len() >= self.fields_max {
            self.truncated = true;
            return;
        }
        let mut name = text.get(..colon).unwrap_or_default();
        let mut value = text.get(colon + 1..).unwrap_or_default();
        while let Some(shorter) = name.strip_suffix(b" ").or_else(|| name.strip_suffix(b"\t")) {
            name = shorter;
        }
        if name.len() > FIELD_NAME_LENGTH_MAX {
            name = name.get(..FIELD_NAME_LENGTH_MAX).unwrap_or_default();
            self.truncated = true;
        }
        let value = if self.crlf {
            let value = super::ascii::without_carriage_returns(value);
            if value.len() > FIELD_VALUE_LENGTH_MAX {
                self.truncated = true;
                Cow::Owned(
                    value
                        .get(..FIELD_VALUE_LENGTH_MAX)
                        .unwrap_or_default()
                        .to_vec(),
                )
            } else {
                value
            }
        } else {
            if value.len() > FIELD_VALUE_LENGTH_MAX {
                value = value.get(..FIELD_VALUE_LENGTH_MAX).unwrap_or_default();
                self.truncated = true;
            }
            Cow::Borrowed(value)
        };
        self.fields.push(HeaderField::new(name, value));
    }

    /// The fields with this name, from the top.
    pub fn all<'b, 'c>(
        &'b self,
        name: &'c [u8],
    ) -> impl DoubleEndedIterator<Item = &'b HeaderField<'a>> + use<'a, 'b, 'c> {
        self.fields.iter().filter(move |field| field.is(name))
    }

    /// The decoded value of the lowest field with this name, which mail programs display.
    pub fn last(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields
            .iter()
            .rev()
            .find(|field| field.is(name))
            .map(HeaderField::decoded)
    }

    /// Each field as one line, `Name: decoded value`.
    pub fn decoded_lines(&self) -> Vec<Vec<u8>> {
        let mut lines = Vec::with_capacity(self.fields.len());
        let mut length = 0;
        for field in &self.fields {
            let value = field.decoded();
            length += field.name().len() + value.len() + 3;
            if length > ALL_FIELDS_LENGTH_MAX {
                break;
            }
            let mut line = Vec::with_capacity(field.name().len() + value.len() + 3);
            line.extend_from_slice(field.name());
            line.extend_from_slice(b": ");
            line.extend_from_slice(value);
            line.push(b'\n');
            lines.push(line);
        }
        lines
    }

    /// The original text of each field, including its continuation lines.
    pub(crate) fn pristine_fields(&self) -> Vec<&[u8]> {
        let text: &[u8] = &self.pristine;
        let mut fields = Vec::new();
        let (mut at, mut start) = (0, None);
        for line in lines(text) {
            if !matches!(line.first(), Some(b' ' | b'\t')) {
                if let Some(start) = start.replace(at) {
                    fields.push(text.get(start..at).unwrap_or_default());
                }
                if fields.len() >= self.fields_max {
                    return fields;
                }
                if line == b"\n" || !line.ends_with(b"\n") {
                    start = None;
                }
            }
            at += line.len();
        }
        if let Some(start) = start {
            fields.push(text.get(start..).unwrap_or_default());
        }
        fields
    }
}

/// SpamAssassin examines only the first and the last line.
fn ends_lines_in_crlf(text: &[u8]) -> bool {
    let first = text
        .get(..memchr::memchr(b'\n', text).map_or(0, |at| at + 1))
        .unwrap_or_default();
    let before_last = text.strip_suffix(b"\n").unwrap_or(text);
    let last_start = memchr::memrchr(b'\n', before_last).map_or(0, |at| at + 1);
    first.ends_with(b"\r\n")
        || text
            .get(last_start..)
            .unwrap_or_default()
            .ends_with(b"\r\n")
}

/// Whether the line begins like a field: a name and a colon.
pub(crate) fn is_field_line(line: &[u8]) -> bool {
    let name = line.iter().take_while(|&&byte| is_field_name(byte)).count();
    let rest = line.get(name..).unwrap_or_default();
    let blanks = rest
        .iter()
        .take_while(|&&byte| matches!(byte, b' ' | b'\t'))
        .count();
    name > 0 && rest.get(blanks) == Some(&b':')
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    for line in lines(text) {
        match line.strip_suffix(b"\n") {
            Some(content) => {
                out.extend_from_slice(content.strip_suffix(b"\r").unwrap_or(content));
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(message: &[u8]) -> MessageHead<'_> {
        MessageHead::parse(message, MailLimits::default())
    }

    #[test]
    fn fields_and_body_are_distinguished() {
        let head = parse(b"From x@y Mon\nSubject: a\n b\nTo : c\n\nbody\n");
        assert_eq!(head.mbox_separator, Some(&b"From x@y Mon\n"[..]));
        assert_eq!(head.last(b"subject"), Some(&b"a b"[..]));
        assert_eq!(head.last(b"to"), Some(&b"c"[..]));
        assert_eq!(head.body, b"body\n");
        assert_eq!(
            head.pristine_fields(),
            [&b"Subject: a\n b\n"[..], b"To : c\n"]
        );
    }

    #[test]
    fn a_head_without_end_ends_at_the_fourth_broken_line() {
        let head = parse(b"A: 1\nx\ny\nz\nB: 2\nw\nC: 3\n");
        assert!(head.separator_missing);
        assert_eq!(head.fields.len(), 2);
        assert_eq!(head.body, b"w\nC: 3\n");
        assert_eq!(parse(b"A: 1\n--b\nx").body, b"--b\nx");
    }

    #[test]
    fn line_ends_are_normalised() {
        let head = parse(b"A: 1\r\n 2\r\n\r\nbody");
        assert!(head.crlf && !head.separator_missing);
        assert_eq!(
            head.fields.first().map(HeaderField::raw),
            Some(&b" 1\n 2\n"[..])
        );
        assert_eq!(head.body, b"body");
    }

    #[test]
    fn an_empty_message_has_an_empty_head() {
        let head = parse(b"");
        assert!(head.fields.is_empty() && head.body.is_empty());
    }
}
