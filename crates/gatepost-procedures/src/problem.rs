//! What is wrong with a configuration, in words that name the place and the mend.

use std::fmt;

/// Whether Gatepost can run with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It runs, without the thing complained of.
    Warning,
    /// It must be mended first.
    Error,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops the start.
    pub severity: Severity,
    /// The config key (`scope."/mail".run`) or the file and line that it is about.
    pub place: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

impl Problem {
    pub(crate) fn error(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: place.into(),
            text: text.into(),
        }
    }

    pub(crate) fn warning(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, text)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.text)
    }
}
