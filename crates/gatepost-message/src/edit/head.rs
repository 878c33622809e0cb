//! A mail as header fields and the rest, for editing. Nothing is decoded, and everything that is
//! not edited stays unchanged.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use memchr::memchr;

use super::EditedField;
use super::occurrences::FieldOccurrences;

/// The number of fields that are searched for from the top. For more, the places of all fields are
/// collected, or the time would grow with the square of the number of fields.
const SEARCHES_MAX: u32 = 16;

pub(super) struct EditableHead<'a> {
    /// Each field with its folded lines and line ends. A removed one is empty.
    fields: Vec<Cow<'a, [u8]>>,
    /// The number of searches since a field was added.
    searches: u32,
    /// The fields of each name in lower case; empty until there were many searches.
    occurrences: HashMap<Vec<u8>, FieldOccurrences>,
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
            searches: 0,
            occurrences: HashMap::new(),
            separator: Cow::Borrowed(separator),
            body: Cow::Borrowed(rest),
            line_end: if only_lf { b"\n" } else { b"\r\n" },
        }
    }

    pub(super) fn prepend(&mut self, field: &EditedField) {
        self.begin_addition();
        self.fields
            .insert(0, Cow::Owned(field.write(self.line_end)));
    }

    pub(super) fn append(&mut self, field: &EditedField) {
        self.begin_addition();
        self.fields.push(Cow::Owned(field.write(self.line_end)));
    }

    /// Prepares the head for another field, which changes the places of the others.
    fn begin_addition(&mut self) {
        self.close_last();
        self.searches = 0;
        self.occurrences.clear();
    }

    pub(super) fn replace(&mut self, field: &EditedField, occurrence: u32) {
        if let Some(place) = self.find(field.name(), occurrence) {
            self.fields[place] = Cow::Owned(field.write(self.line_end));
        }
    }

    pub(super) fn remove(&mut self, name: &str, occurrence: u32) {
        let Some(place) = self.find(name, occurrence) else {
            return;
        };
        self.fields[place] = Cow::Borrowed(&[]);
        if let Some(of_name) = self.occurrences.get_mut(&lowercase(name)) {
            of_name.remove(occurrence as usize - 1);
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
        let mut fields = self.fields.iter_mut().rev();
        if let Some(last) = fields.find(|field| !field.is_empty())
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

    fn find(&mut self, name: &str, occurrence: u32) -> Option<usize> {
        let before = (occurrence as usize).checked_sub(1)?;
        self.searches += 1;
        if self.searches > SEARCHES_MAX {
            if self.occurrences.is_empty() {
                self.occurrences = self.collect_occurrences();
            }
            return self.occurrences.get(&lowercase(name))?.get(before);
        }
        let of_name = |place: &usize| {
            let found = name_of(&self.fields[*place]);
            !found.is_empty() && found.eq_ignore_ascii_case(name.as_bytes())
        };
        let mut places = (0..self.fields.len()).filter(of_name);
        places.nth(before)
    }

    fn collect_occurrences(&self) -> HashMap<Vec<u8>, FieldOccurrences> {
        let mut places: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (place, field) in self.fields.iter().enumerate() {
            let name = name_of(field);
            if !name.is_empty() {
                places
                    .entry(name.to_ascii_lowercase())
                    .or_default()
                    .push(place);
            }
        }
        let of_name = |(name, places)| (name, FieldOccurrences::new(places));
        places.into_iter().map(of_name).collect()
    }
}

fn lowercase(name: &str) -> Vec<u8> {
    name.to_ascii_lowercase().into_bytes()
}

fn name_of(field: &[u8]) -> &[u8] {
    let end = memchr(b':', field).unwrap_or(0);
    field[..end].trim_ascii_end()
}
