//! HTML as its reader sees it, and what rules ask about how it was written.
//!
//! Rendering is one pass: [`tokens`] cuts the document, [`render()`] writes the text and notes
//! facts. There is no document tree. Text keeps apart what can be seen from what cannot (white on
//! white, size 1, `display: none`), because hiding text is what spam does.

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
pub use render::Rendered;
pub(crate) use render::render;
