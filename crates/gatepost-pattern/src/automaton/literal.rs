//! A literal that a search reports: its pattern, and the window in which a match can start.

/// The distance from the start of a match to the end of a required literal in it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The least distance.
    pub min: u32,
    /// The greatest distance.
    pub max: u32,
}

/// Data of an occurrence of a required literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiteralInfo {
    /// The index of the pattern that requires the literal.
    pub pattern: u32,
    /// The start of a match that contains the literal; `None` if the distance is unbounded.
    pub window: Option<Window>,
    /// The minimum number of occurrences of the pattern's literals in a match.
    pub rounds: u32,
}

/// Receives the occurrences of literals while a text is searched.
pub(crate) trait LiteralVisitor {
    /// A literal occurs; `end` is the offset after its last byte.
    fn literal_matched(&mut self, literal: LiteralInfo, end: usize);

    /// Called from time to time while positions are active; `false` stops the search.
    fn keep_going(&mut self) -> bool;
}

/// The search was stopped by its visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the search was stopped")]
pub struct SearchStopped;
