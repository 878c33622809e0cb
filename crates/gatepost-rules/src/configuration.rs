//! What rule files say beside their rules, for all that looks at a message.
//!
//! Each part is owned by the module that reads it: nothing below the rule language sees more than
//! its own part.

use crate::eval::{EvalSettings, ScannedMail};
use crate::network::NetworkSettings;
use gatepost_mail::{Directive, Mail, ViewSettings};

/// What rule files say beside their rules.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// About the views of a message: networks, registrar boundaries, limits.
    pub views: ViewSettings,
    pub(crate) eval: EvalSettings,
    pub(crate) network: NetworkSettings,
}

impl Configuration {
    /// Takes one line of a rule file, split at the first blank: its name and the rest.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let mut taken = self.views.directive(name, value);
        if taken == Directive::Unknown {
            taken = self.network.directive(name, value);
        }
        if taken == Directive::Unknown {
            taken = self.eval.directive(name, value);
        }
        taken
    }

    /// A message as rules see it under this configuration. The sender is the envelope's, where the
    /// receiver of the message knows it; empty for a bounce.
    pub fn scanned<'a>(
        &'a self,
        message: &'a [u8],
        envelope_sender: Option<&str>,
    ) -> ScannedMail<'a> {
        let mail = Mail::parse_with(message, &self.views).with_envelope_sender(envelope_sender);
        ScannedMail::new(mail, &self.eval)
    }
}
