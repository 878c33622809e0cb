//! The user guide: the pages of `docs/`, rendered when the program is built, so that they are
//! served without a network, a folder or a script.
//!
//! The search reads all sections at each query. They are a few hundred kilobytes, so an index would
//! save less than a millisecond.

mod content;
mod layout;
mod search;

use content::Span;
use listed::{CHAPTERS, FILES, PAGES, SECTIONS};

/// The longest query that is searched for, in bytes.
pub const QUERY_MAX: usize = 200;

/// A page of the guide.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) address: &'static str,
    pub(crate) title: &'static str,
    pub(crate) html: Span,
}

/// The text below a heading of a page.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) address: &'static str,
    pub(crate) page: &'static str,
    pub(crate) anchor: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) text: Span,
}

/// The lists of the build script.
#[allow(clippy::unreadable_literal)]
mod listed {
    use crate::{Page, Section, Span};

    include!(concat!(env!("OUT_DIR"), "/guide.rs"));
}

/// The answer to a request for a part of the guide.
#[derive(Debug)]
pub enum GuideDocument {
    /// A page, as HTML.
    Html(String),
    /// The sheet of all pages, as CSS.
    Style(&'static [u8]),
    /// A file that a page links to, to be shown as text.
    Text(&'static [u8]),
}

/// The document at this path below `/docs`, such as an empty one or `/mqtt`; `None` if there is
/// none.
pub fn document(path: &str) -> Option<GuideDocument> {
    let address = path.trim_matches('/');
    if address == "guide.css" {
        return Some(GuideDocument::Style(include_bytes!("guide.css")));
    }
    if let Some(page) = PAGES.iter().find(|page| page.address == address) {
        return Some(GuideDocument::Html(layout::page(page)));
    }
    let file = FILES.iter().find(|(name, _)| *name == address);
    file.map(|(_, content)| GuideDocument::Text(content.text().as_bytes()))
}

/// The page that lists the sections that contain all words of the query.
pub fn search_page(query: &str) -> GuideDocument {
    let end = query.floor_char_boundary(QUERY_MAX);
    let query = query.get(..end).unwrap_or_default();
    GuideDocument::Html(layout::results(query, &search::search(query)))
}
