//! The canonicalization of fields and bodies, RFC 6376, section 3.4.

use super::fields::RawField;

/// The changes in transit that a canonicalization tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Canonicalization {
    /// Only blank lines at the end.
    Simple,
    /// White space, and the case of field names.
    Relaxed,
}

impl Canonicalization {
    /// The canonicalizations of the head and of the body in `c=`.
    pub(crate) fn pair(text: Option<&str>) -> Option<(Self, Self)> {
        let one = |name: &str| match name {
            "simple" => Some(Self::Simple),
            "relaxed" => Some(Self::Relaxed),
            _ => None,
        };
        let text = text.unwrap_or("simple/simple").to_ascii_lowercase();
        match text.split_once('/') {
            Some((head, body)) => Some((one(head)?, one(body)?)),
            None => Some((one(&text)?, Self::Simple)),
        }
    }

    /// Adds a field without its line end.
    pub(crate) fn field(self, field: RawField<'_>, out: &mut Vec<u8>) {
        if self == Self::Simple {
            out.extend_from_slice(field.text);
            return;
        }
        out.extend(field.name().iter().map(u8::to_ascii_lowercase));
        out.push(b':');
        let start = out.len();
        for &byte in field.value() {
            match byte {
                b'\r' | b'\n' => {}
                b' ' | b'\t' if out.len() == start || out.last() == Some(&b' ') => {}
                b' ' | b'\t' => out.push(b' '),
                byte => out.push(byte),
            }
        }
        if out.len() > start && out.last() == Some(&b' ') {
            out.pop();
        }
    }

    /// The body without the blank lines at its end.
    pub(crate) fn body(self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(body.len() + 2);
        // Up to the last line that is not blank.
        let mut kept = 0;
        for line in body.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").unwrap_or(line);
            let before = out.len();
            match self {
                Self::Simple => out.extend_from_slice(line),
                Self::Relaxed => relax(line, &mut out),
            }
            let is_blank = out.len() == before;
            out.extend_from_slice(b"\r\n");
            if !is_blank {
                kept = out.len();
            }
        }
        out.truncate(kept);
        if self == Self::Simple && out.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
        out
    }
}

/// Adds a line without trailing blanks; each other run of blanks becomes one.
fn relax(line: &[u8], out: &mut Vec<u8>) {
    let mut blank = false;
    for &byte in line {
        if matches!(byte, b' ' | b'\t') {
            blank = true;
            continue;
        }
        if blank {
            out.push(b' ');
            blank = false;
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::dkim::RawMail;

    /// The example of RFC 6376, section 3.4.5.
    #[test]
    fn the_example_of_the_standard() {
        let mail = RawMail::read(b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n");
        let mut out = Vec::new();
        for index in 0..2 {
            Canonicalization::Relaxed.field(mail.field(index).unwrap(), &mut out);
            out.extend_from_slice(b"\r\n");
        }
        assert_eq!(out, b"a:X\r\nb:Y Z\r\n");
        assert_eq!(Canonicalization::Relaxed.body(mail.body), b" C\r\nD E\r\n");
        assert_eq!(
            Canonicalization::Simple.body(mail.body),
            b" C \r\nD \t E\r\n"
        );
    }

    #[test]
    fn empty_bodies() {
        for body in [&b""[..], b"\r\n", b"\r\n\r\n"] {
            assert_eq!(Canonicalization::Simple.body(body), b"\r\n");
            assert_eq!(Canonicalization::Relaxed.body(body), b"");
        }
        assert_eq!(
            Canonicalization::Relaxed.body(b" \t\r\n\r\nx"),
            b"\r\n\r\nx\r\n"
        );
        assert_eq!(
            Canonicalization::Simple.body(b"a\r\n\r\nb"),
            b"a\r\n\r\nb\r\n"
        );
    }
}
