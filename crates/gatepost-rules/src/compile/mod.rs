//! Compiles definitions to a [`RuleProgram`]: decides which rules run, and adds each to a table.
//!
//! A rule runs if its score is not 0, everything that it needs is available, and its result is
//! visible: sub-rules that occur in no running meta are left out. A rule that was requested and
//! does not run becomes a [`RuleProblem`].

mod metas;
mod needed;
mod prepare;
mod rule_place;
mod tables;

use std::sync::Arc;

use gatepost_learning::bayes::RulePoints;

use crate::RuleId;
use crate::RuleProblem;
use crate::Severity;
use crate::language::RuleDefinitions;
use crate::language::definition::{RuleDefinition, RuleTest, View};
use crate::scan::RuleProgram;
use crate::shortcircuit::{ScanPosition, Shortcircuit, ShortcircuitScores};
use prepare::PreparedTest;

/// The data of a rule for reports and for learning.
#[derive(Debug, Clone)]
pub(crate) struct RuleFacts {
    pub(crate) name: Arc<str>,
    pub(crate) score: f64,
    pub(crate) description: Arc<str>,
    /// The prefix of the description: the view that the rule examines.
    pub(crate) prefix: &'static str,
    pub(crate) is_sub_rule: bool,
    pub(crate) subject_prefix: Option<Arc<str>>,
    /// Its effect on automatic learning.
    pub(crate) points: RulePoints,
    /// Its score does not count in the sender's average.
    pub(crate) no_autolearn: bool,
    /// A hit leaves the sender's average unchanged.
    pub(crate) no_awl: bool,
    /// Its position in SpamAssassin's order of rules.
    pub(crate) turn: ScanPosition,
    /// Whether it ends the scan.
    pub(crate) shortcircuit: Option<Shortcircuit>,
    /// Each of its matches adds the score.
    pub(crate) is_multiple: bool,
}

/// Permissions of the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScoreSetConditions {
    pub(crate) network: bool,
    pub(crate) bayes: bool,
}

impl ScoreSetConditions {
    /// The bit of the score set for Bayes.
    const BAYES_BIT: usize = 0b10;

    /// The score set in force: bit 0 for the network, bit 1 for Bayes.
    pub(crate) fn score_set(self) -> usize {
        usize::from(self.network) | usize::from(self.bayes) << 1
    }
}

/// Rules by name and id, and the program that runs them.
pub(crate) struct CompiledRuleSet {
    pub(crate) program: RuleProgram,
    pub(crate) facts: Vec<RuleFacts>,
    /// The first turn of a rule on the network, where other rules can end a scan before it.
    pub(crate) network_turn: Option<ScanPosition>,
    pub(crate) not_running: usize,
    pub(crate) unneeded: usize,
}

/// The reason why a requested rule does not run.
pub(crate) struct RuleNotRunning {
    pub(crate) severity: Severity,
    pub(crate) cause: &'static str,
    pub(crate) reason: String,
    pub(crate) fix: &'static str,
    /// SpamAssassin would run the rule, so metas use 0 for it immediately rather than at the end.
    pub(crate) is_ours_to_miss: bool,
}

/// Compiles all rules; problems are added to the definitions'.
pub(crate) fn compile(
    definitions: &mut RuleDefinitions,
    abilities: ScoreSetConditions,
) -> CompiledRuleSet {
    let set = abilities.score_set();
    let mut problems = Vec::new();
    let mut prepared: Vec<Option<PreparedTest>> = Vec::with_capacity(definitions.rules.len());
    let mut missed = vec![false; definitions.rules.len()];
    for (index, rule) in definitions.rules.iter().enumerate() {
        let outcome = match &rule.test {
            Some(test) if rule.score(set) != 0.0 || matches!(test, RuleTest::Meta { .. }) => {
                prepare::prepare(rule, test, definitions, abilities).map(Some)
            }
            _ => Ok(None),
        };
        prepared.push(outcome.unwrap_or_else(|not_running| {
            if let Some(missed) = missed.get_mut(index) {
                *missed = not_running.is_ours_to_miss;
            }
            problems.push(problem(rule, not_running));
            None
        }));
    }
    let not_running = problems.len();
    let metas = metas::order(definitions, &prepared, &missed, set, &mut problems);
    let stopped = problems.len();
    let needed = needed::find(definitions, &prepared, &metas, set);
    definitions.problems.append(&mut problems);
    let ids = number(definitions, &needed);
    let turns = turns(definitions, &metas);
    let facts = facts(definitions, &ids, &turns, set);
    let tests = definitions.rules.iter().filter(|rule| rule.test.is_some());
    let unneeded = tests.count().saturating_sub(facts.len() + stopped);
    let mut program = RuleProgram {
        rules: facts.len(),
        ..RuleProgram::default()
    };
    program.metas = metas.link(&ids);
    tables::fill(&mut program, definitions, prepared, &ids);
    CompiledRuleSet {
        network_turn: network_turn(&program, &facts, definitions.options.shortcircuit),
        program,
        facts,
        not_running,
        unneeded,
    }
}

fn problem(rule: &RuleDefinition, not_running: RuleNotRunning) -> RuleProblem {
    RuleProblem {
        severity: not_running.severity,
        file: Arc::clone(&rule.source.file),
        line: rule.source.line,
        rule: Some(Arc::clone(&rule.name)),
        cause: not_running.cause,
        reason: not_running.reason,
        fix: not_running.fix.to_owned(),
    }
}

/// The ids of rules, by their index among the definitions.
pub(crate) type Ids = Vec<Option<RuleId>>;

/// Assigns ids to the needed rules in the order in which reports list them: by the part that they
/// examine, then by name.
fn number(definitions: &RuleDefinitions, needed: &[bool]) -> Ids {
    let mut order: Vec<usize> = (0..needed.len()).filter(|&index| needed[index]).collect();
    order.sort_by_key(|&index| {
        let rule = &definitions.rules[index];
        (rule.test.as_ref().map(rank), Arc::clone(&rule.name))
    });
    let mut ids = vec![None; needed.len()];
    for (id, index) in (0u32..).zip(order) {
        ids[index] = Some(id);
    }
    ids
}

/// The order in which SpamAssassin runs the kinds of rules, which is the order in its reports.
fn rank(test: &RuleTest) -> u8 {
    match test {
        RuleTest::Header(_) | RuleTest::Exists { .. } => 0,
        RuleTest::Eval { view, .. } => match view {
            View::Header => 1,
            View::Body | View::Uri => 4,
            View::RawBody => 6,
            View::Full => 8,
        },
        RuleTest::Pattern { view, .. } => match view {
            View::Header | View::Body => 2,
            View::Uri => 3,
            View::RawBody => 5,
            View::Full => 7,
        },
        RuleTest::MimeHeader(_) | RuleTest::UriDetail { .. } => 4,
        RuleTest::Network(_) => 9,
        RuleTest::Meta { .. } => 10,
    }
}

/// The turn of each rule. The rules in a meta run no later than the meta, as in SpamAssassin's
/// `fix_priorities`; only network rules run at [`NETWORK_PRIORITY`], and a meta waits for them.
fn turns(definitions: &RuleDefinitions, metas: &metas::Metas) -> Vec<ScanPosition> {
    let rules = &definitions.rules;
    let mut turns: Vec<ScanPosition> = rules
        .iter()
        .map(|rule| (rule.priority, rule.test.as_ref().map_or(0, rank)))
        .collect();
    // A meta follows all rules that it names, so one backward pass reaches all of them.
    for meta in metas.ordered.iter().rev() {
        let priority = turns.get(meta.definition).map_or(0, |turn| turn.0);
        for named in meta.expression.names().copied().flatten() {
            let is_network = rules.get(named).is_some_and(|rule| rule.flags.net);
            let latest = if is_network {
                priority.max(NETWORK_PRIORITY)
            } else {
                priority
            };
            if let Some(turn) = turns.get_mut(named) {
                turn.0 = turn.0.min(latest);
            }
        }
    }
    for meta in &metas.ordered {
        let named = meta.expression.names().copied().flatten();
        let latest = named.filter_map(|index| turns.get(index)).max().copied();
        if let (Some((priority, _)), Some(turn)) = (latest, turns.get_mut(meta.definition)) {
            turn.0 = turn.0.max(priority);
        }
    }
    turns
}

/// The priority at which SpamAssassin sends its queries.
const NETWORK_PRIORITY: i32 = -100;

/// The first turn of a rule on the network, if other rules can end a scan before it.
fn network_turn(
    program: &RuleProgram,
    facts: &[RuleFacts],
    scores: ShortcircuitScores,
) -> Option<ScanPosition> {
    let asking = program.network.iter().filter_map(|network| network.rule);
    let asking = asking.filter_map(|rule| facts.get(rule as usize));
    let first = asking.map(|facts| facts.turn).min()?;
    let mut earlier = facts.iter().filter(|facts| facts.turn < first);
    let can_end = |facts: &RuleFacts| facts.shortcircuit.is_some() || scores.bounds_sum();
    earlier.any(can_end).then_some(first)
}

fn facts(
    definitions: &RuleDefinitions,
    ids: &Ids,
    turns: &[ScanPosition],
    set: usize,
) -> Vec<RuleFacts> {
    let mut facts: Vec<(RuleId, RuleFacts)> = definitions
        .rules
        .iter()
        .zip(ids)
        .zip(turns)
        .filter_map(|((rule, id), turn)| {
            let prefix = match &rule.test {
                Some(RuleTest::Pattern { view, .. } | RuleTest::Eval { view, .. }) => {
                    view.report_prefix()
                }
                Some(RuleTest::MimeHeader(_)) => View::Body.report_prefix(),
                _ => "",
            };
            let points = RulePoints {
                place: rule_place::place(rule, definitions),
                flags: rule.flags.autolearn,
                score: rule.score(set),
                score_without_bayes: rule.score(set & !ScoreSetConditions::BAYES_BIT),
            };
            let facts = RuleFacts {
                name: Arc::clone(&rule.name),
                score: rule.score(set),
                description: rule
                    .description
                    .clone()
                    .unwrap_or_else(|| NO_DESCRIPTION.into()),
                prefix,
                is_sub_rule: rule.is_sub_rule(),
                subject_prefix: rule.subject_prefix.clone(),
                points,
                no_autolearn: rule.flags.no_autolearn,
                no_awl: rule.flags.no_awl,
                turn: *turn,
                shortcircuit: rule.shortcircuit,
                is_multiple: rule.flags.multiple
                    && !matches!(rule.test, Some(RuleTest::Meta { .. })),
            };
            Some(((*id)?, facts))
        })
        .collect();
    facts.sort_by_key(|(id, _)| *id);
    facts.into_iter().map(|(_, facts)| facts).collect()
}

const NO_DESCRIPTION: &str = "No description available.";

/// The limit on matches for `tflags multiple` without `maxhits`.
const HITS_MAX_DEFAULT: u32 = 1000;

fn hits_max(rule: &RuleDefinition) -> u32 {
    if rule.flags.multiple {
        rule.flags.hits_max.unwrap_or(HITS_MAX_DEFAULT).max(1)
    } else {
        1
    }
}
