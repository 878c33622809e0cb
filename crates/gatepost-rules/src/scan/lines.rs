//! The rules of one view that is a list of lines: body, rawbody, uri; and full, which is one line.

use smallvec::SmallVec;

use super::state::{RuleId, State};
use super::table::{Screened, Table, Worth};
use crate::pattern::Pattern;
use crate::screen::{End, Owner};

/// Lines are looked at together until there are so many bytes or lines of them.
const BATCH_BYTES: usize = 16 * 1024;
const BATCH_LINES: usize = 256;

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
        let mut start = 0;
        let mut lines = ends.iter().map(|&end| {
            let line = text.get(start..end).unwrap_or_default();
            start = end;
            line
        });
        let (mut batch, mut number): (SmallVec<[&[u8]; 32]>, _) = (SmallVec::new(), 0);
        loop {
            batch.clear();
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && batch.len() < BATCH_LINES
                && let Some(line) = lines.next()
            {
                bytes += line.len();
                batch.push(line);
            }
            if batch.is_empty() {
                return;
            }
            if !self.scan_lines(number, &batch, state) {
                for rule in &self.rules {
                    state.limit(rule.rule);
                }
                return;
            }
            number += batch.len();
        }
    }

    /// Runs all rules on lines, of which the first has this number. False if the time was over.
    fn scan_lines(&self, number: usize, lines: &[&[u8]], state: &mut State) -> bool {
        let ends = match self.table.screen_together(lines, state) {
            Screened::Ends(ends) => Some(ends),
            Screened::OneByOne => None,
            Screened::OutOfTime => return false,
        };
        let mut left: Option<SmallVec<[&[End]; 2]>> = ends
            .as_ref()
            .map(|screens| screens.iter().map(Vec::as_slice).collect());
        for (of_batch, line) in (0u32..).zip(lines) {
            let is_first = number == 0 && of_batch == 0;
            let candidate = |state: &mut State, owner: Owner, end: usize| {
                if let Some(rule) = self.rules.get(owner.pattern as usize)
                    && !(is_first && rule.skips_first)
                {
                    let what = (rule.rule, &rule.pattern, rule.hits_max);
                    state.candidate(what, line, owner, end);
                }
            };
            if let Some(screens) = &mut left {
                state.begin_text();
                for ends in screens {
                    while let Some((end, rest)) = ends.split_first()
                        && end.text == of_batch
                    {
                        candidate(state, end.owner, end.place as usize);
                        *ends = rest;
                    }
                }
            } else if !self.table.screen(line, state, candidate) {
                return false;
            }
            for index in self.table.others(line) {
                if let Some(rule) = self.rules.get(index as usize)
                    && !(is_first && rule.skips_first)
                {
                    state.count_up_to(rule.rule, &rule.pattern, line, rule.hits_max);
                }
            }
        }
        true
    }
}
