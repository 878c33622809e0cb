//! A rule file, its patterns translated and run over a message.
#![no_main]

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use libfuzzer_sys::fuzz_target;

const MESSAGE: &[u8] = b"From: a@example.org\r\nSubject: free money\r\n\r\n\
    http://example.com/ now\r\n";

fuzz_target!(|text: &[u8]| {
    let (rules, _problems) = RuleSet::from_text("fuzz.cf", text, &RulesSettings::default());
    let report = rules.scan(MESSAGE, &ScanContext::default());
    assert!(!report.score.is_nan());
});
