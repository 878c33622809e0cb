//! Divides HTML into tags, text and comments as Perl's HTML::Parser does: nothing is an error, and
//! every byte belongs to a token.

mod markup;

/// Receives the tokens of a document, in order.
pub(super) trait TokenHandler {
    /// A start tag; its name is in lower case.
    fn start(&mut self, tag: &str, attributes: &Attributes<'_>);
    /// An end tag; its name is in lower case.
    fn end(&mut self, tag: &str);
    /// Text between tags. In `literal` text, as in scripts, entities are not decoded.
    fn text(&mut self, text: &str, literal: bool);
    /// A comment with its delimiters.
    fn comment(&mut self, text: &str);
    /// A `<!DOCTYPE …>` or `<!ENTITY …>`.
    fn declaration(&mut self, text: &str);
    /// Whether an element of this name is still open.
    fn is_open(&self, tag: &str) -> bool;
}

/// The attributes of a start tag: names as written, values with undecoded entities.
#[derive(Debug, Default)]
pub(super) struct Attributes<'a> {
    list: smallvec::SmallVec<[(&'a str, &'a str); 8]>,
}

/// The most attributes of a tag that are kept.
const ATTRIBUTES_MAX: usize = 500;

impl<'a> Attributes<'a> {
    /// The value of the first attribute with this name. The value of an attribute without a value
    /// is its own name.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.list
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|&(_, value)| value)
    }

    /// All attributes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.list.iter().copied()
    }

    fn push(&mut self, name: &'a str, value: &'a str) {
        if self.list.len() < ATTRIBUTES_MAX {
            self.list.push((name, value));
        }
    }
}

/// Elements whose content is always text, and whether entities in it are text too.
const LITERAL_ELEMENTS: [(&str, bool); 7] = [
    ("script", true),
    ("style", true),
    ("xmp", true),
    ("iframe", true),
    ("plaintext", true),
    ("title", false),
    ("textarea", false),
];

/// Nothing shorter is a tag.
const MARKUP_LENGTH_MIN: usize = 3;

/// SGML marked sections, `<![CDATA[ … ]]>`, by increasing precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MarkedSection {
    None,
    Include,
    Rcdata,
    Cdata,
    Ignore,
}

/// Divides `text` and passes the tokens to `handler`.
pub(super) fn tokenise(text: &str, handler: &mut impl TokenHandler) {
    let mut reader = Tokenizer::new(text);
    let mut rest = reader.run(0, handler);
    // A script or style without an end tag would hide the rest of the document, so it is closed at
    // the end of the document, and its text ends there.
    let mut closed = String::new();
    for tag in ["style", "script"] {
        if handler.is_open(tag) {
            if closed.is_empty() {
                closed.push_str(text.get(rest..).unwrap_or_default());
                rest = 0;
            }
            closed.push_str("</");
            closed.push_str(tag);
            closed.push('>');
            let mut again = Tokenizer {
                text: &closed,
                unclosed: Vec::new(),
                ..reader
            };
            rest = again.run(rest, handler);
            reader = Tokenizer { text, ..again };
        }
    }
    let mut reader = if closed.is_empty() {
        reader
    } else {
        Tokenizer {
            text: &closed,
            ..reader
        }
    };
    reader.finish(rest, handler);
}

struct Tokenizer<'a> {
    text: &'a str,
    literal: Option<(&'static str, bool)>,
    sections: Vec<MarkedSection>,
    section: MarkedSection,
    /// Comments end at the next `>`: set when the real end was not found.
    short_comments: bool,
    pending_end: Option<&'static str>,
    /// Literal elements without a following end tag, so that the end tag is searched for only once.
    unclosed: Vec<&'static str>,
}

/// The result of parsing a construct that starts with `<`.
enum MarkupParse {
    /// A token that ends at this position.
    Piece(usize),
    /// The construct does not end in this document.
    Unfinished,
    /// The construct is not markup: the `<` is text.
    Text,
}

const fn is_space(byte: u8) -> bool {
    crate::ascii::is_space(byte)
}

impl<'a> Tokenizer<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            literal: None,
            sections: Vec::new(),
            section: MarkedSection::None,
            short_comments: false,
            pending_end: None,
            unclosed: Vec::new(),
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn skip_space(&self, mut at: usize) -> usize {
        while self.byte(at).is_some_and(is_space) {
            at += 1;
        }
        at
    }

    fn find(&self, byte: u8, from: usize) -> Option<usize> {
        memchr::memchr(byte, self.text.as_bytes().get(from..)?).map(|at| from + at)
    }

    fn report_text(&mut self, start: usize, end: usize, handler: &mut impl TokenHandler) {
        if start < end && self.section != MarkedSection::Ignore {
            let literal = self.literal.is_some_and(|(_, literal)| literal)
                || self.section == MarkedSection::Cdata;
            handler.text(self.slice(start, end), literal);
        }
    }

    fn report_comment(&mut self, start: usize, end: usize, handler: &mut impl TokenHandler) {
        if self.section != MarkedSection::Ignore {
            handler.comment(self.slice(start, end));
        }
    }

    fn report_pending_end(&mut self, handler: &mut impl TokenHandler) {
        if let Some(tag) = self.pending_end.take() {
            handler.end(tag);
        }
    }

    /// Reports all complete tokens from `start` on; returns the start of the incomplete rest.
    fn run(&mut self, start: usize, handler: &mut impl TokenHandler) -> usize {
        let (mut start, mut at) = (start, start);
        // The last `<` of the text that begins at `start` with another one.
        let mut last_text = None;
        loop {
            if let Some((element, _)) = self.literal {
                let Some(after) = self.literal_text(element, start, at, handler) else {
                    return start;
                };
                (start, at) = (after, after);
                continue;
            }
            if matches!(self.section, MarkedSection::Cdata | MarkedSection::Rcdata) {
                let rest = self.text.as_bytes().get(at..).unwrap_or_default();
                let Some(length) = memchr::memmem::find(rest, b"]]>") else {
                    return start;
                };
                self.report_text(start, at + length, handler);
                (start, at) = (at + length + 3, at + length + 3);
                self.leave_section();
                continue;
            }
            let next = self.find(b'<', at);
            if self.section != MarkedSection::None
                && let Some(end) = self.section_end(at, next.unwrap_or(self.text.len()))
            {
                self.report_text(start, end, handler);
                (start, at) = (end + 3, end + 3);
                last_text = None;
                self.leave_section();
                continue;
            }
            let Some(tag) = next else {
                if let Some(last) = last_text {
                    self.report_text(start, last, handler);
                    start = last;
                }
                let end = self.last_word_start(start);
                self.report_text(start, end, handler);
                return end;
            };
            let is_near_end = self.text.len() - tag < MARKUP_LENGTH_MIN;
            if last_text.is_some() && !is_near_end && !self.can_be_markup(tag) {
                // Consecutive `<` characters are one text, not a text for each.
                (last_text, at) = (Some(tag), tag + 1);
                continue;
            }
            self.report_text(start, tag, handler);
            start = tag;
            last_text = None;
            if is_near_end {
                return start;
            }
            match self.markup(tag, handler) {
                MarkupParse::Piece(after) => (start, at) = (after, after),
                MarkupParse::Unfinished => return start,
                MarkupParse::Text => (last_text, at) = (Some(tag), tag + 1),
            }
        }
    }

    /// Reports the content of a literal element, such as `script`, and its end tag; returns the
    /// position after the tag, or `None` if the element does not end.
    fn literal_text(
        &mut self,
        element: &'static str,
        start: usize,
        at: usize,
        handler: &mut impl TokenHandler,
    ) -> Option<usize> {
        if self.unclosed.contains(&element) {
            return None;
        }
        let Some((end_tag, after)) = self.literal_end(element, at) else {
            self.unclosed.push(element);
            return None;
        };
        self.report_text(start, end_tag, handler);
        self.literal = None;
        if self.section != MarkedSection::Ignore {
            self.report_pending_end(handler);
            handler.end(element);
        }
        Some(after)
    }

    /// Whether what follows the `<` at `tag` is not certainly text.
    fn can_be_markup(&self, tag: usize) -> bool {
        self.byte(tag + 1)
            .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!' | b'?'))
    }

    /// Handles the incomplete rest at the end of the document.
    fn finish(&mut self, start: usize, handler: &mut impl TokenHandler) {
        let mut start = start;
        while start < self.text.len() {
            if let Some((element, _)) = self.literal {
                if matches!(element, "plaintext" | "xmp" | "iframe" | "textarea") {
                    break;
                }
                self.literal = None;
                if matches!(element, "script" | "style") {
                    handler.end(element);
                } else {
                    self.pending_end = Some(element);
                }
                start = self.run(start, handler);
                continue;
            }
            if self.byte(start) == Some(b'<') && !self.short_comments {
                self.short_comments = true;
                start = self.run(start, handler);
                continue;
            }
            let is_markup = self.byte(start) == Some(b'<')
                && self.byte(start + 1).is_none_or(|byte| {
                    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':' | b'/' | b'!' | b'?')
                });
            if is_markup {
                self.report_comment(start, self.text.len(), handler);
                start = self.text.len();
            }
            break;
        }
        self.report_text(start, self.text.len(), handler);
        self.report_pending_end(handler);
    }

    /// The start of the last word of the document, with the white space before it; or of the white
    /// space at the end. The last word may be incomplete, so it is a token of its own.
    fn last_word_start(&self, from: usize) -> usize {
        let text = self.text.as_bytes().get(from..).unwrap_or_default();
        let trimmed = crate::ascii::trim_end(text);
        let end = if trimmed.len() < text.len() {
            trimmed.len()
        } else {
            let word = text.iter().rposition(|&byte| is_space(byte)).unwrap_or(0);
            crate::ascii::trim_end(text.get(..word).unwrap_or_default()).len()
        };
        from + end
    }

    /// The start and end of the end tag of a literal element.
    fn literal_end(&self, element: &str, from: usize) -> Option<(usize, usize)> {
        if element == "plaintext" {
            return None;
        }
        let mut from = from;
        loop {
            let tag = self.find(b'<', from)?;
            from = tag + 1;
            if self.byte(from) != Some(b'/') {
                continue;
            }
            let name_end = tag + 2 + element.len();
            let name = self.text.as_bytes().get(tag + 2..name_end);
            if name.is_some_and(|name| name.eq_ignore_ascii_case(element.as_bytes())) {
                let close = self.skip_space(name_end);
                if self.byte(close) == Some(b'>') {
                    return Some((tag, close + 1));
                }
            }
        }
    }

    fn section_end(&self, from: usize, to: usize) -> Option<usize> {
        memchr::memmem::find(self.text.as_bytes().get(from..to)?, b"]]>").map(|at| from + at)
    }

    fn leave_section(&mut self) {
        self.sections.pop();
        self.section = self
            .sections
            .iter()
            .copied()
            .max()
            .unwrap_or(MarkedSection::None);
    }
}
