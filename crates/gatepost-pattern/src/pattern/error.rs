//! Why a pattern is refused, and where.

use crate::syntax::SyntaxError;

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a pattern of Perl's.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// PCRE2 does not compile it; its message.
    #[error("{0}")]
    Engine(String),
}

impl PatternError {
    /// The byte of the pattern, delimiters included if it has any, at which it cannot be read on.
    pub fn position(&self) -> Option<usize> {
        match self {
            Self::Syntax(error) => Some(error.position),
            Self::Engine(_) => None,
        }
    }

    /// With the position counted from so many bytes earlier.
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

/// For callers that only report why.
impl From<PatternError> for String {
    fn from(error: PatternError) -> Self {
        error.to_string()
    }
}
