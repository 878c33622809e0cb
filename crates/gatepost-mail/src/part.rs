//! A MIME part: its fields, and its text before and after transfer decoding.
//!
//! The text is a slice of the message's body unless the body needed repair. It is decoded on first
//! use: many rules never examine an attached file.

use std::borrow::Cow;
use std::cell::OnceCell;

use bytes::Bytes;

use super::ascii;
use super::head::HeaderField;
use super::transfer::{base64, quoted_printable};

/// A MIME part.
#[derive(Debug)]
pub struct MimePart {
    /// Its fields. Empty for the message itself, whose head is separate.
    pub fields: Vec<HeaderField<'static>>,
    /// Its media type, in lower case.
    pub media_type: String,
    /// The declared character set.
    pub charset: Option<Vec<u8>>,
    /// The declared file name.
    pub name: Option<Vec<u8>>,
    /// The part is a text or a file, not a container of others.
    pub is_leaf: bool,
    /// Its nesting depth; 0 for the message itself.
    pub depth: u32,
    /// The part is the message itself, or an attached message.
    pub(crate) is_message: bool,
    /// The text before transfer decoding.
    pub(super) raw: Bytes,
    /// Its number among the leaves in reading order; `None` for a container.
    pub(super) leaf_number: Option<usize>,
    /// The indices of its children in the list of all parts.
    pub(super) children: Vec<usize>,
    /// The text after transfer decoding, once it was requested.
    pub(super) decoded: OnceCell<Bytes>,
}

impl MimePart {
    pub(super) fn new(fields: Vec<HeaderField<'static>>, media_type: String, depth: u32) -> Self {
        Self {
            fields,
            media_type,
            charset: None,
            name: None,
            is_leaf: true,
            depth,
            is_message: false,
            raw: Bytes::new(),
            leaf_number: None,
            children: Vec::new(),
            decoded: OnceCell::new(),
        }
    }

    /// The decoded value of the last field with this name.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields
            .iter()
            .rev()
            .find(|field| field.is(name))
            .map(HeaderField::decoded)
    }

    /// The text before transfer decoding.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The type as which it is displayed: a file named `.html` is HTML whatever the declared type.
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
    pub fn decoded(&self) -> &Bytes {
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
    let shorter = match ascii::without_carriage_returns(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(shorter) => Some(shorter),
    };
    Bytes::from(shorter.unwrap_or(text))
}
