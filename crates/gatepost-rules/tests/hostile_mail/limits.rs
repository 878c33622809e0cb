//! Patterns that take more steps than they may.

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};

/// Whatever the machine: the pattern takes more steps than it may, and is named; others still run.
#[test]
fn rules_at_their_limits_are_named() {
    let text = r"
body     HEAVY      /^(?=(?:a|aa)+$)/
body     HEAVY_TOO  /order (?=(?:a|aa)+$)/
rawbody  HEAVY_RAW  /^(?=(?:a|aa)+$)/
header   HEAVY_HEAD Subject =~ /^(?:a|aa)+$/
header   NOT_HEAVY  Subject !~ /^(?:a|aa)+$/
full     HEAVY_FULL /\n\n(?=(?:a|aa)+$)/
body     LIGHT      /now/
meta     BOTH       LIGHT && !HEAVY
";
    let (rules, problems) =
        RuleSet::from_text("test.cf", text.as_bytes(), &RulesSettings::default());
    assert!(problems.is_empty(), "{problems:?}");
    let row = "a".repeat(1000);
    let message = format!("Subject: {row}!\n\n{row}!\n\norder {row}! now\n");
    let report = rules.scan(message.as_bytes(), &ScanContext::default());
    let mut limited: Vec<&str> = report.limited.iter().map(AsRef::as_ref).collect();
    limited.sort_unstable();
    let heavy = [
        "HEAVY",
        "HEAVY_FULL",
        "HEAVY_HEAD",
        "HEAVY_RAW",
        "HEAVY_TOO",
        "NOT_HEAVY",
    ];
    assert_eq!(limited, heavy);
    let mut hits: Vec<&str> = report.hits.iter().map(|hit| &*hit.name).collect();
    hits.sort_unstable();
    assert_eq!(hits, ["BOTH", "LIGHT"]);
}
