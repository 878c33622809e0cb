//! What the rule files say about the views: networks, registrar boundaries, lists.

/// The settings of rule files that views and eval functions depend on.
///
/// The reader of rule files gives every directive it does not know itself to
/// [`Configuration::directive`].
#[derive(Clone, Debug, Default)]
pub struct Configuration {}

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
    pub fn directive(&mut self, _name: &str, _value: &str) -> Directive {
        Directive::Unknown
    }
}
