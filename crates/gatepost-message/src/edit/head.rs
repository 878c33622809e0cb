//! A mail as header fields and the rest, for editing. Nothing is decoded, and everything that is
//! not edited stays unchanged.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr;

use super::EditedField;

pub(super) struct EditableHead<'a> {
    /// Each field with its folded lines and line ends.
    fields: Vec<Cow<'a, [u8]>>,
    /// The empty line after the header; empty in a mail that consists of a header only.
    separator: Cow<'a, [u8]>,
    body: Cow<'a, [u8]>,
    line_end: &'static [u8],
}

impl<'a> EditableHead<'a> {
    pub(super) fn split(mail: &'a [u8]) -> Self {
        let mut fields: Vec<Cow<'a, [u8]>> = Vec::new();
        let mut rest = mail;
        let mut field_start = mail;
        let mut field_length = 0;
        let mut separator = &mail[..0];
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, remainder) = rest.split_at(end);
            if line == b"\r\n" || line == b"\n" {
                separator = line;
                rest = remainder;
                break;
            }
            let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
            if !is_folded && field_length > 0 {
                fields.push(Cow::Borrowed(&field_start[..field_length]));
                field_length = 0;
            }
            if field_length == 0 {
                field_start = rest;
            }
            field_length += line.len();
            rest = remainder;
        }
        if field_length > 0 {
            fields.push(Cow::Borrowed(&field_start[..field_length]));
        }
        let first_end = memchr(b'\n', mail);
        let only_lf = first_end.is_some_and(|at| at == 0 || mail.get(at - 1) != Some(&b'\r'));
        Self {
            fields,
            separator: Cow::Borrowed(separator),
            body: Cow::Borrowed(rest),
            line_end: if only_lf { b"\n" } else { b"\r\n" },
        }
    }

    pub(super) fn prepend(&mut self, field: &EditedField) {
        self.close_last();
        self.fields
            .insert(0, Cow::Owned(field.write(self.line_end)));
    }

    pub(super) fn append(&mut self, field: &EditedField) {
        self.close_last();
        self.fields.push(Cow::Owned(field.write(self.line_end)));
    }

    pub(super) fn replace(&mut self, field: &EditedField, occurrence: u32) {
        if let Some(place) = self.find(field.name(), occurrence) {
            self.fields[place] = Cow::Owned(field.write(self.line_end));
        }
    }

    pub(super) fn remove(&mut self, name: &str, occurrence: u32) {
        if let Some(place) = self.find(name, occurrence) {
            self.fields.remove(place);
        }
    }

    pub(super) fn set_body(&mut self, body: &'a Bytes) {
        self.close_last();
        if self.separator.is_empty() {
            self.separator = Cow::Borrowed(self.line_end);
        }
        self.body = Cow::Borrowed(body);
    }

    pub(super) fn join(self) -> Bytes {
        let mut mail = Vec::new();
        for field in &self.fields {
            mail.extend_from_slice(field);
        }
        mail.extend_from_slice(&self.separator);
        mail.extend_from_slice(&self.body);
        mail.into()
    }

    /// A mail that ends within its header has no line end there.
    fn close_last(&mut self) {
        if let Some(last) = self.fields.last_mut()
            && !last.ends_with(b"\n")
        {
            last.to_mut().extend_from_slice(self.line_end);
        }
    }

    /// The names of all fields; a line without a name is skipped.
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.fields.iter().map(|field| name_of(field));
        let names = names.filter(|name| !name.is_empty());
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    fn find(&self, name: &str, occurrence: u32) -> Option<usize> {
        let of_name = |place: &usize| {
            let found = name_of(&self.fields[*place]);
            !found.is_empty() && found.eq_ignore_ascii_case(name.as_bytes())
        };
        let mut places = (0..self.fields.len()).filter(of_name);
        places.nth((occurrence as usize).checked_sub(1)?)
    }
}

fn name_of(field: &[u8]) -> &[u8] {
    let end = memchr(b':', field).unwrap_or(0);
    field[..end].trim_ascii_end()
}
