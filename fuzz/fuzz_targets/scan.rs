//! Any bytes as a message, judged by the embedded rules.
#![no_main]

use std::sync::LazyLock;

use gatepost_rules::{RuleSet, ScanContext};
use libfuzzer_sys::fuzz_target;

static RULES: LazyLock<RuleSet> = LazyLock::new(RuleSet::embedded);

fuzz_target!(|message: &[u8]| {
    let report = RULES.scan(message, &ScanContext::default());
    assert!(report.score.is_finite());
});
