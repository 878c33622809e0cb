//! Adds each running rule to the table of its kind: header, body, rawbody, uri, full, eval,
//! network.

use std::collections::HashMap;

use gatepost_mail::HeaderSelector;
use gatepost_pattern::Groups;

use super::prepare::{PreparedTest, TemplateTarget};
use super::{Ids, hits_max};
use crate::RuleId;
use crate::language::RuleDefinitions;
use crate::language::definition::{RuleDefinition, View};
use crate::network::{NetworkRule, NetworkTest};
use crate::report;
use crate::scan::{
    CaptureSource, EvalRule, FieldRule, FieldRules, LineRule, LineRules, MatchedText, MimeRule,
    MimeRules, RuleProgram, TemplateRule,
};

/// Adds the rules that have an id to the program, and the queries whose responses others examine.
pub(super) fn fill(
    program: &mut RuleProgram,
    definitions: &RuleDefinitions,
    prepared: Vec<Option<PreparedTest>>,
    ids: &Ids,
) {
    program.captures.sources = sources(definitions, &prepared);
    let mut tables = CollectedRules::default();
    for ((definition, prepared), id) in definitions.rules.iter().zip(prepared).zip(ids) {
        match (prepared, id) {
            (Some(prepared), &Some(rule)) => tables.add(program, rule, definition, prepared),
            // Other rules may examine its responses.
            (Some(PreparedTest::Network(test)), None) => {
                program.network.push(NetworkRule { rule: None, test });
            }
            _ => {}
        }
    }
    let senders = &definitions.configuration.network.senders;
    if !senders.networks_v4.is_empty() || !senders.networks_v6.is_empty() {
        program.network.push(NetworkRule {
            rule: None,
            test: NetworkTest::OriginOfTemplates,
        });
    }
    crate::network::drop_unused(&mut program.network);
    tables.finish(program);
}

/// The rules whose tables need all rules of one field or view at once.
#[derive(Default)]
struct CollectedRules {
    /// The rules that match a field, and the rules that test whether it exists.
    fields: HashMap<HeaderSelector, (Vec<FieldRule>, Vec<RuleId>)>,
    mime: HashMap<HeaderSelector, Vec<FieldRule>>,
    lines: HashMap<View, Vec<LineRule>>,
}

impl CollectedRules {
    fn add(
        &mut self,
        program: &mut RuleProgram,
        rule: RuleId,
        definition: &RuleDefinition,
        prepared: PreparedTest,
    ) {
        match prepared {
            PreparedTest::Meta(_) => {}
            PreparedTest::Bayes(interval) => program.bayes.push((rule, interval)),
            PreparedTest::Reputation(reputation) => program.reputation = Some((rule, reputation)),
            PreparedTest::Exists(selector) => self.fields.entry(selector).or_default().1.push(rule),
            PreparedTest::Field(selector, field) => {
                let of_field = self.fields.entry(selector).or_default();
                of_field.0.push(field.rule(rule, definition));
            }
            PreparedTest::MimeField(selector, field) => {
                self.add_mime(program, definition, selector, field.rule(rule, definition));
            }
            PreparedTest::Network(test) => program.network.push(NetworkRule {
                rule: Some(rule),
                test,
            }),
            PreparedTest::Template(target, template) => {
                let (text, negated) = match target {
                    TemplateTarget::Field { selector, negated } => {
                        (MatchedText::Field(selector), negated)
                    }
                    TemplateTarget::Lines(view) => (lines_of(view, definition), false),
                };
                program.captures.templates.push(TemplateRule {
                    rule,
                    text,
                    template,
                    negated,
                    hits_max: hits_max(definition),
                });
            }
            PreparedTest::Lines(view, pattern) => {
                self.lines.entry(view).or_default().push(LineRule {
                    rule,
                    pattern,
                    hits_max: hits_max(definition),
                    skips_first: view == View::Body && definition.flags.no_subject,
                });
            }
            PreparedTest::Eval(view, evaluation) => {
                let evals = match view {
                    View::Header => &mut program.header_evals,
                    _ => &mut program.other_evals,
                };
                evals.push(EvalRule { rule, evaluation });
            }
        }
    }

    fn add_mime(
        &mut self,
        program: &mut RuleProgram,
        definition: &RuleDefinition,
        selector: HeaderSelector,
        field: FieldRule,
    ) {
        let mime_rule = MimeRule {
            selector,
            field,
            concat: definition.flags.concat,
            range: definition.flags.range,
        };
        if mime_rule.is_simple() {
            let of_field = self.mime.entry(mime_rule.selector).or_default();
            of_field.push(mime_rule.field);
        } else {
            program.special_mime.push(mime_rule);
        }
    }

    fn finish(mut self, program: &mut RuleProgram) {
        program.fields = self
            .fields
            .into_iter()
            .map(|(selector, (rules, exists))| FieldRules::new(selector, rules, exists))
            .collect();
        program.mime = self
            .mime
            .into_iter()
            .map(|(selector, rules)| MimeRules::new(selector, rules))
            .collect();
        let mut take = |view| LineRules::new(self.lines.remove(&view).unwrap_or_default());
        program.body = take(View::Body);
        program.raw_body = take(View::RawBody);
        program.full = take(View::Full);
        program.uris = take(View::Uri);
    }
}

fn lines_of(view: View, definition: &RuleDefinition) -> MatchedText {
    MatchedText::Lines {
        view,
        skips_first: view == View::Body && definition.flags.no_subject,
    }
}

/// The patterns whose groups the templates of patterns, queries and reports use.
fn sources(definitions: &RuleDefinitions, prepared: &[Option<PreparedTest>]) -> Vec<CaptureSource> {
    let mut wanted: Vec<&str> = Vec::new();
    for prepared in prepared.iter().flatten() {
        match prepared {
            PreparedTest::Template(_, template) => wanted.extend(template.names()),
            PreparedTest::Network(test) => wanted.extend(test.tags()),
            _ => {}
        }
    }
    wanted.extend(report::message_tags::names(&definitions.options));
    let mut sources = Vec::new();
    for (definition, prepared) in definitions.rules.iter().zip(prepared) {
        let (text, pattern) = match prepared {
            Some(PreparedTest::Field(selector, field)) => {
                (MatchedText::Field(selector.clone()), field.pattern())
            }
            Some(PreparedTest::Lines(view, pattern)) => (lines_of(*view, definition), pattern),
            _ => continue,
        };
        if let Some(groups) = Groups::of(pattern, |name| wanted.contains(&name)) {
            sources.push(CaptureSource {
                text,
                groups,
                hits_max: hits_max(definition),
            });
        }
    }
    sources
}
