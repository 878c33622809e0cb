//! What rules ask about an HTML document besides its text.

use std::collections::HashMap;

/// A link of a document: where it points, and which elements point there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The reference, resolved against the document's base.
    pub(crate) target: String,
    /// The elements that hold it: `a`, `img`, …. None if it is known by its text only.
    pub(crate) elements: Vec<&'static str>,
    /// The texts of its anchors.
    pub(crate) anchors: Vec<usize>,
}

/// An `a` element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The text in it; `<img>` stands for an image.
    pub(crate) text: String,
}

/// Facts about one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct HtmlFacts {
    /// Its links in the order they are met.
    pub(crate) links: Vec<Link>,
    /// Its anchors in order.
    pub(crate) anchors: Vec<Anchor>,
    /// A link was longer than is kept.
    pub(crate) link_truncated: bool,
    /// Its titles; rarely more than one.
    pub(crate) titles: Vec<String>,
    /// Its comments, with delimiters.
    pub(crate) comments: Vec<String>,
    /// The texts of its scripts.
    pub(crate) scripts: Vec<String>,
    /// The character sets it declares, joined by blanks.
    pub(crate) charsets: String,
    /// Facts that are numbers, by SpamAssassin's names.
    pub(crate) numbers: HashMap<&'static str, f64>,
    /// How many elements of each name are open at the end; a name is here if it ever occurred.
    pub(crate) open: HashMap<String, i64>,
}

impl HtmlFacts {
    /// A fact that is a number, by SpamAssassin's name for it.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied()
    }

    /// Texts by SpamAssassin's name for them: `comment`, `title`, `anchor`, `script`.
    pub(crate) fn texts(&self, name: &str) -> Box<dyn Iterator<Item = &str> + '_> {
        match name {
            "comment" => Box::new(self.comments.iter().map(String::as_str)),
            "title" => Box::new(self.titles.iter().map(String::as_str)),
            "script" => Box::new(self.scripts.iter().map(String::as_str)),
            "anchor" => Box::new(self.anchors.iter().map(|anchor| anchor.text.as_str())),
            _ => Box::new(std::iter::empty()),
        }
    }
}
