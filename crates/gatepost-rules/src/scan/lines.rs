//! The rules of one view that is a list of lines: body, rawbody, uri; and full, which is one line.

use super::prefilter::Prefilter;
use super::state::{RuleId, State};
use crate::pattern::{Literals, Pattern};

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
    prefilter: Option<Prefilter>,
    /// Rules without a usable literal, by index.
    unfiltered: Vec<u32>,
}

impl LineRules {
    pub(crate) fn new(rules: Vec<LineRule>) -> Self {
        let literals: Vec<Option<Literals>> =
            rules.iter().map(|rule| rule.pattern.literals()).collect();
        let indexed = || (0u32..).zip(&literals);
        let known = indexed().filter_map(|(index, texts)| Some((index, texts.as_ref()?)));
        let prefilter = Prefilter::new(known);
        let unfiltered = indexed()
            .filter(|(_, texts)| texts.is_none())
            .map(|(index, _)| index)
            .collect();
        Self {
            rules,
            prefilter,
            unfiltered,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn rules(&self) -> &[LineRule] {
        &self.rules
    }

    /// Runs all rules on lines that lie end to end in `text`.
    pub(crate) fn scan(&self, text: &[u8], ends: &[usize], state: &mut State) {
        if let Some(prefilter) = &self.prefilter {
            let mut pass = Pass {
                rules: self,
                text,
                ends,
                line: 0,
                line_start: 0,
                candidates: Vec::new(),
                is_candidate: vec![false; self.rules.len()],
                state: &mut *state,
            };
            prefilter.search(text, |rule, start, end| pass.literal(rule, start, end));
            pass.confirm();
        }
        let mut line_start = 0;
        for (line, &end) in ends.iter().enumerate() {
            let content = text.get(line_start..end).unwrap_or_default();
            for &rule in &self.unfiltered {
                self.run(rule, line, content, state);
            }
            line_start = end;
        }
    }

    /// Runs one rule on one line.
    fn run(&self, index: u32, line: usize, content: &[u8], state: &mut State) {
        let Some(rule) = self.rules.get(index as usize) else {
            return;
        };
        let seen = state.value(rule.rule) as u32;
        if seen >= rule.hits_max || (line == 0 && rule.skips_first) {
            return;
        }
        state.count(rule.rule, &rule.pattern, content, rule.hits_max - seen);
    }
}

/// One pass of the prefilter over a view. Candidates are confirmed on the line where a literal
/// of theirs stood, and nowhere else.
struct Pass<'p> {
    rules: &'p LineRules,
    text: &'p [u8],
    ends: &'p [usize],
    line: usize,
    line_start: usize,
    candidates: Vec<u32>,
    is_candidate: Vec<bool>,
    state: &'p mut State,
}

impl Pass<'_> {
    /// Literals come in order of their ends. False ends the pass.
    fn literal(&mut self, rule: u32, start: usize, end: usize) -> bool {
        while self.line_end() < end {
            self.confirm();
            self.line_start = self.line_end();
            self.line += 1;
            if self.line >= self.ends.len() {
                return false;
            }
        }
        // A literal across the end of a line stands in neither.
        if start < self.line_start {
            return true;
        }
        if let Some(is_candidate) = self.is_candidate.get_mut(rule as usize)
            && !*is_candidate
        {
            *is_candidate = true;
            self.candidates.push(rule);
        }
        true
    }

    fn line_end(&self) -> usize {
        self.ends.get(self.line).copied().unwrap_or(usize::MAX)
    }

    fn confirm(&mut self) {
        let end = self.line_end().min(self.text.len());
        let content = self.text.get(self.line_start..end).unwrap_or_default();
        for rule in self.candidates.drain(..) {
            if let Some(is_candidate) = self.is_candidate.get_mut(rule as usize) {
                *is_candidate = false;
            }
            self.rules.run(rule, self.line, content, self.state);
        }
    }
}
