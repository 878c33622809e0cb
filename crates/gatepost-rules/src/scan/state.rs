//! What is known of one message while it is scanned.

use super::budget::Budget;
use crate::pattern::Pattern;

/// A rule's place in the tables of its set.
pub(crate) type RuleId = u32;

/// Bytes of a text that count as one step of the budget.
const BYTES_PER_STEP: usize = 4096;
/// The longest text that is kept as what matched.
const MATCHED_BYTES_MAX: usize = 200;

/// The values of all rules for one message.
#[derive(Debug)]
pub(crate) struct State {
    /// By rule: 0, or how often it hit, or the value of a meta.
    values: Vec<f64>,
    /// Rules with a value, in the order in which they got it.
    pub(crate) hits: Vec<RuleId>,
    /// Rules that ran into a limit.
    pub(crate) limited: Vec<RuleId>,
    /// What matched, where that is asked for.
    pub(crate) matched: Vec<(RuleId, Vec<u8>)>,
    pub(crate) explain: bool,
    pub(crate) budget: Budget,
}

impl State {
    pub(crate) fn new(rules: usize, budget: Budget, explain: bool) -> Self {
        Self {
            values: vec![0.0; rules],
            hits: Vec::with_capacity(64),
            limited: Vec::new(),
            matched: Vec::new(),
            explain,
            budget,
        }
    }

    /// Adds to a rule's value.
    pub(crate) fn hit(&mut self, rule: RuleId, value: f64) {
        if let Some(known) = self.values.get_mut(rule as usize) {
            if *known == 0.0 {
                self.hits.push(rule);
            }
            *known += value;
        }
    }

    pub(crate) fn value(&self, rule: RuleId) -> f64 {
        self.values.get(rule as usize).copied().unwrap_or(0.0)
    }

    pub(crate) fn limit(&mut self, rule: RuleId) {
        if !self.limited.contains(&rule) {
            self.limited.push(rule);
        }
    }

    fn note_match(&mut self, rule: RuleId, text: &[u8]) {
        if self.explain && self.matched.iter().all(|(known, _)| *known != rule) {
            let length = text.len().min(MATCHED_BYTES_MAX);
            let text = text.get(..length).unwrap_or_default().to_vec();
            self.matched.push((rule, text));
        }
    }

    /// Counts the matches of a rule in one text, up to `hits_max`, and adds them to its value.
    pub(crate) fn count(&mut self, rule: RuleId, pattern: &Pattern, text: &[u8], hits_max: u32) {
        let mut start = 0;
        for _ in 0..hits_max {
            match self.find(rule, pattern, text, start) {
                Some((from, to)) => {
                    self.note_match(rule, text.get(from..to).unwrap_or_default());
                    self.hit(rule, 1.0);
                    // An empty match moves on by one byte, as Perl's /g does.
                    start = if to > from { to } else { to + 1 };
                }
                None => return,
            }
        }
    }

    /// One search, on the message's time.
    pub(crate) fn find(
        &mut self,
        rule: RuleId,
        pattern: &Pattern,
        text: &[u8],
        start: usize,
    ) -> Option<(usize, usize)> {
        let cost = 1 + (text.len().saturating_sub(start) / BYTES_PER_STEP) as u32;
        if self.budget.is_spent(cost) {
            self.limit(rule);
            return None;
        }
        let Ok(found) = pattern.find(text, start) else {
            self.limit(rule);
            return None;
        };
        found
    }
}
