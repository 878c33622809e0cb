//! Prepares the tests of single rules: parses their patterns and binds their eval functions.

use gatepost_learning::Reputation;
use gatepost_learning::bayes::Interval;
use gatepost_mail::HeaderSelector;
use gatepost_pattern::{Pattern, Template};

use super::{RuleNotRunning, ScoreSetConditions, hits_max};
use crate::RuleId;
use crate::Severity;
use crate::eval::{self, EvalCall, EvalProblem};
use crate::language::RuleDefinitions;
use crate::language::definition::{FieldTest, RuleDefinition, RuleTest, View};
use crate::network::{self, LinkList, NetworkCall, NetworkTest};
use crate::scan::FieldRule;

/// A test that can run.
pub(super) enum PreparedTest {
    Exists(HeaderSelector),
    Field(HeaderSelector, FieldComparison),
    MimeField(HeaderSelector, FieldComparison),
    Lines(View, Pattern),
    /// A DNS query.
    Network(NetworkTest),
    /// A pattern that contains a capture of another rule.
    Template(TemplateTarget, Template),
    Eval(View, EvalCall),
    /// An interval of Bayes probabilities.
    Bayes(Interval),
    /// The sender's average.
    Reputation(Reputation),
    /// The text of a meta's expression.
    Meta(String),
}

/// The view that a template examines.
pub(super) enum TemplateTarget {
    Field {
        selector: HeaderSelector,
        negated: bool,
    },
    Lines(View),
}

/// A pattern, perhaps with captures of other rules in it.
enum ParsedPattern {
    Pattern(Pattern),
    Template(Template),
}

/// A comparison with a field, before its rule has an id.
pub(super) struct FieldComparison {
    pattern: Pattern,
    negated: bool,
    if_unset: Option<Vec<u8>>,
}

impl FieldComparison {
    pub(super) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub(super) fn rule(self, rule: RuleId, definition: &RuleDefinition) -> FieldRule {
        FieldRule {
            rule,
            pattern: self.pattern,
            negated: self.negated,
            if_unset: self.if_unset,
            hits_max: hits_max(definition),
        }
    }
}

/// Prepares the test of a rule, or returns the reason why it does not run.
pub(super) fn prepare(
    rule: &RuleDefinition,
    test: &RuleTest,
    definitions: &RuleDefinitions,
    abilities: ScoreSetConditions,
) -> Result<PreparedTest, RuleNotRunning> {
    Ok(match test {
        RuleTest::Meta { expression } => PreparedTest::Meta(expression.clone()),
        RuleTest::Exists { selector } => PreparedTest::Exists(HeaderSelector::parse(selector)),
        RuleTest::Header(test) => prepare_field(rule, test, definitions, abilities)?,
        RuleTest::MimeHeader(test) => PreparedTest::MimeField(
            HeaderSelector::parse(&test.selector),
            field(test, read_pattern(rule, &test.pattern, definitions)?),
        ),
        RuleTest::Pattern { view, pattern } => match read(rule, pattern, definitions)? {
            ParsedPattern::Pattern(pattern) => PreparedTest::Lines(*view, pattern),
            ParsedPattern::Template(template) => {
                PreparedTest::Template(TemplateTarget::Lines(*view), template)
            }
        },
        RuleTest::UriDetail { conditions } => PreparedTest::Eval(
            View::Uri,
            eval::prepare_uri_detail(conditions).map_err(eval_problem)?,
        ),
        RuleTest::Eval {
            view,
            function,
            arguments,
        } => prepare_eval(rule, *view, function, arguments, abilities)?,
        RuleTest::Network(_) if !abilities.network => return Err(network_is_off()),
        RuleTest::Network(call) => prepare_network(rule, call, definitions)?,
    })
}

fn prepare_field(
    rule: &RuleDefinition,
    test: &FieldTest,
    definitions: &RuleDefinitions,
    abilities: ScoreSetConditions,
) -> Result<PreparedTest, RuleNotRunning> {
    let (selector, negated) = (HeaderSelector::parse(&test.selector), test.negated);
    let senders = &definitions.configuration.network.senders;
    let asks_origin = !senders.networks_v4.is_empty() || !senders.networks_v6.is_empty();
    if abilities.network && asks_origin && selector.name.eq_ignore_ascii_case("X-ASN") {
        let pattern = read_pattern(rule, &test.pattern, definitions)?;
        return Ok(PreparedTest::Network(NetworkTest::OriginField {
            pattern,
            negated,
        }));
    }
    Ok(match read(rule, &test.pattern, definitions)? {
        ParsedPattern::Pattern(pattern) => PreparedTest::Field(selector, field(test, pattern)),
        ParsedPattern::Template(template) => {
            PreparedTest::Template(TemplateTarget::Field { selector, negated }, template)
        }
    })
}

fn prepare_eval(
    rule: &RuleDefinition,
    view: View,
    function: &str,
    arguments: &[String],
    abilities: ScoreSetConditions,
) -> Result<PreparedTest, RuleNotRunning> {
    if rule.flags.net && !abilities.network {
        return Err(network_is_off());
    }
    if rule.flags.learn && !abilities.bayes {
        return Err(needs_bayes());
    }
    if function == "check_bayes" {
        let interval = Interval::parse(arguments).ok_or_else(bad_interval)?;
        return Ok(PreparedTest::Bayes(interval));
    }
    if let Some(reputation) = Reputation::of_function(function) {
        return Ok(PreparedTest::Reputation(reputation));
    }
    let evaluation = eval::prepare(function, arguments).map_err(eval_problem)?;
    Ok(PreparedTest::Eval(view, evaluation))
}

fn prepare_network(
    rule: &RuleDefinition,
    call: &NetworkCall,
    definitions: &RuleDefinitions,
) -> Result<PreparedTest, RuleNotRunning> {
    let links = definitions.link_lists.get(&rule.name).cloned();
    let links = links.map(|list| LinkList {
        flags: rule.flags.link,
        ..list
    });
    let name = call.function.clone();
    match network::prepare(call, rule.flags.nice, links.as_ref()) {
        Some(Ok(test)) => Ok(PreparedTest::Network(test)),
        Some(Err(reason)) => Err(eval_problem(EvalProblem::Arguments { name, reason })),
        None => Err(eval_problem(EvalProblem::Unknown { name })),
    }
}

fn network_is_off() -> RuleNotRunning {
    RuleNotRunning {
        severity: Severity::Note,
        cause: "network tests are off",
        reason: "it queries the network".to_owned(),
        fix: "rules.network = true enables it",
        is_ours_to_miss: false,
    }
}

fn needs_bayes() -> RuleNotRunning {
    RuleNotRunning {
        severity: Severity::Note,
        cause: "Bayes",
        reason: "it needs Bayes, which runs when it has learned enough".to_owned(),
        fix: "train it with gatepost learn",
        is_ours_to_miss: false,
    }
}

fn bad_interval() -> RuleNotRunning {
    eval_problem(EvalProblem::Arguments {
        name: "check_bayes".to_owned(),
        reason: "it takes two probabilities".to_owned(),
    })
}

fn eval_problem(problem: EvalProblem) -> RuleNotRunning {
    let reason = problem.to_string();
    let (severity, cause, fix) = match problem {
        EvalProblem::Unknown { .. } => (
            Severity::Warning,
            "unknown eval function",
            "correct the name, or remove the rule",
        ),
        EvalProblem::Off { .. } => (Severity::Note, "plugin not here", ""),
        EvalProblem::Arguments { .. } => {
            (Severity::Error, "bad arguments", "correct the arguments")
        }
    };
    RuleNotRunning {
        severity,
        cause,
        reason,
        fix,
        is_ours_to_miss: true,
    }
}

fn field(test: &FieldTest, pattern: Pattern) -> FieldComparison {
    FieldComparison {
        pattern,
        negated: test.negated,
        if_unset: test.if_unset.clone(),
    }
}

fn bad_pattern(reason: impl Into<String>) -> RuleNotRunning {
    RuleNotRunning {
        severity: Severity::Error,
        cause: "bad pattern",
        reason: reason.into(),
        fix: "correct the pattern",
        is_ours_to_miss: false,
    }
}

fn read(
    rule: &RuleDefinition,
    text: &[u8],
    definitions: &RuleDefinitions,
) -> Result<ParsedPattern, RuleNotRunning> {
    let (body, modifiers) = Pattern::split(text).map_err(bad_pattern)?;
    let expanded = rule.replaces_tags.then(|| {
        let has_modifiers = text.last().is_some_and(u8::is_ascii_lowercase);
        definitions.replace_tags.expand(body, has_modifiers)
    });
    let body = expanded.as_deref().unwrap_or(body);
    if definitions.ignores_always_matching && is_always_matching(body) {
        return Err(RuleNotRunning {
            cause: "always matching",
            fix: "fix the pattern, or write: ignore_always_matching_regexps 0",
            ..bad_pattern("its pattern is empty or has an empty alternative, so it always matches")
        });
    }
    if let Some(template) = Template::parse(body, modifiers) {
        return template.map(ParsedPattern::Template).map_err(bad_pattern);
    }
    let pattern = Pattern::parse_bare(body, modifiers);
    pattern.map(ParsedPattern::Pattern).map_err(bad_pattern)
}

fn read_pattern(
    rule: &RuleDefinition,
    text: &[u8],
    definitions: &RuleDefinitions,
) -> Result<Pattern, RuleNotRunning> {
    match read(rule, text, definitions)? {
        ParsedPattern::Pattern(pattern) => Ok(pattern),
        ParsedPattern::Template(_) => Err(bad_pattern(
            "a mimeheader rule cannot hold what others captured",
        )),
    }
}

/// Whether a pattern looks as if it always matched, in SpamAssassin's terms: it is empty, or one of
/// its alternatives is, whatever groups there are.
fn is_always_matching(body: &[u8]) -> bool {
    let is_escaped = |at: usize| at > 0 && body.get(at - 1) == Some(&b'\\');
    let is_bar = |at: usize| body.get(at) == Some(&b'|') && !is_escaped(at);
    let is_bar_at_end = body.len().checked_sub(1).is_some_and(is_bar);
    let has_two = (0..body.len()).any(|at| is_bar(at) && body.get(at + 1) == Some(&b'|'));
    body.is_empty() || body.first() == Some(&b'|') || is_bar_at_end || has_two
}
