//! The input of the pattern parser: a cursor with the modifiers at its position.
//!
//! The grammar is in `parser`, escapes and classes in `escapes`; both advance this cursor.

use super::error::SyntaxError;
use super::node::Node;
use crate::byte_set::ByteSet;

/// The modifiers of a pattern, as after its closing delimiter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modifiers {
    /// `/i`.
    pub fold_case: bool,
    /// `/m`.
    pub multi_line: bool,
    /// `/s`.
    pub dot_all: bool,
    /// `/x`.
    pub extended: bool,
    /// `/xx`.
    pub extended_classes: bool,
    /// `/n`.
    pub no_capture: bool,
}

impl Modifiers {
    /// Switches the modifier `letter` on or off; returns whether there is such a modifier.
    pub(crate) fn set(&mut self, letter: u8, on: bool) -> bool {
        match letter {
            b'i' => self.fold_case = on,
            b'm' => self.multi_line = on,
            b's' => self.dot_all = on,
            b'x' => {
                self.extended_classes = on && self.extended;
                self.extended = on;
            }
            b'n' => self.no_capture = on,
            // Character set and copying modifiers have no effect: all patterns run under /aa.
            b'a' | b'd' | b'l' | b'u' | b'p' | b'o' | b'g' | b'c' => {}
            _ => return false,
        }
        true
    }
}

/// The position in a pattern, and the modifiers that apply there.
pub(super) struct PatternParser<'p> {
    pub(super) pattern: &'p [u8],
    pub(super) position: usize,
    pub(super) modifiers: Modifiers,
    /// The number of open groups.
    pub(super) depth: u32,
    /// The capturing groups that were opened so far: they decide what `\10` means.
    pub(super) groups_opened: u32,
    /// An estimate of the groups in the whole pattern: references to more of them are refused.
    pub(super) groups_total: u32,
}

impl PatternParser<'_> {
    pub(super) fn error(&self, reason: impl Into<String>) -> SyntaxError {
        SyntaxError {
            reason: reason.into(),
            position: self.position,
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.pattern.get(self.position).copied()
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.pattern.get(self.position..).unwrap_or_default()
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    pub(super) fn take(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.position += text.len();
        }
        found
    }

    /// The text up to `end`, which is consumed too.
    pub(super) fn until(&mut self, end: u8) -> Result<String, SyntaxError> {
        let length = memchr::memchr(end, self.rest())
            .ok_or_else(|| self.error(format!("missing {}", char::from(end))))?;
        let text = String::from_utf8_lossy(self.rest().get(..length).unwrap_or_default());
        let text = text.into_owned();
        self.position += length + 1;
        Ok(text)
    }

    pub(super) fn literal(&self, byte: u8) -> Node {
        let set = ByteSet::one(byte);
        Node::Byte(if self.modifiers.fold_case {
            set.fold_case()
        } else {
            set
        })
    }

    pub(super) fn group_name(&mut self, end: u8) -> Result<String, SyntaxError> {
        let name = self.until(end)?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let starts_well = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if starts_well && name.bytes().all(is_word) {
            Ok(name)
        } else {
            Err(self.error("bad group name"))
        }
    }
}
