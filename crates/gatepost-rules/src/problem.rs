//! What a rule folder holds that cannot take effect here, and what to do about it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How much a [`Problem`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Accounted for: the line asks for something that is switched off or has no part in judging.
    Note,
    /// A rule or setting of the folder does not run here.
    Warning,
    /// The line is wrong; it was skipped.
    Error,
}

impl Severity {
    /// The word in print.
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
pub struct Problem {
    /// How much it matters.
    pub severity: Severity,
    /// The file that holds the line; empty for settings that came from no file.
    pub file: Arc<PathBuf>,
    /// The line, counted from 1; 0 where the whole file is meant.
    pub line: u32,
    /// The rule concerned, where there is one.
    pub rule: Option<Arc<str>>,
    /// A few words by which reports group problems: "network test", "unknown directive".
    pub cause: &'static str,
    /// What is wrong, in a sentence.
    pub reason: String,
    /// What to do about it, in a sentence; empty where nothing needs doing.
    pub mend: String,
}

impl fmt::Display for Problem {
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
        if !self.mend.is_empty() {
            write!(formatter, " ({})", self.mend)?;
        }
        Ok(())
    }
}
