//! A problem of a configuration: its place, its cause and its remedy.

use std::fmt;

/// Whether Gatepost can run with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemSeverity {
    /// Gatepost runs without the affected part.
    Warning,
    /// The problem must be fixed first.
    Error,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationProblem {
    /// Whether it stops the start.
    pub severity: ProblemSeverity,
    /// The config key (`scope."/mail".run`) or the file and line that it is about.
    pub place: String,
    /// The problem and a suggested fix.
    pub text: String,
}

impl ConfigurationProblem {
    pub(crate) fn error(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            severity: ProblemSeverity::Error,
            place: place.into(),
            text: text.into(),
        }
    }

    pub(crate) fn warning(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            severity: ProblemSeverity::Warning,
            ..Self::error(place, text)
        }
    }
}

impl fmt::Display for ConfigurationProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.text)
    }
}
