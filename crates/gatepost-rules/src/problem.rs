//! Diagnostics for lines of rule files that have no effect, with severity and advice.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The severity of a [`RuleProblem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Expected: the line concerns a feature that is disabled or irrelevant to a scan.
    Note,
    /// A rule or setting of the folder does not run here.
    Warning,
    /// The line is malformed and was skipped.
    Error,
}

impl Severity {
    /// The severity as text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One line of a rule folder that has no effect, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// The severity.
    pub severity: Severity,
    /// The file with the line; empty for settings without a file.
    pub file: Arc<PathBuf>,
    /// The line number, from 1; 0 for the whole file.
    pub line: u32,
    /// The rule concerned, if there is one.
    pub rule: Option<Arc<str>>,
    /// A few words by which problems are grouped: "network test", "unknown directive".
    pub cause: &'static str,
    /// A sentence that describes the problem.
    pub reason: String,
    /// A sentence with advice; empty if there is nothing to do.
    pub fix: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}: {}: ",
            self.file.display(),
            self.line,
            self.severity.name()
        )?;
        if let Some(rule) = &self.rule {
            write!(formatter, "{rule}: ")?;
        }
        formatter.write_str(&self.reason)?;
        if !self.fix.is_empty() {
            write!(formatter, " ({})", self.fix)?;
        }
        Ok(())
    }
}
