//! A message in the form that is signed: raw fields, raw body, CRLF at the end of every line.

use std::borrow::Cow;

/// A field with its folding, without its last CRLF.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawField<'m> {
    pub(crate) text: &'m [u8],
    colon: usize,
}

impl<'m> RawField<'m> {
    pub(crate) fn name(&self) -> &'m [u8] {
        self.text
            .get(..self.colon)
            .unwrap_or_default()
            .trim_ascii_end()
    }

    pub(crate) fn value(&self) -> &'m [u8] {
        self.text.get(self.colon + 1..).unwrap_or_default()
    }
}

/// The fields and the body of a message.
#[derive(Debug)]
pub(crate) struct RawMail<'m> {
    fields: Vec<RawField<'m>>,
    pub(crate) body: &'m [u8],
}

/// A message with CRLF at the end of every line.
pub(crate) fn with_line_ends(message: &[u8]) -> Cow<'_, [u8]> {
    let is_bare = |at: usize| at == 0 || message.get(at - 1) != Some(&b'\r');
    let bare = memchr::memchr_iter(b'\n', message)
        .filter(|&at| is_bare(at))
        .count();
    if bare == 0 {
        return Cow::Borrowed(message);
    }
    let mut out = Vec::with_capacity(message.len() + bare);
    let mut start = 0;
    for at in memchr::memchr_iter(b'\n', message) {
        out.extend_from_slice(message.get(start..at).unwrap_or_default());
        if is_bare(at) {
            out.push(b'\r');
        }
        out.push(b'\n');
        start = at + 1;
    }
    out.extend_from_slice(message.get(start..).unwrap_or_default());
    Cow::Owned(out)
}

impl<'m> RawMail<'m> {
    /// Divides a message; its lines end in CRLF.
    pub(crate) fn read(message: &'m [u8]) -> Self {
        let mut fields = Vec::new();
        let mut start = 0;
        let mut at = 0;
        let finish = |start: usize, end: usize, fields: &mut Vec<RawField<'m>>| {
            let text = message.get(start..end).unwrap_or_default();
            let text = text.strip_suffix(b"\r\n").unwrap_or(text);
            if let Some(colon) = memchr::memchr(b':', text) {
                fields.push(RawField { text, colon });
            }
        };
        while let Some(rest) = message.get(at..).filter(|rest| !rest.is_empty()) {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let is_continued = matches!(rest.first(), Some(b' ' | b'\t'));
            if !is_continued && at > start {
                finish(start, at, &mut fields);
                start = at;
            }
            at += length;
            if rest.get(..length) == Some(b"\r\n") {
                return Self {
                    fields,
                    body: message.get(at..).unwrap_or_default(),
                };
            }
        }
        finish(start, at, &mut fields);
        Self { fields, body: &[] }
    }

    /// All fields, in their order.
    pub(super) fn fields(&self) -> impl Iterator<Item = RawField<'m>> + '_ {
        self.fields.iter().copied()
    }

    /// The fields with this name, in lower case, with their indices.
    pub(crate) fn fields_named<'f>(
        &'f self,
        name: &'f [u8],
    ) -> impl DoubleEndedIterator<Item = (usize, RawField<'m>)> + 'f {
        let all = self.fields.iter().copied().enumerate();
        all.filter(move |(_, field)| field.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn field(&self, index: usize) -> Option<RawField<'m>> {
        self.fields.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_folding() {
        let message = with_line_ends(b"A: 1\n 2\nB : 3\r\n\nbody\n");
        let mail = RawMail::read(&message);
        assert_eq!(mail.field(0).unwrap().text, b"A: 1\r\n 2");
        assert_eq!(mail.field(1).unwrap().name(), b"B");
        assert_eq!(mail.body, b"body\r\n");
    }
}
