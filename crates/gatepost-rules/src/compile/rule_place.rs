//! The part of a message that a rule examines, as automatic learning distinguishes it.

use gatepost_learning::bayes::RulePlace;

use crate::language::RuleDefinitions;
use crate::language::definition::{RuleDefinition, RuleTest, View};

/// The part of a rule. A meta has the parts of the rules that it names.
pub(super) fn place(rule: &RuleDefinition, definitions: &RuleDefinitions) -> RulePlace {
    match &rule.test {
        Some(RuleTest::Meta { expression }) => {
            let (mut head, mut body) = (0, 0);
            for name in names(expression) {
                match definitions.find(name).and_then(place_of_test) {
                    Some(RulePlace::Head) => head += 1,
                    Some(RulePlace::Body) => body += 1,
                    _ => {}
                }
            }
            RulePlace::Meta { head, body }
        }
        _ => place_of_test(rule).unwrap_or(RulePlace::Other),
    }
}

fn place_of_test(rule: &RuleDefinition) -> Option<RulePlace> {
    Some(match rule.test.as_ref()? {
        RuleTest::Header(_) | RuleTest::Exists { .. } => RulePlace::Head,
        RuleTest::MimeHeader(_) | RuleTest::UriDetail { .. } => RulePlace::Body,
        RuleTest::Pattern { view, .. } | RuleTest::Eval { view, .. } => match view {
            View::Header => RulePlace::Head,
            View::Body | View::RawBody | View::Uri => RulePlace::Body,
            View::Full => RulePlace::Other,
        },
        RuleTest::Meta { .. } | RuleTest::Network(_) => return None,
    })
}

/// The names in an expression, each once.
fn names(expression: &str) -> Vec<&str> {
    let mut names: Vec<&str> = expression
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| {
            word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
