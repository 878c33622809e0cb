//! Divides a multipart at its boundaries, RFC 2046, section 5.1.1: recognises boundary lines, and
//! returns the parts between them with their fields.

use bytes::Bytes;

use super::ParseFlags;
use crate::ascii::{is_blank, lines};
use crate::content_type::ContentType;
use crate::head::{HeaderField, is_field_line};

/// The longest line of a part within a multipart, in bytes; longer ones are divided.
const LINE_LENGTH_MAX: usize = 2048;

/// Whether the text begins like the head of a part, without a blank before the colon.
pub(super) fn is_part_head_line(text: &[u8]) -> bool {
    let name = text
        .iter()
        .take_while(|&&byte| crate::ascii::is_field_name(byte))
        .count();
    name > 0 && text.get(name) == Some(&b':')
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundaryKind {
    Between,
    Last,
}

/// Whether `line` is a delimiter of RFC 2046, section 5.1.1, with any white space after it.
pub(super) fn boundary_kind(line: &[u8], boundary: &[u8]) -> Option<BoundaryKind> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    if is_blank(rest) {
        return Some(BoundaryKind::Between);
    }
    is_blank(rest.strip_prefix(b"--")?).then_some(BoundaryKind::Last)
}

/// A part of a multipart.
pub(super) struct RawPart {
    pub(super) fields: Vec<HeaderField<'static>>,
    pub(super) body: Bytes,
}

impl RawPart {
    pub(super) fn content_type(&self) -> Option<&[u8]> {
        self.fields
            .iter()
            .rev()
            .find(|field| field.is(b"content-type"))
            .map(HeaderField::decoded)
    }
}

/// Reads the lines of a multipart one part at a time.
pub(super) struct PartReader {
    fields: Vec<HeaderField<'static>>,
    /// The most fields that are read.
    fields_max: usize,
    header: Vec<u8>,
    in_body: bool,
    /// The part is itself a multipart with the same boundary as its parent.
    pub(super) nested_boundary: bool,
    /// The start and the current end of the body.
    start: Option<usize>,
    end: usize,
    /// A line exceeds the maximum length.
    has_long_line: bool,
}

impl PartReader {
    pub(super) fn new(in_body: bool, fields_max: usize) -> Self {
        Self {
            fields: Vec::new(),
            fields_max,
            header: Vec::new(),
            in_body,
            nested_boundary: false,
            start: None,
            end: 0,
            has_long_line: false,
        }
    }

    pub(super) fn line(
        &mut self,
        line: &[u8],
        line_end: usize,
        boundary: &[u8],
        flags: &mut ParseFlags,
    ) {
        if self.in_body {
            self.body_line(line, line_end);
            return;
        }
        if is_field_line(line) {
            self.finish_field(None);
            self.header.extend_from_slice(line);
            return;
        }
        if matches!(line.first(), Some(b' ' | b'\t')) && !self.header.is_empty() {
            self.header.extend_from_slice(line);
            return;
        }
        self.finish_field(Some(boundary));
        self.in_body = true;
        if matches!(line, b"\n" | b"\r\n" | b"\r" | b"") {
            return;
        }
        flags.part_separator_missing = true;
        self.body_line(line, line_end);
    }

    pub(super) fn body_line(&mut self, line: &[u8], line_end: usize) {
        self.start.get_or_insert(line_end - line.len());
        self.end = line_end;
        self.has_long_line |= line.len() > LINE_LENGTH_MAX;
    }

    /// Stores the current field. With `boundary`, it is the last of the head.
    fn finish_field(&mut self, boundary: Option<&[u8]>) {
        let header = std::mem::take(&mut self.header);
        let Some(colon) = memchr::memchr(b':', &header) else {
            return;
        };
        let (name, value) = header.split_at(colon);
        let value = crate::ascii::trim_start(value.get(1..).unwrap_or_default());
        if self.fields.len() >= self.fields_max {
            return;
        }
        let field = HeaderField::new(name.to_vec(), value.to_vec());
        if boundary.is_some() && field.is(b"content-type") {
            self.nested_boundary |= ContentType::parse(Some(field.decoded()))
                .boundary
                .as_deref()
                == boundary;
        }
        self.fields.push(field);
    }

    /// Ends the part. The line end before a boundary belongs to the boundary.
    pub(super) fn take(&mut self, body: &Bytes, at_boundary: bool) -> RawPart {
        let mut text = match self.start {
            Some(start) => body.slice(start..self.end.max(start)),
            None => Bytes::new(),
        };
        if self.has_long_line {
            text = break_long_lines(&text);
        }
        if at_boundary && text.ends_with(b"\n") {
            text.truncate(text.len() - 1);
        }
        let part = RawPart {
            fields: std::mem::take(&mut self.fields),
            body: text,
        };
        *self = Self {
            nested_boundary: self.nested_boundary,
            ..Self::new(false, self.fields_max)
        };
        part
    }
}

fn break_long_lines(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len() + text.len() / LINE_LENGTH_MAX + 1);
    for line in lines(text) {
        let mut rest = line;
        while let Some((head, tail)) = rest
            .split_at_checked(LINE_LENGTH_MAX)
            .filter(|(_, tail)| !tail.is_empty())
        {
            out.extend_from_slice(head);
            out.push(b'\n');
            rest = tail;
        }
        out.extend_from_slice(rest);
    }
    Bytes::from(out)
}
