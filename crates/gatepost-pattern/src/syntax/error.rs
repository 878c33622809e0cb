//! Syntax errors of patterns.

/// The reason why a pattern was refused, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {position}")]
pub struct SyntaxError {
    /// A description of the error.
    pub reason: String,
    /// The byte of the text at which the parser stopped.
    pub position: usize,
}
