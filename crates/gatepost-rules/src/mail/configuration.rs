//! What the rule files say about the views: networks, registrar boundaries, redirectors.

use super::domain::Boundaries;
use super::pattern::Pattern;

/// The settings of rule files that views and eval functions depend on.
///
/// The reader of rule files gives every directive it does not know itself to
/// [`Configuration::directive`].
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    pub(crate) boundaries: Boundaries,
    redirectors: Vec<Pattern>,
}

/// What became of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// It is one of ours and was stored.
    Taken,
    /// It is not one of ours.
    Unknown,
    /// It is one of ours, but its value cannot be used; the reason.
    Invalid(String),
}

impl Configuration {
    /// Takes one line of a rule file, split at the first blank: its name and the rest.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let words = value
            .split_ascii_whitespace()
            .map(|word| Box::from(word.to_ascii_lowercase()));
        match name {
            "util_rb_tld" => self.boundaries.one_level.extend(words),
            "util_rb_2tld" => self.boundaries.two_level.extend(words),
            "util_rb_3tld" => self.boundaries.three_level.extend(words),
            "clear_util_rb" => self.boundaries = Boundaries::default(),
            "redirector_pattern" => match Pattern::compile(value) {
                Ok(pattern) => self.redirectors.push(pattern),
                Err(reason) => return Directive::Invalid(reason),
            },
            _ => return Directive::Unknown,
        }
        Directive::Taken
    }

    /// Patterns of links that lead to other links; their group 1 is the other link.
    pub(crate) fn redirectors(&self) -> &[Pattern] {
        &self.redirectors
    }
}
