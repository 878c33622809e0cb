//! Writes a document's text and records its facts.

mod links;
mod notes;
mod pieces;
mod prepare;
mod words;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::entity::{EntityContext, decode};
use super::facts::{ELEMENTS, HtmlFacts};
use super::style::{InvisibleCause, Styles};
use super::tokens::{Attributes, TokenHandler, tokenise};
use pieces::{TextRun, TextRuns};
use prepare::prepare;
use words::{collapse, is_blank};

/// Elements that are rendered although no standard defines them.
const TRICKS: [&str; 5] = ["bgsound", "embed", "listing", "plaintext", "xmp"];

/// A rendered document.
#[derive(Debug)]
pub struct RenderedHtml {
    /// The whole text.
    pub text: String,
    /// The text consists of characters, not bytes.
    pub characters: bool,
    /// The pieces of the text, each of which is either visible or invisible as a whole.
    pieces: TextRuns,
    /// The facts that rules examine.
    pub facts: HtmlFacts,
    /// The document was longer than the limit, and its end was not read.
    pub is_cut: bool,
}

impl RenderedHtml {
    /// The visible text, or the invisible text.
    pub fn pieces(&self, unseen: bool) -> String {
        let mut out = String::new();
        let mut start = 0;
        for piece in self.pieces.iter() {
            if piece.is_unseen() == unseen {
                out.push_str(self.text.get(start..piece.end()).unwrap_or_default());
            }
            start = piece.end();
        }
        out
    }

    /// Whether any text is invisible.
    pub(crate) fn has_unseen(&self) -> bool {
        self.pieces.iter().any(TextRun::is_unseen)
    }
}

/// Renders `source`. `characters` states whether it was decoded; `length` is its length before
/// decoding.
pub(crate) fn render(source: &str, characters: bool, length: usize) -> RenderedHtml {
    let prepared = prepare(source);
    let mut renderer = Renderer::new(characters, prepared.len());
    tokenise(&prepared, &mut renderer);
    renderer.finish(source, length)
}

#[derive(Default)]
struct RenderCounts {
    tags: u64,
    tags_seen: u64,
    elements: u64,
    elements_seen: u64,
    closed_extra: u64,
    obfuscation: u64,
}

struct Renderer {
    text: String,
    characters: bool,
    pieces: TextRuns,
    styles: Styles,
    facts: HtmlFacts,
    link_index: HashMap<Arc<str>, usize>,
    base: Option<String>,
    counts: RenderCounts,
    image_area: u64,
    /// The pairs of lengths of word ends and word starts that met at a tag, one bit for each pair.
    cut_words: u64,
    /// Whether elements are open that determine the use of text.
    open_anchor: bool,
    open_script: bool,
    open_style: bool,
    open_title: bool,
}

impl Renderer {
    fn new(characters: bool, capacity: usize) -> Self {
        let mut facts = HtmlFacts::default();
        facts.numbers.insert("html", 1.0);
        Self {
            text: String::with_capacity(capacity / 2),
            characters,
            pieces: TextRuns::default(),
            styles: Styles::new(),
            facts,
            link_index: HashMap::new(),
            base: None,
            counts: RenderCounts::default(),
            image_area: 0,
            cut_words: 0,
            open_anchor: false,
            open_script: false,
            open_style: false,
            open_title: false,
        }
    }

    fn set(&mut self, name: &'static str) {
        self.facts.numbers.insert(name, 1.0);
    }

    /// Counts a tag; returns whether it is rendered.
    fn tag(&mut self, tag: &str, step: i64) -> bool {
        let namespace = is_office_namespace(tag);
        let index = ELEMENTS.binary_search(&tag).ok();
        let element = namespace || index.is_some();
        let (seen, open) = self.facts.open.count(tag, index, step);
        self.counts.tags += 1;
        self.counts.elements += u64::from(element);
        self.counts.tags_seen += u64::from(!seen);
        self.counts.elements_seen += u64::from(element && !seen);
        self.counts.closed_extra += u64::from(open < 0);
        let is_open = open > 0;
        match tag {
            "a" => self.open_anchor = is_open,
            "script" => self.open_script = is_open,
            "style" => self.open_style = is_open,
            "title" => self.open_title = is_open,
            _ => {}
        }
        !namespace && (element || TRICKS.contains(&tag))
    }

    /// Writes the white space that an element represents.
    fn white_space(&mut self, tag: &str) {
        let space = match tag {
            "br" | "div" => "\n",
            "li" | "th" | "td" | "dd" | "dt" | "embed" | "h1" | "h2" | "h3" | "h4" | "h5"
            | "h6" => " ",
            "p" | "hr" | "blockquote" | "pre" | "listing" | "plaintext" | "xmp" | "title" => "\n\n",
            _ => return,
        };
        if let Some(last) = self.pieces.last()
            && !last.is_white_space()
            && !last.is_unseen()
            && self.text.ends_with(' ')
            // An empty piece has no blank to remove.
            && self.pieces.start_of_last() < self.text.len()
        {
            self.text.pop();
            self.pieces.end_last_at(self.text.len());
        }
        self.text.push_str(space);
        self.pieces.push(TextRun::white_space(self.text.len()));
    }

    /// Writes text with its white space collapsed.
    fn write(&mut self, text: &str, unseen: bool) {
        let after_space = self.pieces.last().is_some_and(TextRun::is_white_space);
        let start = self.text.len();
        collapse(text, &mut self.text);
        if after_space
            && !unseen
            && self
                .text
                .get(start..)
                .is_some_and(|text| text.starts_with(' '))
        {
            self.text.remove(start);
        }
        self.pieces.push(TextRun::text(self.text.len(), unseen));
    }

    fn finish(mut self, source: &str, length: usize) -> RenderedHtml {
        let counts = &self.counts;
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        let numbers = &mut self.facts.numbers;
        numbers.insert("image_area", self.image_area as f64);
        numbers.insert("length", source.chars().count() as f64);
        numbers.insert("min_size", self.styles.size_min as f64);
        numbers.insert("max_size", self.styles.size_max as f64);
        if counts.tags > 0 {
            numbers.insert(
                "closed_extra_ratio",
                ratio(counts.closed_extra, counts.tags),
            );
            if counts.elements > 0 {
                numbers.insert(
                    "bad_tag_ratio",
                    ratio(counts.tags - counts.elements, counts.tags),
                );
            }
            if counts.elements_seen > 0 {
                numbers.insert(
                    "non_element_ratio",
                    ratio(counts.tags_seen - counts.elements_seen, counts.tags_seen),
                );
            }
            if counts.obfuscation > 0 {
                numbers.insert("obfuscation_ratio", ratio(counts.obfuscation, counts.tags));
            }
        }
        if self.cut_words > 0 {
            numbers.insert("backhair_count", f64::from(self.cut_words.count_ones()));
        }
        let html_length = self.text.chars().count();
        let spaces = if self.characters {
            self.text
                .chars()
                .filter(|letter| letter.is_whitespace())
                .count()
        } else {
            self.text
                .bytes()
                .filter(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b))
                .count()
        };
        numbers.insert("html_length", html_length as f64);
        numbers.insert("non_space_len", html_length.saturating_sub(spaces) as f64);
        if length > 0 {
            numbers.insert(
                "ratio",
                (length as f64 - html_length as f64) / length as f64,
            );
        }
        RenderedHtml {
            text: self.text,
            characters: self.characters,
            pieces: self.pieces,
            facts: self.facts,
            is_cut: false,
        }
    }
}

impl TokenHandler for Renderer {
    fn start(&mut self, tag: &str, attributes: &Attributes<'_>) {
        if !self.tag(tag, 1) {
            return;
        }
        if Styles::concerns(tag) {
            self.styles.open(tag, attributes);
        }
        self.white_space(tag);
        self.links(tag, attributes);
        self.facts_of(tag, attributes);
    }

    fn end(&mut self, tag: &str) {
        if !self.tag(tag, -1) {
            return;
        }
        if Styles::concerns(tag) {
            self.styles.close(tag);
        }
        self.white_space(tag);
    }

    fn text(&mut self, text: &str, literal: bool) {
        let (text, beyond_latin1) = if literal {
            (Cow::Borrowed(text), false)
        } else {
            decode(text, EntityContext::Text)
        };
        if self.open_script {
            self.facts.scripts.push(text.into_owned());
            return;
        }
        if self.open_style {
            return;
        }
        self.characters |= beyond_latin1;
        if self.open_anchor {
            self.facts.anchors.add(&text);
        }
        if self.open_title
            && let Some(title) = self.facts.titles.last_mut()
        {
            title.push_str(&text);
        }
        let unseen = if is_blank(&text) {
            None
        } else {
            self.styles.unseen()
        };
        match unseen {
            Some(InvisibleCause::LowContrast) => self.set("font_low_contrast"),
            Some(InvisibleCause::InvalidColour) => self.set("font_invalid_color"),
            _ => {}
        }
        self.note_cut_words(&text);
        self.write(&text, unseen.is_some());
    }

    fn comment(&mut self, text: &str) {
        self.facts.comments.push(text.to_owned());
    }

    fn declaration(&mut self, text: &str) {
        if text
            .get(..9)
            .is_some_and(|start| start.eq_ignore_ascii_case("<!doctype"))
        {
            self.counts.elements += 1;
            self.counts.tags += 1;
            self.facts.open.count("!doctype", None, 0);
        }
    }

    fn is_open(&self, tag: &str) -> bool {
        self.facts.open.get(tag).is_some_and(|open| open > 0)
    }
}

/// `o:p`, `st1:city`: elements that office programs write.
fn is_office_namespace(tag: &str) -> bool {
    let Some((prefix, name)) = tag.split_once(':') else {
        return false;
    };
    let prefix_fits = prefix == "o"
        || prefix.strip_prefix("st").is_some_and(|digit| {
            digit.len() == 1 && digit.bytes().all(|byte| byte.is_ascii_digit())
        });
    let name = name.strip_suffix('/').unwrap_or(name);
    prefix_fits
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| crate::ascii::is_word(byte) || byte == b'-')
}

#[cfg(test)]
mod tests;
