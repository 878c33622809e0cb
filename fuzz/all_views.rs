//! Makes every view of a message. Each fuzz target of mails passes messages of another form.

use std::sync::LazyLock;

use gatepost_mail::{HeaderSelector, Mail};
use gatepost_rules::Configuration;

/// The top-level domain .com is known, so that links are found.
static CONFIGURATION: LazyLock<Configuration> = LazyLock::new(|| {
    let mut configuration = Configuration::default();
    configuration.directive("util_rb_tld", "com net org");
    configuration
});

pub(crate) fn make_all_views(message: &[u8]) {
    let mail = Mail::parse_with(message, &CONFIGURATION.views);
    let _ = (mail.body(), mail.visible_body(), mail.invisible_body(), mail.rawbody(), mail.uris());
    for selector in [
        "ALL",
        "ALL:raw",
        "From:addr",
        "To:name",
        "X-Spam-Relays-Untrusted",
        "EnvelopeFrom",
    ] {
        let _ = mail.header(&HeaderSelector::parse(selector));
    }
    let _ = (mail.subject(), mail.readable_text());
}
