//! What rule files say to the eval functions: lists of addresses and hosts, locales, limits.

use crate::mail::Directive;

/// The settings of eval functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {}

impl Lists {
    /// Takes one line of a rule file.
    pub(crate) fn directive(&mut self, _name: &str, _value: &str) -> Directive {
        Directive::Unknown
    }
}
