//! `body`, `rawbody`, `uri` and `full` rules: patterns that are matched against each line of a
//! view; `full` is a view of one line.

use gatepost_pattern::{LiteralInfo, Pattern, Prefilter, PrefilterThresholds};

use super::filter;
use super::state::ScanState;
use crate::RuleId;

const THRESHOLDS: PrefilterThresholds = PrefilterThresholds {
    patterns_min: 6,
    bits_min: 6.0,
    loop_probability_max: 0.3,
};

/// A rule that looks for a pattern in each line.
#[derive(Debug)]
pub(crate) struct LineRule {
    pub(crate) rule: RuleId,
    pub(crate) pattern: Pattern,
    /// Matches beyond which counting stops; 1 for a rule that only hits or does not.
    pub(crate) hits_max: u32,
    /// Leaves out the first line, which is the subject.
    pub(crate) skips_first: bool,
}

/// All rules of a view.
#[derive(Debug, Default)]
pub(crate) struct LineRules {
    rules: Vec<LineRule>,
    prefilter: Prefilter,
}

impl LineRules {
    pub(crate) fn new(mut rules: Vec<LineRule>) -> Self {
        let patterns = rules.iter_mut().map(|rule| (&mut rule.pattern, false));
        let prefilter = filter::prefilter(patterns, THRESHOLDS);
        for index in prefilter.unfiltered() {
            if let Some(rule) = rules.get_mut(index as usize)
                && rule.hits_max == 1
            {
                rule.pattern.prefer_linear();
            }
        }
        Self { rules, prefilter }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn rules(&self) -> &[LineRule] {
        &self.rules
    }

    /// Runs all rules on the lines of `text`, which end at `ends`.
    pub(crate) fn scan(&self, text: &[u8], ends: &[usize], state: &mut ScanState) {
        let mut start = 0;
        for (number, &end) in ends.iter().enumerate() {
            let line = text.get(start..end).unwrap_or_default();
            start = end;
            if !self.scan_line(line, number == 0, state) {
                for rule in &self.rules {
                    state.limit(rule.rule);
                }
                return;
            }
        }
    }

    /// Runs all rules on a line. False if the time was over.
    fn scan_line(&self, line: &[u8], is_first: bool, state: &mut ScanState) -> bool {
        let candidate = |state: &mut ScanState, literal: LiteralInfo, end: usize| {
            if let Some(rule) = self.rules.get(literal.pattern as usize)
                && !(is_first && rule.skips_first)
            {
                let what = (rule.rule, &rule.pattern, rule.hits_max);
                state.candidate(what, line, literal, end);
            }
        };
        if filter::candidates(&self.prefilter, line, state, candidate).is_err() {
            return false;
        }
        for index in self.prefilter.unfiltered_candidates(line) {
            if let Some(rule) = self.rules.get(index as usize)
                && !(is_first && rule.skips_first)
            {
                state.count_up_to(rule.rule, &rule.pattern, line, rule.hits_max);
            }
        }
        true
    }
}
