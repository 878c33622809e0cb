//! The tree of MIME parts: how it is walked.
//!
//! Parts lie in one list in the order in which they were found; children are named by their places,
//! so that a walk follows a reader from parent to children without recursion, however deep a sender
//! nests them. [`dissection`] builds the tree.

mod dissection;
mod multipart;

use super::limits::MailLimits;
use super::part::Part;

/// What is odd about a message's MIME structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// A boundary is not followed by a field.
    pub part_head_missing: bool,
    /// A part's head is not ended by a blank line.
    pub part_separator_missing: bool,
    /// There is text after the last boundary.
    pub epilogue: bool,
    /// A multipart has more parts than are read.
    pub too_many_parts: bool,
}

/// All parts of a message.
#[derive(Debug)]
pub struct Parts {
    limits: MailLimits,
    list: Vec<Part>,
    order: Vec<usize>,
    /// What is odd about them.
    pub oddities: Oddities,
    /// Boundaries that were opened, and whether they were closed.
    pub boundaries: Vec<(Vec<u8>, i32)>,
}

impl Parts {
    /// All parts, containers included, in the order a reader meets them.
    pub fn all(&self) -> impl Iterator<Item = &Part> {
        self.order.iter().filter_map(|&index| self.list.get(index))
    }

    /// The texts and files, in the order a reader meets them.
    pub fn leaves(&self) -> impl Iterator<Item = &Part> {
        self.all().filter(|part| part.is_leaf)
    }

    /// The children of a part.
    pub fn children<'b>(&'b self, part: &'b Part) -> impl Iterator<Item = &'b Part> {
        part.children
            .iter()
            .filter_map(|&index| self.list.get(index))
    }

    /// A part and all below it, in the order a reader meets them.
    pub fn below<'b>(&'b self, part: &'b Part) -> impl Iterator<Item = &'b Part> {
        let mut stack = vec![part];
        std::iter::from_fn(move || {
            let part = stack.pop()?;
            stack.extend(
                part.children
                    .iter()
                    .rev()
                    .filter_map(|&index| self.list.get(index)),
            );
            Some(part)
        })
    }

    /// The message itself.
    pub fn root(&self) -> Option<&Part> {
        self.list.first()
    }
}
