//! Prepares what single rules test: patterns are read, functions bound.

use super::{Abilities, NotRunning, hits_max};
use crate::Severity;
use crate::bayes::Interval;
use crate::eval::{self, EvalProblem, Evaluation};
use crate::language::Definitions;
use crate::language::definition::{Definition, FieldTest, Test, View};
use crate::learning::Reputation;
use crate::mail::HeaderSelector;
use crate::pattern::Pattern;
use crate::scan::{FieldRule, RuleId};

/// A test that can run.
pub(super) enum Prepared {
    Exists(HeaderSelector),
    Field(HeaderSelector, Field),
    MimeField(HeaderSelector, Field),
    Lines(View, Pattern),
    Eval(View, Evaluation),
    /// Which probabilities of Bayes hit.
    Bayes(Interval),
    /// The sender's average.
    Reputation(Reputation),
    /// The text of a meta's expression.
    Meta(String),
}

/// A comparison with a field, before its rule has a number.
pub(super) struct Field {
    pattern: Pattern,
    negated: bool,
    if_unset: Option<Vec<u8>>,
}

impl Field {
    pub(super) fn rule(self, rule: RuleId, definition: &Definition) -> FieldRule {
        FieldRule {
            rule,
            pattern: self.pattern,
            negated: self.negated,
            if_unset: self.if_unset,
            hits_max: hits_max(definition),
        }
    }
}

/// Prepares a rule's test, or says why it does not run.
pub(super) fn prepare(
    rule: &Definition,
    test: &Test,
    definitions: &Definitions,
    abilities: Abilities,
) -> Result<Prepared, NotRunning> {
    Ok(match test {
        Test::Meta { expression } => Prepared::Meta(expression.clone()),
        Test::Exists { selector } => Prepared::Exists(HeaderSelector::parse(selector)),
        Test::Header(test) => Prepared::Field(
            HeaderSelector::parse(&test.selector),
            field(rule, test, definitions)?,
        ),
        Test::MimeHeader(test) => Prepared::MimeField(
            HeaderSelector::parse(&test.selector),
            field(rule, test, definitions)?,
        ),
        Test::Pattern { view, pattern } => {
            Prepared::Lines(*view, read_pattern(rule, pattern, definitions)?)
        }
        Test::UriDetail { conditions } => Prepared::Eval(
            View::Uri,
            eval::prepare_uri_detail(conditions).map_err(eval_problem)?,
        ),
        Test::Eval {
            view,
            function,
            arguments,
        } => {
            if rule.flags.net && !abilities.network {
                return Err(network_is_off());
            }
            if rule.flags.learn && !abilities.bayes {
                return Err(needs_bayes());
            }
            if function == "check_bayes" {
                let interval = Interval::parse(arguments).ok_or_else(bad_interval)?;
                return Ok(Prepared::Bayes(interval));
            }
            if let Some(reputation) = Reputation::of_function(function) {
                return Ok(Prepared::Reputation(reputation));
            }
            Prepared::Eval(
                *view,
                eval::prepare(function, arguments).map_err(eval_problem)?,
            )
        }
        Test::Network { .. } => return Err(network_is_off()),
    })
}

fn network_is_off() -> NotRunning {
    NotRunning {
        severity: Severity::Note,
        cause: "network tests are off",
        reason: "it asks the network".to_owned(),
        mend: "",
        is_ours_to_miss: false,
    }
}

fn needs_bayes() -> NotRunning {
    NotRunning {
        severity: Severity::Note,
        cause: "Bayes",
        reason: "it needs Bayes, which has learned nothing".to_owned(),
        mend: "",
        is_ours_to_miss: false,
    }
}

fn bad_interval() -> NotRunning {
    eval_problem(EvalProblem::Arguments {
        name: "check_bayes".to_owned(),
        reason: "it takes two probabilities".to_owned(),
    })
}

fn eval_problem(problem: EvalProblem) -> NotRunning {
    let reason = problem.to_string();
    let (severity, cause, mend) = match problem {
        EvalProblem::Unknown { .. } => (
            Severity::Warning,
            "unknown eval function",
            "mend the name, or live without the rule",
        ),
        EvalProblem::Off { .. } => (Severity::Note, "switched off", ""),
        EvalProblem::Arguments { .. } => (Severity::Error, "bad arguments", "mend the arguments"),
    };
    NotRunning {
        severity,
        cause,
        reason,
        mend,
        is_ours_to_miss: true,
    }
}

fn field(
    rule: &Definition,
    test: &FieldTest,
    definitions: &Definitions,
) -> Result<Field, NotRunning> {
    Ok(Field {
        pattern: read_pattern(rule, &test.pattern, definitions)?,
        negated: test.negated,
        if_unset: test.if_unset.clone(),
    })
}

fn read_pattern(
    rule: &Definition,
    text: &[u8],
    definitions: &Definitions,
) -> Result<Pattern, NotRunning> {
    let refuse = |reason: String| NotRunning {
        severity: Severity::Error,
        cause: "bad pattern",
        reason,
        mend: "mend the pattern",
        is_ours_to_miss: false,
    };
    let (body, modifiers) = Pattern::split(text).map_err(refuse)?;
    if names_a_capture(body) {
        return Err(NotRunning {
            severity: Severity::Warning,
            cause: "capture template",
            reason: "its pattern holds what another rule captured, which is not supported yet"
                .to_owned(),
            mend: "",
            is_ours_to_miss: true,
        });
    }
    if !rule.replaces_tags {
        return Pattern::parse_bare(body, modifiers).map_err(refuse);
    }
    let has_modifiers = text.last().is_some_and(u8::is_ascii_lowercase);
    let body = definitions.replace_tags.expand(body, has_modifiers);
    Pattern::parse_bare(&body, modifiers).map_err(refuse)
}

/// `%{NAME}`: the text that another rule's named group matched.
fn names_a_capture(body: &[u8]) -> bool {
    memchr::memmem::find_iter(body, b"%{")
        .any(|at| body.get(at + 2).is_some_and(u8::is_ascii_uppercase))
}
