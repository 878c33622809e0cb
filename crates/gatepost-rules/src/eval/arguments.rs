//! The arguments of an `eval:` call in a rule file, as text, numbers, limits and patterns.

use gatepost_mail::MailPattern;

/// The arguments of a call.
pub(super) struct EvalArguments<'a>(&'a [String]);

/// A lower and an upper bound; either may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Range {
    /// `low ≤ value < high`.
    pub(super) fn holds(self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value < high)
    }

    /// `low < value ≤ high`.
    pub(super) fn holds_above(self, value: f64) -> bool {
        self.low.is_none_or(|low| value > low) && self.high.is_none_or(|high| value <= high)
    }

    /// `low ≤ value ≤ high`.
    pub(super) fn holds_between(self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }
}

impl<'a> EvalArguments<'a> {
    pub(super) fn new(all: &'a [String]) -> Self {
        Self(all)
    }

    /// An optional argument.
    pub(super) fn optional(&self, index: usize) -> Option<&'a str> {
        self.0.get(index).map(String::as_str)
    }

    /// A required argument.
    pub(super) fn text(&self, index: usize) -> Result<&'a str, String> {
        self.optional(index)
            .ok_or_else(|| format!("argument {} is missing", index + 1))
    }

    /// A required number.
    pub(super) fn number(&self, index: usize) -> Result<f64, String> {
        let text = self.text(index)?;
        text.trim()
            .parse()
            .map_err(|_| format!("argument {} is not a number: {text}", index + 1))
    }

    /// An optional number, which can be `undef` or `inf`.
    pub(super) fn limit(&self, index: usize) -> Result<Option<f64>, String> {
        match self.optional(index) {
            None | Some("undef" | "inf") => Ok(None),
            Some(_) => self.number(index).map(Some),
        }
    }

    /// Two bounds, the lower first.
    pub(super) fn range(&self, index: usize) -> Result<Range, String> {
        Ok(Range {
            low: self.limit(index)?,
            high: self.limit(index + 1)?,
        })
    }

    /// An optional pattern.
    pub(super) fn optional_pattern(&self, index: usize) -> Result<Option<MailPattern>, String> {
        self.optional(index).map(MailPattern::compile).transpose()
    }

    /// A required pattern without delimiters.
    pub(super) fn bare_pattern(&self, index: usize) -> Result<MailPattern, String> {
        MailPattern::with_flags(self.text(index)?, "")
    }

    /// A required pattern.
    pub(super) fn pattern(&self, index: usize) -> Result<MailPattern, String> {
        MailPattern::compile(self.text(index)?)
    }
}
