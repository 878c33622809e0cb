//! The values of all directives other than rules, for the modules that evaluate a message.
//!
//! Each part belongs to the module that uses it; modules below the rule language see only their own
//! part.

use gatepost_mail::{Directive, Mail, ViewSettings};

use crate::eval::{EvalSettings, ScannedMail};
use crate::network::NetworkSettings;

/// The directives of rule files other than rules.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Directives for the views of a message: networks, registrar boundaries, limits.
    pub views: ViewSettings,
    pub(crate) eval: EvalSettings,
    pub(crate) network: NetworkSettings,
}

impl Configuration {
    /// Processes one line of a rule file: the directive and the rest after the first blank.
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

    /// A message for evaluation under this configuration, with the envelope sender where the
    /// receiver knows it; empty for a bounce.
    pub fn scanned<'a>(
        &'a self,
        message: &'a [u8],
        envelope_sender: Option<&str>,
    ) -> ScannedMail<'a> {
        let mail = Mail::parse_with(message, &self.views).with_envelope_sender(envelope_sender);
        ScannedMail::new(mail, &self.eval)
    }
}
