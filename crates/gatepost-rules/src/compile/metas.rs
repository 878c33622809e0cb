//! Orders metas by their dependencies, and finds those that cannot be computed.

use std::sync::Arc;

use super::Ids;
use super::prepare::PreparedTest;
use crate::language::RuleDefinitions;
use crate::language::expression::{BinaryOperator, Expression, Operation, Term};
use crate::scan::{MetaOperand, MetaRule, MetaRules};
use crate::{RuleProblem, Severity};

/// The longest sum that a `rules_matching` is expanded to.
const MATCHING_RULES_MAX: usize = 5_000;

/// A name in a meta: the index of its definition, if there is one.
type Name = Option<usize>;

/// A meta before its rules have ids.
pub(super) struct Meta {
    pub(super) definition: usize,
    pub(super) expression: Expression<Name>,
    is_silent: bool,
    is_blocked: bool,
}

/// All metas, each after those that it names.
pub(super) struct Metas {
    pub(super) ordered: Vec<Meta>,
    /// By definition: its position in this order.
    place: Vec<Option<u32>>,
}

/// Parses the expressions of all metas and orders them.
pub(super) fn order(
    definitions: &RuleDefinitions,
    prepared: &[Option<PreparedTest>],
    missed: &[bool],
    set: usize,
    problems: &mut Vec<RuleProblem>,
) -> Metas {
    let mut unordered = Vec::new();
    for (definition, test) in prepared.iter().enumerate() {
        let Some(PreparedTest::Meta(text)) = test else {
            continue;
        };
        match Expression::parse(text, |term| name(term, definition, definitions, set)) {
            Ok(expression) => unordered.push(Meta {
                definition,
                expression,
                is_silent: definitions.rules[definition].score(set) == 0.0,
                is_blocked: false,
            }),
            Err(reason) => problems.push(meta_problem(definitions, definition, reason)),
        }
    }
    let (ordered, circular) = sort(unordered, definitions.rules.len());
    let mut metas = Metas {
        place: vec![None; definitions.rules.len()],
        ordered,
    };
    for meta in circular {
        let reason = "it depends on itself, directly or through others".to_owned();
        problems.push(meta_problem(definitions, meta.definition, reason));
    }
    for (place, meta) in (0u32..).zip(&metas.ordered) {
        metas.place[meta.definition] = Some(place);
    }
    metas.find_blocked(prepared, missed);
    metas
}

fn meta_problem(definitions: &RuleDefinitions, definition: usize, reason: String) -> RuleProblem {
    let rule = &definitions.rules[definition];
    RuleProblem {
        severity: Severity::Error,
        file: Arc::clone(&rule.source.file),
        line: rule.source.line,
        rule: Some(Arc::clone(&rule.name)),
        cause: "bad meta",
        reason,
        fix: "correct the expression".to_owned(),
    }
}

/// The meaning of a name in a meta.
fn name(
    term: Term<'_>,
    own: usize,
    definitions: &RuleDefinitions,
    set: usize,
) -> Result<Vec<Operation<Name>>, String> {
    match (term.name, term.argument) {
        // Bit 0 of the score set is the network.
        ("local_tests_only", None) => Ok(vec![Operation::Number((1 - (set & 1)) as f64)]),
        ("rules_matching", Some(pattern)) => matching(pattern, own, definitions),
        (name, None) => Ok(vec![Operation::Name(definitions.index_of(name))]),
        (name, Some(_)) => Err(format!("{name} is not a function")),
    }
}

/// `rules_matching(__MONEY_*)`: the sum of all rules whose name matches.
fn matching(
    pattern: &str,
    own: usize,
    definitions: &RuleDefinitions,
) -> Result<Vec<Operation<Name>>, String> {
    let mut operations = vec![Operation::Number(0.0)];
    for (index, rule) in definitions.rules.iter().enumerate() {
        let exists = rule.test.is_some() || rule.scores.is_some();
        if index != own && exists && fits(pattern.as_bytes(), rule.name.as_bytes()) {
            operations.push(Operation::Name(Some(index)));
            operations.push(Operation::Binary(BinaryOperator::Add));
        }
    }
    if operations.len() / 2 <= MATCHING_RULES_MAX {
        Ok(operations)
    } else {
        Err(format!("{pattern} fits too many rules"))
    }
}

/// `*` matches any text, `?` any one byte.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at_name < name.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                retry = Some((at_pattern, at_name));
                at_pattern += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[at_name] => {
                at_pattern += 1;
                at_name += 1;
            }
            _ => match retry {
                Some((star, start)) => {
                    retry = Some((star, start + 1));
                    at_pattern = star + 1;
                    at_name = start + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|&byte| byte == b'*')
}

/// Orders metas after those that they name; the second list contains the metas of dependency
/// cycles.
fn sort(unordered: Vec<Meta>, definitions: usize) -> (Vec<Meta>, Vec<Meta>) {
    let mut place = vec![None; definitions];
    for (index, meta) in unordered.iter().enumerate() {
        place[meta.definition] = Some(index);
    }
    let mut waits_for = vec![0usize; unordered.len()];
    let mut waited_by: Vec<Vec<usize>> = vec![Vec::new(); unordered.len()];
    for (index, meta) in unordered.iter().enumerate() {
        for &name in meta.expression.names() {
            if let Some(other) = name.and_then(|definition| place[definition]) {
                waits_for[index] += 1;
                waited_by[other].push(index);
            }
        }
    }
    let mut order: Vec<usize> = (0..unordered.len())
        .filter(|&index| waits_for[index] == 0)
        .collect();
    let mut done = 0;
    while let Some(&index) = order.get(done) {
        done += 1;
        for &waiting in &waited_by[index] {
            waits_for[waiting] -= 1;
            if waits_for[waiting] == 0 {
                order.push(waiting);
            }
        }
    }
    let mut metas: Vec<Option<Meta>> = unordered.into_iter().map(Some).collect();
    let ordered = order
        .iter()
        .filter_map(|&index| metas[index].take())
        .collect();
    (ordered, metas.into_iter().flatten().collect())
}

impl Metas {
    /// SpamAssassin computes a meta with score 0 only while rules run, so such a meta is never
    /// computed if it depends on a value that is known only at the end, such as that of a rule that
    /// does not run.
    fn find_blocked(&mut self, prepared: &[Option<PreparedTest>], missed: &[bool]) {
        let mut early = vec![false; self.ordered.len()];
        for index in 0..self.ordered.len() {
            let meta = &self.ordered[index];
            early[index] = meta.expression.names().all(|&name| match name {
                None => false,
                Some(definition) => match self.place[definition] {
                    Some(place) => early[place as usize],
                    None => prepared[definition].is_some() || missed[definition],
                },
            });
            let is_blocked = meta.is_silent && !early[index];
            self.ordered[index].is_blocked = is_blocked;
        }
    }

    /// The metas with their operands resolved.
    pub(super) fn link(&self, ids: &Ids) -> MetaRules {
        // Only metas that are needed have an id; the others leave no gap.
        let mut place = vec![None; ids.len()];
        let needed = || {
            self.ordered
                .iter()
                .filter_map(|meta| Some((meta, ids[meta.definition]?)))
        };
        for (index, (meta, _)) in (0u32..).zip(needed()) {
            place[meta.definition] = Some(index);
        }
        let operand = |name: &Name| match name {
            None => MetaOperand::Never,
            Some(definition) => match (place[*definition], ids[*definition]) {
                (Some(meta), _) => MetaOperand::Meta(meta),
                (None, Some(rule)) => MetaOperand::Rule(rule),
                (None, None) => MetaOperand::Never,
            },
        };
        MetaRules::new(
            needed()
                .map(|(meta, rule)| MetaRule {
                    rule,
                    expression: meta.expression.map(operand),
                    is_silent: meta.is_silent,
                    is_blocked: meta.is_blocked,
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_stars() {
        for (pattern, name, expected) in [
            ("__A*", "__ABC", true),
            ("*C", "__ABC", true),
            ("__?B*", "__ABC", true),
            ("__A*D", "__ABC", false),
            ("*", "", true),
            ("A", "AB", false),
            ("*B*B", "ABAB", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
