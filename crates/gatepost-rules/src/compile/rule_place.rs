//! The part of a message that a rule examines, as automatic learning distinguishes it.

use gatepost_learning::bayes::RulePlace;

use crate::language::Definitions;
use crate::language::definition::{Definition, Test, View};

/// The part of a rule. A meta has the parts of the rules that it names.
pub(super) fn place(rule: &Definition, definitions: &Definitions) -> RulePlace {
    match &rule.test {
        Some(Test::Meta { expression }) => {
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

fn place_of_test(rule: &Definition) -> Option<RulePlace> {
    Some(match rule.test.as_ref()? {
        Test::Header(_) | Test::Exists { .. } => RulePlace::Head,
        Test::MimeHeader(_) | Test::UriDetail { .. } => RulePlace::Body,
        Test::Pattern { view, .. } | Test::Eval { view, .. } => match view {
            View::Header => RulePlace::Head,
            View::Body | View::RawBody | View::Uri => RulePlace::Body,
            View::Full => RulePlace::Other,
        },
        Test::Meta { .. } | Test::Network(_) => return None,
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
