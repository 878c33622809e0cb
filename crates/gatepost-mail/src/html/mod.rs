//! Renders HTML as its reader sees it, and records facts about its markup for rules.
//!
//! Rendering is one pass: [`tokens`] divides the document, [`render()`] writes the text and records
//! facts. There is no document tree. Visible text is kept separate from invisible text (white on
//! white, size 1, `display: none`), because spam hides text in this way.

mod anchors;
mod colour;
mod colour_table;
mod entity;
mod entity_table;
mod facts;
mod render;
mod style;
mod target;
mod tokens;

pub use anchors::Anchors;
pub use facts::{HtmlFacts, HtmlLink, OpenElements};
pub use render::RenderedHtml;
pub(crate) use render::render;
