//! The head of a mail as bytes, with the positions of its fields. Nothing is decoded.

use memchr::memchr;

/// One field with its bytes in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldSpan<'a> {
    /// Without the colon and blanks before it.
    pub(crate) name: &'a [u8],
    /// The text after the colon, with the line end of its last line.
    pub(crate) value: &'a [u8],
}

impl FieldSpan<'_> {
    /// Names differ by more than case.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The fields of a message's head. A line that is not a field ends the head as well as an empty
/// one.
pub(crate) fn fields(message: &[u8]) -> Vec<FieldSpan<'_>> {
    let mut fields = Vec::new();
    let mut rest = message;
    while let Some((field, remainder)) = first_field(rest) {
        fields.push(field);
        rest = remainder;
    }
    fields
}

fn first_field(head: &[u8]) -> Option<(FieldSpan<'_>, &[u8])> {
    let colon = memchr(b':', head)?;
    let name = head.get(..colon)?.trim_ascii_end();
    // RFC 5322, section 2.2: printable characters other than the colon.
    if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let mut end = colon;
    loop {
        end = memchr(b'\n', head.get(end..)?).map_or(head.len(), |at| end + at + 1);
        if !matches!(head.get(end), Some(b' ' | b'\t')) {
            break;
        }
    }
    let value = head.get(colon + 1..end)?;
    Some((FieldSpan { name, value }, head.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &[u8] =
        b"Received: a\r\n\tb\r\nSubject: x\r\nX-Spam-Flag: NO\r\nx-spam-flag : no\r\n\r\n\
          body: y\r\n";

    #[test]
    fn a_head_ends_at_the_empty_line_or_at_no_field() {
        let fields = fields(MAIL);
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        let expected: [&[u8]; 4] = [b"Received", b"Subject", b"X-Spam-Flag", b"x-spam-flag"];
        assert_eq!(names, expected);
        assert_eq!(fields[0].value, b" a\r\n\tb\r\n");
        assert_eq!(super::fields(b"no field\r\nA: b\r\n"), []);
        assert_eq!(super::fields(b"A: b").len(), 1);
        assert_eq!(super::fields(b""), []);
    }
}
