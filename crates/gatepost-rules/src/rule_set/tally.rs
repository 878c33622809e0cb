//! The hits of one scan, their sum, and their effect on learning.
//!
//! The order is fixed, since each step needs the sum of the previous ones: the rules, then the
//! score of an early end, then the adjustment by the sender's average, then the decision whether
//! the message is learned.

use std::sync::Arc;

use gatepost_learning::ScanLearning;
use gatepost_learning::bayes::{Autolearn, PointTotals};
use gatepost_mail::Mail;

use crate::Hit;
use crate::compile::{CompiledRuleSet, RuleFacts};
use crate::language::definition::RuleDefinition;
use crate::report;
use crate::scan::ScanState;
use crate::shortcircuit::ShortcircuitEnding;

/// The sum of the rules that hit.
#[derive(Debug, Default)]
pub(super) struct ScoreTotal {
    pub(super) score: f64,
    pub(super) hits: Vec<Hit>,
    pub(super) subject_prefix: String,
    points: LearningEffects,
}

impl ScoreTotal {
    /// Adds the rules that hit before the scan ended, in their order, and the score of the ending.
    /// A user's `own_score` replaces the folders' score.
    pub(super) fn of(
        compiled: &CompiledRuleSet,
        state: &mut ScanState,
        ending: Option<&ShortcircuitEnding>,
        own_score: impl Fn(&RuleFacts) -> Option<f64>,
    ) -> Self {
        let mut tally = Self {
            hits: Vec::with_capacity(state.hits.len()),
            ..Self::default()
        };
        for &rule in &state.hits {
            let Some(facts) = compiled.facts.get(rule as usize) else {
                continue;
            };
            if facts.is_sub_rule || ending.is_some_and(|end| facts.turn > end.turn) {
                continue;
            }
            let own = own_score(facts);
            if own == Some(0.0) {
                continue; // switched off by the user
            }
            // SpamAssassin lists and scores such a rule once for each match.
            let times = if facts.is_multiple {
                state.value(rule) as usize
            } else {
                1
            };
            let matched = state.matched.iter().position(|(known, _)| *known == rule);
            let matched = matched.map(|index| state.matched.swap_remove(index).1);
            tally.count(facts, own.unwrap_or(facts.score), times, matched);
        }
        if let Some(ending) = ending {
            tally.add(shortcircuit_hit(compiled, ending));
        }
        tally
    }

    fn count(&mut self, facts: &RuleFacts, score: f64, times: usize, matched: Option<Vec<u8>>) {
        self.points.add(facts, times);
        self.score += score * times as f64;
        if let Some(prefix) = &facts.subject_prefix
            && !self.subject_prefix.contains(&**prefix)
        {
            self.subject_prefix.push_str(prefix);
            self.subject_prefix.push(' ');
        }
        let hit = hit_of(facts, score, matched);
        self.hits.extend(std::iter::repeat_n(hit, times));
    }

    /// Adds the hit that reports a limit; none if its score is 0.
    pub(super) fn add_given_up(&mut self, rule: &RuleDefinition, score: f64) {
        if score != 0.0 {
            self.add(Hit {
                name: Arc::clone(&rule.name),
                score,
                description: rule.description.clone().unwrap_or_default(),
                area: "",
                matched: None,
            });
        }
    }

    fn add(&mut self, hit: Hit) {
        self.score += hit.score;
        self.hits.push(hit);
    }

    /// Adds the adjustment by the sender's average, and learns the message if the sum permits.
    pub(super) fn learn(
        &mut self,
        compiled: &CompiledRuleSet,
        mut lesson: ScanLearning<'_>,
        mail: &Mail<'_>,
        required: f64,
    ) -> (Autolearn, Option<String>) {
        if let Some(hit) = reputation_hit(compiled, &mut lesson, mail, &self.points) {
            self.add(hit);
        }
        let is_spam = report::round(self.score) >= required;
        let autolearn = lesson.end(mail, &self.points.autolearn, is_spam);
        let force = match self.points.forced.as_slice() {
            _ if autolearn == Autolearn::Disabled => None,
            [] => Some("no".to_owned()),
            names => Some(format!("yes ({})", names.join(","))),
        };
        (autolearn, force)
    }

    /// The contribution of the rules to the decision about automatic learning.
    pub(super) fn autolearn_points(&self) -> f64 {
        self.points.autolearn.total()
    }
}

/// The effect of the rules that hit on learning.
#[derive(Debug, Default)]
struct LearningEffects {
    autolearn: PointTotals,
    /// The rules that are certain enough alone to learn from.
    forced: Vec<Arc<str>>,
    /// The score for AWL, without rules that must not be learned from.
    awl: f64,
    /// A rule forbids changes of the sender's average.
    no_awl: bool,
}

impl LearningEffects {
    /// Adds a rule with its number of hits: SpamAssassin lists it, and so adds its points, once for
    /// each.
    fn add(&mut self, facts: &RuleFacts, times: usize) {
        self.autolearn.add(&facts.points, times);
        if facts.points.forces() {
            self.forced.push(Arc::clone(&facts.name));
        }
        if !facts.no_autolearn {
            self.awl += facts.score * times as f64;
            self.no_awl |= facts.no_awl;
        }
    }
}

/// The hit of a rule.
fn hit_of(facts: &RuleFacts, score: f64, matched: Option<Vec<u8>>) -> Hit {
    Hit {
        name: Arc::clone(&facts.name),
        score,
        description: Arc::clone(&facts.description),
        area: facts.prefix,
        matched,
    }
}

/// The hit of the rule that adjusts the score by the sender's average.
fn reputation_hit(
    compiled: &CompiledRuleSet,
    lesson: &mut ScanLearning<'_>,
    mail: &Mail<'_>,
    points: &LearningEffects,
) -> Option<Hit> {
    let (rule, query) = compiled.program.reputation?;
    let facts = compiled.facts.get(rule as usize)?;
    if points.no_awl {
        return None;
    }
    let awl = report::round(points.awl);
    let score = lesson.reputation(mail, query, awl, points.autolearn.total())?;
    Some(hit_of(facts, score, None))
}

/// The hit that reports an early end of the scan.
fn shortcircuit_hit(compiled: &CompiledRuleSet, ending: &ShortcircuitEnding) -> Hit {
    let name = "SHORTCIRCUIT";
    let facts = compiled.facts.iter().find(|facts| &*facts.name == name);
    Hit {
        name: name.into(),
        score: ending.score,
        description: facts.map_or_else(
            || "Not all rules were run".into(),
            |facts| Arc::clone(&facts.description),
        ),
        area: "",
        matched: None,
    }
}
