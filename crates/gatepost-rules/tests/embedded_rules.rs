//! The embedded rule set is complete: each of its rules can run.

use gatepost_rules::{RuleSet, RulesSettings};

#[test]
fn the_embedded_rules_have_no_problem() {
    let (rules, problems) = RuleSet::load(&[], &RulesSettings::default());
    assert!(problems.is_empty(), "{problems:?}");
    assert!(rules.statistics().rules > 50);
    assert_eq!(rules.statistics().not_running, 0);
}
