//! The examples that rule files give for their rules: `test NAME ok TEXT`, `test NAME fail TEXT`.
//!
//! An example is the text that its rule examines: for a header rule the field's value, otherwise
//! the text of a message. All rules run on it, so metas can have examples too.

use std::sync::Arc;

use gatepost_mail::HeaderSelector;

use super::RuleSet;
use crate::language::definition::{RuleExample, RuleTest};
use crate::{RuleProblem, ScanContext, Severity};

impl RuleSet {
    /// Runs the examples; returns one problem for each that fails, and for each without a rule that
    /// runs.
    pub fn self_tests(&self) -> Vec<RuleProblem> {
        let examples = self.definitions.examples.iter();
        examples
            .filter_map(|example| self.self_test(example))
            .collect()
    }

    fn self_test(&self, example: &RuleExample) -> Option<RuleProblem> {
        let problem = |severity, cause, reason: String| {
            Some(RuleProblem {
                severity,
                file: Arc::clone(&example.source.file),
                line: example.source.line,
                rule: Some(Arc::clone(&example.rule)),
                cause,
                reason,
                fix: String::new(),
            })
        };
        let test = self
            .definitions
            .find(&example.rule)
            .and_then(|rule| rule.test.as_ref());
        let Some(test) = test else {
            let reason = "an example is of a rule that is not there".to_owned();
            return problem(Severity::Note, "example without a rule", reason);
        };
        let facts = &self.plain.facts;
        let Some(id) = facts.iter().position(|facts| facts.name == example.rule) else {
            let reason = "an example is of a rule that does not run".to_owned();
            return problem(Severity::Note, "example without a rule", reason);
        };
        let message = message(test, &example.text);
        let mail = self.configuration().scanned(&message, None);
        let context = ScanContext::default();
        let program = &self.plain.program;
        let captured = program.captures.capture(&mail, self.time_max);
        let captured = captured.as_ref();
        let mut state = program.run(&mail, None, captured, self.time_max, &context);
        program.run_metas(&mut state);
        let hits = state.value(id as u32) != 0.0;
        if hits == example.should_hit {
            return None;
        }
        let text = String::from_utf8_lossy(&example.text);
        let verb = if hits { "hits" } else { "does not hit" };
        problem(
            Severity::Warning,
            "self-test failed",
            format!("it {verb} its example {text:?}"),
        )
    }
}

/// A message that consists of the example.
fn message(test: &RuleTest, text: &[u8]) -> Vec<u8> {
    let field = match test {
        RuleTest::Header(test) => Some(HeaderSelector::parse(&test.selector).name),
        RuleTest::Exists { selector } => Some(HeaderSelector::parse(selector).name),
        _ => None,
    };
    match field {
        Some(name) => [name.as_bytes(), b": ", text, b"\n\n"].concat(),
        None => [b"Subject: \n\n", text, b"\n"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RulesSettings;

    #[test]
    fn failing_examples_are_reported() {
        let rules = "header A Subject =~ /^win/\n\
            test A ok win a price\n\
            test A fail you win\n\
            test A ok you win\n\
            body __B /pills/\n\
            test __B fail cheap pills\n\
            meta C A || __B\n\
            test C ok pills \\# and more\n\
            test D ok nothing\n\
            test A maybe x\n";
        let (rules, problems) =
            RuleSet::from_text("a.cf", rules.as_bytes(), &RulesSettings::default());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].line, 10);
        let reported: Vec<(u32, &str)> = rules
            .self_tests()
            .iter()
            .map(|problem| (problem.line, problem.cause))
            .collect();
        assert_eq!(
            reported,
            [
                (4, "self-test failed"),
                (6, "self-test failed"),
                (9, "example without a rule")
            ]
        );
    }
}
