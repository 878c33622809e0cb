//! Syntax errors of patterns.

/// Why a pattern was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {position}")]
pub struct SyntaxError {
    /// What is wrong.
    pub reason: String,
    /// The byte of the text at which the parser stopped.
    pub position: usize,
}
