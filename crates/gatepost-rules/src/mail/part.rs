//! The tree of MIME parts, as tolerant of broken boundaries and heads as mail programs are.
//!
//! Parts lie in one list in the order a reader meets them; children follow their parent. The text of
//! a part is a slice of the body wherever the body needed no repair.

use super::ascii::{is_blank, is_space, lines};
use super::content_type::ContentType;
use super::head::{Field, Head, disposition_name};
use super::limits::MailLimits;
use super::line_ends::normalised_body;
use super::multipart::{BoundaryKind, PartReader, boundary_kind, is_part_head_line};
use super::transfer::{base64, quoted_printable};
use bytes::Bytes;
use std::cell::OnceCell;
use std::collections::VecDeque;

/// One part.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its fields. Empty for the message itself, whose head stands apart.
    pub(crate) fields: Vec<Field<'static>>,
    /// Its media type in lower case.
    pub(crate) media_type: String,
    /// The character set it declares.
    pub(crate) charset: Option<Vec<u8>>,
    /// The file name it gives.
    pub(crate) name: Option<Vec<u8>>,
    /// It is a text or a file, not a container of others.
    pub(crate) is_leaf: bool,
    /// How deep it lies; 0 for the message itself.
    pub(crate) depth: u32,
    /// It is the message itself, or one attached to it.
    pub(crate) is_message: bool,
    raw: Bytes,
    children: Vec<usize>,
    decoded: OnceCell<Bytes>,
}

/// What is odd about a message's MIME structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// A boundary is not followed by a field.
    pub(crate) part_head_missing: bool,
    /// A part's head is not ended by a blank line.
    pub(crate) part_separator_missing: bool,
    /// There is text after the last boundary.
    pub(crate) epilogue: bool,
    /// A multipart has more parts than are read.
    pub(crate) too_many_parts: bool,
}

/// All parts of a message.
#[derive(Debug)]
pub(crate) struct Parts {
    limits: MailLimits,
    list: Vec<Part>,
    order: Vec<usize>,
    /// What is odd about them.
    pub(crate) oddities: Oddities,
    /// Boundaries that were opened, and whether they were closed.
    pub(crate) boundaries: Vec<(Vec<u8>, i32)>,
}

struct Pending {
    part: usize,
    boundary: Option<Vec<u8>>,
    body: Bytes,
    /// The body is to be read as if a blank line stood before it.
    blank_first: bool,
    levels_left: u32,
}

impl Part {
    fn new(fields: Vec<Field<'static>>, media_type: String, depth: u32) -> Self {
        Self {
            fields,
            media_type,
            charset: None,
            name: None,
            is_leaf: true,
            depth,
            is_message: false,
            raw: Bytes::new(),
            children: Vec::new(),
            decoded: OnceCell::new(),
        }
    }

    /// The decoded value of the last field of this name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields
            .iter()
            .rev()
            .find(|field| field.is(name))
            .map(Field::decoded)
    }

    /// The text before transfer decoding.
    pub(crate) fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The type it is shown as: a file named `.html` is HTML whatever it says it is.
    pub(crate) fn effective_type(&self) -> &str {
        let name = self.name.as_deref().unwrap_or_default();
        let name = name
            .strip_suffix(b"\n")
            .unwrap_or(name)
            .to_ascii_lowercase();
        let html = [&b".html"[..], b".htm", b".shtml", b".shtm"];
        if html.iter().any(|ending| name.ends_with(ending)) {
            "text/html"
        } else {
            &self.media_type
        }
    }

    /// Whether its type begins with `text` or `message`.
    fn is_text(&self) -> bool {
        let kind = self
            .media_type
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .next();
        matches!(kind, Some("text" | "message"))
    }

    /// The text after transfer decoding.
    pub(crate) fn decoded(&self) -> &Bytes {
        self.decoded.get_or_init(|| {
            let encoding = self.field(b"content-transfer-encoding").unwrap_or_default();
            if encoding.eq_ignore_ascii_case(b"quoted-printable") {
                return without_carriage_returns(quoted_printable(&self.raw));
            }
            if encoding.eq_ignore_ascii_case(b"base64") {
                let decoded = base64(&self.raw);
                return if self.is_text() {
                    without_carriage_returns(decoded)
                } else {
                    Bytes::from(decoded)
                };
            }
            self.raw.clone()
        })
    }
}

fn without_carriage_returns(text: Vec<u8>) -> Bytes {
    let shorter = match super::ascii::without_carriage_returns(&text) {
        std::borrow::Cow::Borrowed(_) => None,
        std::borrow::Cow::Owned(shorter) => Some(shorter),
    };
    Bytes::from(shorter.unwrap_or(text))
}

impl Parts {
    /// Takes a message apart, as far as `limits` say.
    pub(crate) fn parse(head: &Head<'_>, limits: MailLimits) -> Self {
        let mut parts = Self {
            limits,
            list: Vec::new(),
            order: Vec::new(),
            oddities: Oddities::default(),
            boundaries: Vec::new(),
        };
        let mut queue = VecDeque::new();
        let body = normalised_body(head.body, head.crlf);
        parts.add_message(head, body, limits.nesting_max, 0, &mut queue);
        while let Some(pending) = queue.pop_front() {
            let is_multipart = parts
                .list
                .get(pending.part)
                .is_some_and(|part| part.media_type.starts_with("multipart/"));
            if is_multipart && pending.boundary.is_some() && pending.levels_left > 0 {
                parts.split(pending, &mut queue);
            } else {
                parts.finish(pending, &mut queue);
            }
        }
        parts.put_in_order();
        parts
    }

    /// All parts, containers included, in the order a reader meets them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Part> {
        self.order.iter().filter_map(|&index| self.list.get(index))
    }

    /// The texts and files, in the order a reader meets them.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Part> {
        self.all().filter(|part| part.is_leaf)
    }

    /// The children of a part.
    pub(crate) fn children<'b>(&'b self, part: &'b Part) -> impl Iterator<Item = &'b Part> {
        part.children
            .iter()
            .filter_map(|&index| self.list.get(index))
    }

    /// A part and all below it, in the order a reader meets them.
    pub(crate) fn below<'b>(&'b self, part: &'b Part) -> impl Iterator<Item = &'b Part> {
        let mut stack = vec![part];
        std::iter::from_fn(move || {
            let part = stack.pop()?;
            stack.extend(
                part.children
                    .iter()
                    .rev()
                    .filter_map(|&index| self.list.get(index)),
            );
            Some(part)
        })
    }

    /// The message itself.
    pub(crate) fn root(&self) -> Option<&Part> {
        self.list.first()
    }

    /// No more parts are read.
    fn is_full(&self) -> bool {
        self.list.len() >= self.limits.parts_max
    }

    fn put_in_order(&mut self) {
        let mut stack = vec![0];
        while let Some(index) = stack.pop() {
            if let Some(part) = self.list.get(index) {
                self.order.push(index);
                stack.extend(part.children.iter().rev());
            }
        }
    }

    fn add(&mut self, parent: Option<usize>, part: Part) -> usize {
        let index = self.list.len();
        if let Some(parent) = parent.and_then(|parent| self.list.get_mut(parent)) {
            parent.children.push(index);
            parent.is_leaf = false;
        }
        self.list.push(part);
        index
    }

    fn add_message(
        &mut self,
        head: &Head<'_>,
        body: Bytes,
        levels_left: u32,
        depth: u32,
        queue: &mut VecDeque<Pending>,
    ) -> usize {
        let content_type = ContentType::parse(head.last(b"content-type"));
        let fields = head
            .fields
            .iter()
            .map(|field| Field::new(field.name().to_vec(), field.raw().to_vec()))
            .collect();
        let mut part = Part::new(fields, content_type.media_type, depth);
        part.is_message = true;
        let first_line = lines(&body).next().unwrap_or_default();
        let blank_first = part.media_type.starts_with("multipart/")
            && first_line.len() < body.len()
            && !is_blank(first_line)
            && !content_type.boundary.as_ref().is_some_and(|boundary| {
                first_line
                    .strip_prefix(b"--")
                    .is_some_and(|rest| rest.starts_with(boundary))
            });
        let index = self.add(None, part);
        queue.push_back(Pending {
            part: index,
            boundary: content_type.boundary,
            body,
            blank_first,
            levels_left,
        });
        index
    }

    /// A text or file: notes its parameters; an attached message is taken apart in turn.
    fn finish(&mut self, pending: Pending, queue: &mut VecDeque<Pending>) {
        let Some(part) = self.list.get_mut(pending.part) else {
            return;
        };
        let content_type = ContentType::parse(part.field(b"content-type"));
        if !content_type.missing {
            let splittable =
                !content_type.media_type.starts_with("multipart/") || pending.boundary.is_some();
            part.media_type = if splittable {
                content_type.media_type
            } else {
                "text/plain".to_owned()
            };
        }
        part.charset = content_type.charset;
        part.name = part
            .field(b"content-disposition")
            .and_then(disposition_name)
            .or(content_type
                .name
                .filter(|name| !name.is_empty() && name != b"0"));
        part.raw = if pending.blank_first {
            Bytes::from([b"\n", &pending.body[..]].concat())
        } else {
            pending.body
        };
        let is_attached_message = matches!(
            part.media_type.as_str(),
            "message/rfc822" | "message/global"
        );
        if !is_attached_message || pending.levels_left == 0 || self.is_full() {
            return;
        }
        let Some(part) = self.list.get(pending.part) else {
            return;
        };
        let text = part.decoded().clone();
        if text.is_empty() {
            return;
        }
        let depth = part.depth + 1;
        let head = Head::parse(&text, self.limits);
        let body = normalised_body(head.body, head.crlf);
        let child = self.add_message(&head, body, pending.levels_left - 1, depth, queue);
        if let Some(part) = self.list.get_mut(pending.part) {
            part.children.push(child);
            part.is_leaf = false;
            part.raw = Bytes::new();
            part.decoded = OnceCell::new();
        }
    }

    /// A multipart: cuts it at its boundaries.
    fn split(&mut self, pending: Pending, queue: &mut VecDeque<Pending>) {
        let Some(boundary) = pending.boundary else {
            return;
        };
        let (parent_is_digest, depth) = match self.list.get_mut(pending.part) {
            Some(parent) => {
                parent.is_leaf = false;
                (parent.media_type == "multipart/digest", parent.depth + 1)
            }
            None => return,
        };
        let (start, found) = self.skip_preamble(&pending.body, &boundary);
        let body = pending.body.slice(start..);
        let mut reader =
            PartReader::new(pending.blank_first && !found, self.limits.header_fields_max);
        let mut children = 0;
        let mut at = 0;
        while at < body.len() {
            let rest = body.get(at..).unwrap_or_default();
            let line = lines(rest).next().unwrap_or_default();
            at += line.len();
            let mut end = boundary_kind(line, &boundary);
            if reader.nested_boundary && end.is_some() {
                reader.nested_boundary = end != Some(BoundaryKind::Last);
                end = None;
            }
            let is_last_line = at >= body.len();
            if end.is_none() && !is_last_line {
                reader.line(line, at, &boundary, &mut self.oddities);
                continue;
            }
            if end.is_none() {
                reader.body_line(line, at);
            }
            let child = reader.take(&body, end.is_some());
            let content_type = ContentType::parse(child.content_type());
            let media_type = if content_type.missing && parent_is_digest {
                "message/rfc822".to_owned()
            } else {
                content_type.media_type
            };
            let index = self.add(
                Some(pending.part),
                Part::new(child.fields, media_type, depth),
            );
            queue.push_back(Pending {
                part: index,
                boundary: content_type.boundary.or_else(|| Some(boundary.clone())),
                body: child.body,
                blank_first: false,
                levels_left: pending.levels_left - 1,
            });
            if end == Some(BoundaryKind::Last) {
                self.note_boundary(&boundary, -1);
                break;
            }
            if !is_last_line && !is_part_head_line(body.get(at..).unwrap_or_default()) {
                self.oddities.part_head_missing = true;
            }
            children += 1;
            if children >= self.limits.parts_per_multipart_max || self.is_full() {
                self.oddities.too_many_parts = true;
                return;
            }
        }
        let epilogue = body.get(at..).unwrap_or_default();
        self.oddities.epilogue |= epilogue.iter().any(|&byte| !is_space(byte) && byte != b'.');
    }

    /// Where the line after the first boundary starts, and whether there is a boundary at all.
    fn skip_preamble(&mut self, body: &[u8], boundary: &[u8]) -> (usize, bool) {
        let mut at = 0;
        for line in lines(body) {
            at += line.len();
            if boundary_kind(line, boundary) == Some(BoundaryKind::Between) {
                self.note_boundary(boundary, 1);
                let rest = body.get(at..).unwrap_or_default();
                if !rest.is_empty() && !is_part_head_line(rest) {
                    self.oddities.part_head_missing = true;
                }
                return (at, true);
            }
        }
        (0, false)
    }

    fn note_boundary(&mut self, boundary: &[u8], step: i32) {
        match self
            .boundaries
            .iter_mut()
            .find(|(known, _)| known == boundary)
        {
            Some((_, open)) => *open = if step > 0 { 1 } else { *open + step },
            None => self.boundaries.push((boundary.to_vec(), step)),
        }
    }
}
