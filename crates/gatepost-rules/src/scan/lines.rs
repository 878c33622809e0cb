//! The rules of one view that is a list of lines: body, rawbody, uri; and full, which is one line.

use super::state::{RuleId, State};
use super::table::{Table, Worth};
use crate::pattern::Pattern;

const SCREENED: Worth = Worth {
    patterns_min: 6,
    bits_min: 6.0,
    loop_chance_max: 0.3,
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
    table: Table,
}

impl LineRules {
    pub(crate) fn new(mut rules: Vec<LineRule>) -> Self {
        let patterns = rules.iter_mut().map(|rule| (&mut rule.pattern, false));
        let table = Table::new(patterns, SCREENED);
        for index in table.unscreened() {
            if let Some(rule) = rules.get_mut(index as usize)
                && rule.hits_max == 1
            {
                rule.pattern.prefer_automaton();
            }
        }
        Self { rules, table }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn rules(&self) -> &[LineRule] {
        &self.rules
    }

    /// Runs all rules on lines that lie end to end in `text`.
    pub(crate) fn scan(&self, text: &[u8], ends: &[usize], state: &mut State) {
        let mut line_start = 0;
        for (line, &end) in ends.iter().enumerate() {
            let content = text.get(line_start..end).unwrap_or_default();
            line_start = end;
            let in_time = self.table.screen(content, state, |state, owner, end| {
                if let Some(rule) = self.rules.get(owner.pattern as usize)
                    && !(line == 0 && rule.skips_first)
                {
                    let what = (rule.rule, &rule.pattern, rule.hits_max);
                    state.candidate(what, content, owner, end);
                }
            });
            if !in_time {
                for rule in &self.rules {
                    state.limit(rule.rule);
                }
                return;
            }
            for index in self.table.others(content) {
                if let Some(rule) = self.rules.get(index as usize)
                    && !(line == 0 && rule.skips_first)
                {
                    state.count_up_to(rule.rule, &rule.pattern, content, rule.hits_max);
                }
            }
        }
    }
}
