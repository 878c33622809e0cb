//! The reason why a pattern is refused, and its position.

use crate::syntax::SyntaxError;

/// The reason why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a valid pattern of Perl.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// PCRE2 cannot compile it; contains the message of PCRE2.
    #[error("{0}")]
    Engine(String),
}

impl PatternError {
    /// The offset in the pattern at which parsing failed; it counts the delimiters if there are
    /// any.
    pub fn position(&self) -> Option<usize> {
        match self {
            Self::Syntax(error) => Some(error.position),
            Self::Engine(_) => None,
        }
    }

    /// The error with a position that counts these additional bytes before it.
    pub(super) fn after(self, bytes: usize) -> Self {
        match self {
            Self::Syntax(SyntaxError { reason, position }) => Self::Syntax(SyntaxError {
                reason,
                position: position + bytes,
            }),
            engine @ Self::Engine(_) => engine,
        }
    }
}

/// For callers that need only the text.
impl From<PatternError> for String {
    fn from(error: PatternError) -> Self {
        error.to_string()
    }
}
