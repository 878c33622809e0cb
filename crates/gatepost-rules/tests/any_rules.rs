//! Any content of a rule file: invalid lines are reported with their number, and the rest works.

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use proptest::prelude::*;

/// Pieces of which broken rule files are made. None opens a condition or a comment, which may well
/// take the following lines along.
const PIECES: [&str; 48] = [
    "body ",
    "header ",
    "rawbody ",
    "full ",
    "uri ",
    "meta ",
    "score ",
    "describe ",
    "tflags ",
    "mimeheader ",
    "uri_detail ",
    "replace_tag ",
    "replace_rules ",
    "loadplugin ",
    "lang de ",
    "test ",
    "priority ",
    "shortcircuit ",
    "required_score ",
    "add_header all ",
    "trusted_networks ",
    "welcomelist_from ",
    "A",
    "__B",
    "C_1 ",
    "=~ ",
    "/x/",
    "/(/",
    "m{y}i",
    "eval:",
    "check_for_uppercase(",
    "'1',",
    "\"2\")",
    "exists:",
    "Subject",
    ":raw",
    "[if-unset: ",
    "]",
    " && ",
    "!",
    "(",
    ")",
    " > ",
    "1.5 ",
    "-",
    "multiple maxhits=",
    "\u{e9}",
    "\t",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn broken_lines_harm_no_others(
        lines in proptest::collection::vec(proptest::collection::vec(0..PIECES.len(), 0..8), 0..12),
    ) {
        let broken: String = lines
            .iter()
            .flat_map(|line| line.iter().map(|&piece| PIECES[piece]).chain(["\n"]))
            .collect();
        let text = format!("{broken}\nbody WORKS /word/\nscore WORKS 0.5\n");
        let settings = RulesSettings::default();
        let (rules, problems) = RuleSet::from_text("any.cf", text.as_bytes(), &settings);
        for problem in &problems {
            prop_assert!(problem.line as usize <= text.lines().count(), "{problem}");
            prop_assert!(!problem.reason.is_empty(), "{problem}");
        }
        let report = rules.scan(b"Subject: x\n\nword\n", &ScanContext::default());
        let works = report.hits.iter().any(|hit| &*hit.name == "WORKS");
        prop_assert!(works || report.hits.iter().any(|hit| &*hit.name == "SHORTCIRCUIT"), "{text}");
        prop_assert!(report.score.is_finite());
    }

    #[test]
    fn any_bytes_are_a_rule_file(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (rules, _) = RuleSet::from_text("any.cf", &text, &RulesSettings::default());
        rules.scan(b"Subject: x\n\nword\n", &ScanContext::default());
    }
}
