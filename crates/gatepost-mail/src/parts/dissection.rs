//! Divides a message at its boundaries, as tolerant of malformed boundaries and heads as mail
//! programs are.
//!
//! Parts that are not yet divided are in a queue, so neither the depth nor the number of parts
//! affects the stack; the limits bound both.

use std::cell::OnceCell;
use std::collections::VecDeque;

use bytes::Bytes;

use super::multipart::{BoundaryKind, PartReader, boundary_kind, is_part_head_line};
use super::{MimePart, ParseFlags, Parts};
use crate::ascii::{is_blank, is_space, lines};
use crate::content_type::{ContentType, disposition_name};
use crate::head::{HeaderField, MessageHead};
use crate::limits::MailLimits;
use crate::line_ends::normalised_body;

/// A part whose body is not yet examined.
struct Pending {
    part: usize,
    boundary: Option<Vec<u8>>,
    body: Bytes,
    /// The body is parsed as if a blank line preceded it.
    blank_first: bool,
    levels_left: u32,
}

impl Parts {
    /// Divides a message, within `limits`.
    pub fn parse(head: &MessageHead<'_>, limits: MailLimits) -> Self {
        let mut parts = Self {
            limits,
            list: Vec::new(),
            order: Vec::new(),
            flags: ParseFlags::default(),
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

    /// The limit on parts is reached.
    fn is_full(&self) -> bool {
        self.list.len() >= self.limits.parts_max
    }

    fn put_in_order(&mut self) {
        let mut stack = vec![0];
        let mut leaves = 0;
        while let Some(index) = stack.pop() {
            if let Some(part) = self.list.get_mut(index) {
                self.order.push(index);
                stack.extend(part.children.iter().rev());
                if part.is_leaf {
                    part.leaf_number = Some(leaves);
                    leaves += 1;
                }
            }
        }
    }

    fn add(&mut self, parent: Option<usize>, part: MimePart) -> usize {
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
        head: &MessageHead<'_>,
        body: Bytes,
        levels_left: u32,
        depth: u32,
        queue: &mut VecDeque<Pending>,
    ) -> usize {
        let content_type = ContentType::parse(head.last(b"content-type"));
        let fields = head
            .fields
            .iter()
            .map(|field| HeaderField::new(field.name().to_vec(), field.raw().to_vec()))
            .collect();
        let mut part = MimePart::new(fields, content_type.media_type, depth);
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

    /// A text or file: records its parameters; an attached message is divided in turn.
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
        let head = MessageHead::parse(&text, self.limits);
        let body = normalised_body(head.body, head.crlf);
        let child = self.add_message(&head, body, pending.levels_left - 1, depth, queue);
        if let Some(part) = self.list.get_mut(pending.part) {
            part.children.push(child);
            part.is_leaf = false;
            part.raw = Bytes::new();
            part.decoded = OnceCell::new();
        }
    }

    /// A multipart: divides it at its boundaries.
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
                reader.line(line, at, &boundary, &mut self.flags);
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
                MimePart::new(child.fields, media_type, depth),
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
                self.flags.part_head_missing = true;
            }
            children += 1;
            if children >= self.limits.parts_per_multipart_max || self.is_full() {
                self.flags.too_many_parts = true;
                return;
            }
        }
        let epilogue = body.get(at..).unwrap_or_default();
        self.flags.epilogue |= epilogue.iter().any(|&byte| !is_space(byte) && byte != b'.');
    }

    /// The start of the line after the first boundary, and whether there is a boundary.
    fn skip_preamble(&mut self, body: &[u8], boundary: &[u8]) -> (usize, bool) {
        let mut at = 0;
        for line in lines(body) {
            at += line.len();
            if boundary_kind(line, boundary) == Some(BoundaryKind::Between) {
                self.note_boundary(boundary, 1);
                let rest = body.get(at..).unwrap_or_default();
                if !rest.is_empty() && !is_part_head_line(rest) {
                    self.flags.part_head_missing = true;
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
