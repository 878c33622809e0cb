//! Constructs that start with `<`: tags with their attributes, comments, declarations, marked
//! sections.

use super::{
    Attributes, LITERAL_ELEMENTS, MarkedSection, MarkupParse, TokenHandler, Tokenizer, is_space,
};

/// The most nested marked sections.
const SECTIONS_MAX: usize = 1000;

impl<'a> Tokenizer<'a> {
    /// Parses the construct that starts with the `<` at `tag`.
    pub(super) fn markup(&mut self, tag: usize, handler: &mut impl TokenHandler) -> MarkupParse {
        match self.byte(tag + 1) {
            Some(byte) if byte.is_ascii_alphabetic() => self.start_tag(tag, handler),
            Some(b'/') => self.end_tag(tag, handler),
            Some(b'!') => self.declaration(tag, handler),
            Some(b'?') => match self.find(b'>', tag + 2) {
                Some(end) => MarkupParse::Piece(end + 1),
                None => MarkupParse::Unfinished,
            },
            _ => MarkupParse::Text,
        }
    }

    fn start_tag(&mut self, tag: usize, handler: &mut impl TokenHandler) -> MarkupParse {
        let mut attributes = Attributes::default();
        let Some((name_end, end)) = self.read_start_tag(tag, &mut attributes) else {
            return MarkupParse::Unfinished;
        };
        let name = self.slice(tag + 1, name_end);
        if self.section != MarkedSection::Ignore {
            self.report_pending_end(handler);
            with_lower_case(name, |name| handler.start(name, &attributes));
        }
        self.literal = LITERAL_ELEMENTS
            .into_iter()
            .find(|(element, _)| element.eq_ignore_ascii_case(name));
        MarkupParse::Piece(end)
    }

    /// The end of the name and the end of the tag; `None` if the tag does not end.
    fn read_start_tag(
        &self,
        tag: usize,
        attributes: &mut Attributes<'a>,
    ) -> Option<(usize, usize)> {
        let word_end = |from: usize, stop_at_equals: bool| {
            let mut at = from;
            while let Some(byte) = self.byte(at) {
                if is_space(byte) || byte == b'>' || stop_at_equals && byte == b'=' {
                    break;
                }
                at += 1;
            }
            at
        };
        let name_end = word_end(tag + 2, false);
        let mut at = self.skip_space(name_end);
        loop {
            if self.byte(at)? == b'>' {
                return Some((name_end, at + 1));
            }
            let attribute_end = word_end(at + 1, true);
            let attribute = self.slice(at, attribute_end);
            at = self.skip_space(attribute_end);
            if self.byte(at)? != b'=' {
                attributes.push(attribute, attribute);
                continue;
            }
            at = self.skip_space(at + 1);
            match self.byte(at)? {
                b'>' => attributes.push(attribute, ""),
                quote @ (b'"' | b'\'') => {
                    let end = self.find(quote, at + 1)?;
                    attributes.push(attribute, self.slice(at + 1, end));
                    at = self.skip_space(end + 1);
                }
                _ => {
                    let end = word_end(at, false);
                    attributes.push(attribute, self.slice(at, end));
                    at = self.skip_space(end);
                }
            }
        }
    }

    fn end_tag(&mut self, tag: usize, handler: &mut impl TokenHandler) -> MarkupParse {
        let name_start = tag + 2;
        let mut name_end = name_start;
        while self
            .byte(name_end)
            .is_some_and(|byte| !is_space(byte) && byte != b'>')
        {
            name_end += 1;
        }
        let Some(end) = self.skip_quoted(name_end) else {
            return MarkupParse::Unfinished;
        };
        if name_end == name_start {
            self.report_comment(tag, end + 1, handler);
        } else if self.section != MarkedSection::Ignore {
            self.report_pending_end(handler);
            with_lower_case(self.slice(name_start, name_end), |name| handler.end(name));
        }
        MarkupParse::Piece(end + 1)
    }

    /// The next `>` outside quotes, where quotes open only after a blank or an equals sign.
    fn skip_quoted(&self, from: usize) -> Option<usize> {
        let mut quote = None;
        let mut previous = b' ';
        for (offset, &byte) in self.text.as_bytes().get(from..)?.iter().enumerate() {
            match (byte, quote) {
                (b'>', None) => return Some(from + offset),
                (b'"' | b'\'', Some(open)) if open == byte => quote = None,
                (b'"' | b'\'', None) if matches!(previous, b' ' | b'=') => quote = Some(byte),
                _ => {}
            }
            previous = byte;
        }
        None
    }

    fn declaration(&mut self, tag: usize, handler: &mut impl TokenHandler) -> MarkupParse {
        let start = tag + 2;
        match self.byte(start) {
            Some(b'-') if self.byte(start + 1) == Some(b'-') => return self.comment(tag, handler),
            Some(b'[') => match self.marked_section(tag) {
                MarkupParse::Text => {}
                found => return found,
            },
            Some(b'>') => {
                self.report_comment(tag, start + 1, handler);
                return MarkupParse::Piece(start + 1);
            }
            Some(byte) if byte.is_ascii_alphabetic() => match self.named_declaration(start) {
                MarkupParse::Piece(end) => {
                    if self.section != MarkedSection::Ignore {
                        self.report_pending_end(handler);
                        handler.declaration(self.slice(tag, end));
                    }
                    return MarkupParse::Piece(end);
                }
                MarkupParse::Unfinished => return MarkupParse::Unfinished,
                MarkupParse::Text => {}
            },
            _ => {}
        }
        match self.find(b'>', start) {
            Some(end) => {
                self.report_comment(tag, end + 1, handler);
                MarkupParse::Piece(end + 1)
            }
            None => MarkupParse::Unfinished,
        }
    }

    fn comment(&mut self, tag: usize, handler: &mut impl TokenHandler) -> MarkupParse {
        let start = tag + 4;
        let end = if self.short_comments {
            self.find(b'>', start)
        } else {
            let mut from = start;
            loop {
                let Some(dash) = memchr::memmem::find(
                    self.text.as_bytes().get(from..).unwrap_or_default(),
                    b"--",
                ) else {
                    break None;
                };
                let close = self.skip_space(from + dash + 2);
                if self.byte(close) == Some(b'>') {
                    break Some(close);
                }
                // White space is not examined twice.
                from = if close > from + dash + 2 {
                    close
                } else {
                    from + dash + 1
                };
            }
        };
        match end {
            Some(end) => {
                self.report_comment(tag, end + 1, handler);
                MarkupParse::Piece(end + 1)
            }
            None => MarkupParse::Unfinished,
        }
    }

    /// `<!DOCTYPE …>` and `<!ENTITY …>`; anything else is a comment.
    fn named_declaration(&self, start: usize) -> MarkupParse {
        let is_name =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':');
        let mut at = start;
        while self.byte(at).is_some_and(is_name) {
            at += 1;
        }
        if at >= self.text.len() {
            return MarkupParse::Unfinished;
        }
        let name = self.slice(start, at);
        if !name.eq_ignore_ascii_case("doctype") && !name.eq_ignore_ascii_case("entity") {
            return MarkupParse::Text;
        }
        loop {
            at = self.skip_space(at);
            let next = match self.byte(at) {
                None => return MarkupParse::Unfinished,
                Some(b'>') => return MarkupParse::Piece(at + 1),
                Some(quote @ (b'"' | b'\'')) => self.find(quote, at + 1).map(|end| end + 1),
                Some(b'-') => match self.byte(at + 1) {
                    None => None,
                    Some(b'-') => {
                        let rest = self.text.as_bytes().get(at + 2..).unwrap_or_default();
                        memchr::memmem::find(rest, b"--").map(|length| at + length + 4)
                    }
                    Some(_) => return MarkupParse::Text,
                },
                Some(_) => {
                    let rest = self.text.as_bytes().get(at + 1..).unwrap_or_default();
                    rest.iter()
                        .position(|&byte| is_space(byte) || byte == b'>')
                        .map(|length| at + 1 + length)
                }
            };
            match next {
                Some(next) => at = next,
                None => return MarkupParse::Unfinished,
            }
        }
    }

    /// `<![NAME[`.
    fn marked_section(&mut self, tag: usize) -> MarkupParse {
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':');
        let is_name =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':');
        let mut at = self.skip_space(tag + 3);
        let mut section = None;
        while self.byte(at).is_some_and(is_first) {
            let start = at;
            while self.byte(at).is_some_and(is_name) {
                at += 1;
            }
            let named = match self.slice(start, at).to_ascii_lowercase().as_str() {
                "include" => MarkedSection::Include,
                "rcdata" => MarkedSection::Rcdata,
                "cdata" => MarkedSection::Cdata,
                "ignore" => MarkedSection::Ignore,
                _ => MarkedSection::None,
            };
            section = section.max(Some(named));
            at = self.skip_space(at);
            if at >= self.text.len() {
                return MarkupParse::Unfinished;
            }
        }
        if self.byte(at) != Some(b'[') {
            return MarkupParse::Text;
        }
        if self.sections.len() < SECTIONS_MAX {
            self.sections
                .push(section.unwrap_or(MarkedSection::Include));
            self.section = self
                .sections
                .iter()
                .copied()
                .max()
                .unwrap_or(MarkedSection::None);
        }
        MarkupParse::Piece(at + 1)
    }
}

/// The longest tag name that is converted to lower case without an allocation.
const TAG_NAME_INLINE_LENGTH: usize = 32;

fn with_lower_case(name: &str, mut then: impl FnMut(&str)) {
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return then(name);
    }
    let mut buffer = [0_u8; TAG_NAME_INLINE_LENGTH];
    if let Some(target) = buffer.get_mut(..name.len()) {
        target.copy_from_slice(name.as_bytes());
        target.make_ascii_lowercase();
        if let Ok(lower) = std::str::from_utf8(target) {
            return then(lower);
        }
    }
    then(&name.to_ascii_lowercase());
}
