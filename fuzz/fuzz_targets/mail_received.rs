//! A Received line, and what trust makes of it.
#![no_main]

use std::sync::LazyLock;

use gatepost_rules::Configuration;
use gatepost_mail::{HeaderSelector, Mail};
use libfuzzer_sys::fuzz_target;

static CONFIGURATION: LazyLock<Configuration> = LazyLock::new(|| {
    let mut configuration = Configuration::default();
    configuration.directive("util_rb_tld", "com net org");
    configuration
});

fuzz_target!(|data: &[u8]| {
    let message = [&b"Received: from "[..], data, b"\n\n"].concat();
    let mail = Mail::parse_with(&message, &CONFIGURATION.views);
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
});
