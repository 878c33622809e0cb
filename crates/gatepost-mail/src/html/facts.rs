//! Facts about an HTML document that rules examine besides its text.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::anchors::Anchors;

/// The most different names that are not HTML elements.
const OTHER_NAMES_MAX: usize = 10_000;

/// The elements of HTML 4.01 and XHTML 1.0, and three other common ones. Sorted.
pub(super) const ELEMENTS: [&str; 94] = [
    "a",
    "abbr",
    "acronym",
    "address",
    "applet",
    "area",
    "b",
    "base",
    "basefont",
    "bdo",
    "big",
    "blockquote",
    "body",
    "br",
    "button",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "dfn",
    "dir",
    "div",
    "dl",
    "dt",
    "em",
    "fieldset",
    "font",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "input",
    "ins",
    "isindex",
    "kbd",
    "label",
    "legend",
    "li",
    "link",
    "map",
    "menu",
    "meta",
    "nobr",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "pre",
    "q",
    "s",
    "samp",
    "script",
    "select",
    "small",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
    "x-sigsep",
    "x-tab",
];

/// A link of a document: its target, and the elements that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtmlLink {
    /// The reference, resolved against the document's base.
    pub target: Arc<str>,
    /// The elements that contain it: `a`, `img`, …. None if only its text is known.
    pub elements: SmallVec<[&'static str; 1]>,
    /// The numbers of its anchors.
    pub anchors: SmallVec<[u32; 2]>,
}

/// Facts about a document.
#[derive(Clone, Debug, Default)]
pub struct HtmlFacts {
    /// Its links, in order.
    pub links: Vec<HtmlLink>,
    /// Its anchors, in order.
    pub anchors: Anchors,
    /// A link exceeded the maximum length.
    pub(crate) link_truncated: bool,
    /// Its titles; rarely more than one.
    pub titles: Vec<String>,
    /// Its comments, with delimiters.
    pub(crate) comments: Vec<String>,
    /// The texts of its scripts.
    pub(crate) scripts: Vec<String>,
    /// The declared character sets, joined by blanks.
    pub charsets: String,
    /// Numeric facts, by SpamAssassin's names.
    pub numbers: HashMap<&'static str, f64>,
    /// The number of open elements of each name at the end.
    pub open: OpenElements,
}

/// The names of elements, and the number of open elements of each. A name is present if a tag of it
/// ever occurred.
#[derive(Clone, Debug, Default)]
pub struct OpenElements {
    /// The elements of [`ELEMENTS`], in its order.
    known: Vec<Option<i64>>,
    /// All other names.
    others: HashMap<String, i64>,
}

impl OpenElements {
    /// The number of open elements; `None` if none ever occurred.
    pub fn get(&self, name: &str) -> Option<i64> {
        match ELEMENTS.binary_search(&name) {
            Ok(index) => self.known.get(index).copied().flatten(),
            Err(_) => self.others.get(name).copied(),
        }
    }

    /// Whether a tag of this name ever occurred.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Counts a tag: 1 for a start tag, -1 for an end tag. Returns whether the name occurred
    /// before, and the current count, which may be negative.
    pub(super) fn count(&mut self, name: &str, index: Option<usize>, step: i64) -> (bool, i64) {
        if let Some(index) = index {
            if self.known.is_empty() {
                self.known.resize(ELEMENTS.len(), None);
            }
            if let Some(slot) = self.known.get_mut(index) {
                let (seen, open) = (slot.is_some(), slot.unwrap_or(0) + step);
                *slot = Some(open.max(0));
                return (seen, open);
            }
        }
        if let Some(slot) = self.others.get_mut(name) {
            let open = *slot + step;
            *slot = open.max(0);
            return (true, open);
        }
        if self.others.len() < OTHER_NAMES_MAX {
            self.others.insert(name.to_owned(), step.max(0));
        }
        (false, step)
    }
}

impl HtmlFacts {
    /// The texts of the anchors of a link.
    pub fn anchors_of(&self, link: &HtmlLink) -> impl Iterator<Item = &str> {
        let numbers = link.anchors.iter();
        numbers.filter_map(|&number| self.anchors.get(number))
    }

    /// A numeric fact, by SpamAssassin's name for it.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied()
    }

    /// Texts by SpamAssassin's name for them: `comment`, `title`, `anchor`, `script`.
    pub fn texts(&self, name: &str) -> Box<dyn Iterator<Item = &str> + '_> {
        match name {
            "comment" => Box::new(self.comments.iter().map(String::as_str)),
            "title" => Box::new(self.titles.iter().map(String::as_str)),
            "script" => Box::new(self.scripts.iter().map(String::as_str)),
            "anchor" => Box::new(self.anchors.iter()),
            _ => Box::new(std::iter::empty()),
        }
    }
}
