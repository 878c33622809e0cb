//! One line of a rule file while its directive is processed, and the definitions that it changes.

use super::RuleDefinitions;
use super::definition::SourceLine;
use super::plugins::LoadedPlugins;
use crate::Severity;

/// The definitions and plugins that the lines so far have produced.
pub(super) struct LoadedLines<'d> {
    pub(super) definitions: &'d mut RuleDefinitions,
    pub(super) plugins: LoadedPlugins,
}

/// The problem of a line, without its file and line number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineProblem {
    pub(super) severity: Severity,
    pub(super) cause: &'static str,
    pub(super) reason: String,
    pub(super) fix: String,
}

impl LineProblem {
    pub(super) fn invalid(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            cause: "malformed line",
            reason: reason.into(),
            fix: fix.into(),
        }
    }

    pub(super) fn missing() -> Self {
        Self::invalid("its value is missing", "write a value after the word")
    }

    pub(super) fn note(cause: &'static str, reason: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            cause,
            reason: reason.into(),
            fix: String::new(),
        }
    }
}

/// A line without its comment, split after the first word.
pub(super) struct RuleLine<'l> {
    pub(super) source: SourceLine,
    /// In lower case, with underscores.
    pub(super) directive: &'l str,
    pub(super) value: &'l [u8],
}

impl RuleLine<'_> {
    /// The first word of the value; empty if there is none, or if it is not UTF-8.
    pub(super) fn first_word(&self) -> &str {
        let end = self.value.iter().position(u8::is_ascii_whitespace);
        let word = self.value.get(..end.unwrap_or(self.value.len()));
        std::str::from_utf8(word.unwrap_or_default()).unwrap_or_default()
    }

    /// The text after the first word.
    pub(super) fn after_first_word(&self) -> Result<&[u8], LineProblem> {
        let end = self.value.iter().position(u8::is_ascii_whitespace);
        let rest = end.and_then(|end| self.value.get(end..));
        let rest = rest.unwrap_or_default().trim_ascii_start();
        if rest.is_empty() {
            return Err(LineProblem::missing());
        }
        Ok(rest)
    }

    pub(super) fn after_first_word_text(&self) -> Result<String, LineProblem> {
        let rest = self.after_first_word()?;
        Ok(String::from_utf8_lossy(rest).into_owned())
    }

    /// The whole value.
    pub(super) fn value_text(&self) -> Result<String, LineProblem> {
        if self.value.is_empty() {
            return Err(LineProblem::missing());
        }
        Ok(String::from_utf8_lossy(self.value).into_owned())
    }

    /// A Boolean value.
    pub(super) fn flag(&self) -> Result<bool, LineProblem> {
        match self.value.to_ascii_lowercase().as_slice() {
            b"1" | b"yes" => Ok(true),
            b"0" | b"no" => Ok(false),
            _ => Err(LineProblem::invalid(
                "it is neither 0 nor 1",
                "write 0 or 1",
            )),
        }
    }
}
