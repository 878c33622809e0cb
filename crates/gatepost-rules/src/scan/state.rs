//! The state of the scan of one message: the hits of each rule so far, and the time left.

use std::cell::Cell;

use gatepost_pattern::{LONG_TEXT_BYTES, LiteralInfo, Pattern, Window};

use super::repetition::PendingRepetitions;
use super::time_budget::ScanTimeBudget;
use crate::RuleId;
use crate::profile::{self, RunCause, ScanStage};

/// Offsets of one text at which a rule is verified; after them all of the text is searched once.
const OFFSETS_MAX: u32 = 511;
/// In place of the number of offsets: all of the text was searched.
const SEARCHED_ALL: u32 = u32::MAX;
/// A wider window is not verified offset by offset: all of the text is searched.
const WINDOW_BYTES_MAX: u32 = 256;
/// Texts after which the tables are replaced; no message has as many texts as numbers are left.
const TEXTS_MAX: u32 = u32::MAX / 2;
/// The longest matched text that is kept.
const MATCHED_BYTES_MAX: usize = 200;

/// The values of all rules for one message.
#[derive(Debug)]
pub(crate) struct ScanState {
    tables: RuleTables,
    rounds: PendingRepetitions,
    /// Rules with a value, in the order in which they hit.
    pub(crate) hits: Vec<RuleId>,
    /// Rules that ran into a limit.
    pub(crate) limited: Vec<RuleId>,
    /// The text that each rule matched, if the caller wants them.
    pub(crate) matched: Vec<(RuleId, Vec<u8>)>,
    pub(crate) explain: bool,
    pub(crate) budget: ScanTimeBudget,
}

/// The state of each rule. A thread keeps the tables from one message to the next, and resets the
/// few entries that a message changed: to clear all of them for each message would take longer, and
/// fetch them into the cache.
#[derive(Debug, Default)]
struct RuleTables {
    /// By rule: 0, or how often it hit, or the value of a meta.
    values: Vec<f64>,
    /// A bit for each rule with a value, so that the values of most rules are never read.
    valued: Vec<u64>,
    /// The offsets at which each rule was verified in the current text.
    attempts: Vec<VerifiedOffsets>,
    /// The number of the current text, which grows from message to message.
    text: u32,
}

thread_local! {
    /// The tables of the thread's last scan, with all values at 0.
    static SPARE: Cell<Option<RuleTables>> = const { Cell::new(None) };
}

impl RuleTables {
    fn of(rules: usize) -> Self {
        let spare = SPARE.take().filter(|spare| {
            // They are of another rule set, or run out of numbers for texts.
            spare.values.len() == rules && spare.text < TEXTS_MAX
        });
        spare.unwrap_or_else(|| Self {
            values: vec![0.0; rules],
            valued: vec![0; rules.div_ceil(64)],
            attempts: vec![VerifiedOffsets::default(); rules],
            text: 0,
        })
    }
}

/// The positions at which a rule was verified in a text.
#[derive(Debug, Clone, Copy, Default)]
struct VerifiedOffsets {
    text: u32,
    /// The number of offsets, at most [`OFFSETS_MAX`] and those of one window, or [`SEARCHED_ALL`].
    offsets: u32,
    /// The last range of offsets, its end excluded, at which no match starts. Windows overlap, and
    /// no offset is verified twice.
    verified: (u32, u32),
}

impl VerifiedOffsets {
    /// The first offset from `first` to `last` that is not yet verified; all of them count as
    /// verified from now on.
    fn take_unverified(&mut self, first: usize, last: usize) -> Option<usize> {
        let (from, to) = (self.verified.0 as usize, self.verified.1 as usize);
        let (from, first) = if (from..=to).contains(&first) {
            (from, to)
        } else {
            (first, first)
        };
        if first > last {
            return None;
        }
        // Texts that are not long have fewer offsets than a `u32`.
        self.verified = (from as u32, (last + 1) as u32);
        Some(first)
    }
}

impl ScanState {
    pub(crate) fn new(rules: usize, budget: ScanTimeBudget, explain: bool) -> Self {
        Self {
            tables: RuleTables::of(rules),
            rounds: PendingRepetitions::default(),
            hits: Vec::with_capacity(64),
            limited: Vec::new(),
            matched: Vec::new(),
            explain,
            budget,
        }
    }

    /// Adds to a rule's value.
    pub(crate) fn hit(&mut self, rule: RuleId, value: f64) {
        if let Some(known) = self.tables.values.get_mut(rule as usize) {
            if *known == 0.0 {
                self.hits.push(rule);
            }
            *known += value;
            if let Some(valued) = self.tables.valued.get_mut(rule as usize / 64) {
                *valued |= 1 << (rule % 64);
            }
        }
    }

    pub(crate) fn value(&self, rule: RuleId) -> f64 {
        let tables = &self.tables;
        let valued = tables.valued.get(rule as usize / 64);
        if valued.is_none_or(|valued| valued & 1 << (rule % 64) == 0) {
            return 0.0;
        }
        tables.values.get(rule as usize).copied().unwrap_or(0.0)
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

    /// Begins a new text, to which candidates belong from now on.
    pub(crate) fn begin_text(&mut self) {
        self.tables.text += 1;
    }

    /// Verifies a rule in a text in which a required literal of its pattern ends at `end`, up to
    /// `hits_max` hits in all texts.
    pub(crate) fn candidate(
        &mut self,
        what: (RuleId, &Pattern, u32),
        text: &[u8],
        literal: LiteralInfo,
        end: usize,
    ) {
        let _stage = profile::inside(ScanStage::Candidates);
        let literal_end = (end, literal.window);
        if literal.rounds <= 1 {
            self.verify(what, text, literal_end);
            return;
        }
        let rule = (what.0, literal.rounds);
        for literal_end in self.rounds.add(rule, self.tables.text, literal_end) {
            self.verify(what, text, literal_end);
        }
    }

    /// Verifies a rule at the offsets at which a match can start that contains a literal with this
    /// end.
    fn verify(
        &mut self,
        (rule, pattern, hits_max): (RuleId, &Pattern, u32),
        text: &[u8],
        (end, window): (usize, Option<Window>),
    ) {
        let seen = self.value(rule) as u32;
        if seen >= hits_max {
            return;
        }
        let current = self.tables.text;
        let Some(attempts) = self.tables.attempts.get_mut(rule as usize) else {
            return;
        };
        if attempts.text != current {
            *attempts = VerifiedOffsets {
                text: current,
                ..VerifiedOffsets::default()
            };
        }
        if attempts.offsets == SEARCHED_ALL {
            return;
        }
        // To count matches, or to report the first one, they must be found in order. A text with
        // many failed offsets is searched, which takes one pass.
        let is_simple = hits_max == 1
            && !self.explain
            && text.len() <= LONG_TEXT_BYTES
            && attempts.offsets <= OFFSETS_MAX;
        match window {
            Some(window) if is_simple && window.max - window.min <= WINDOW_BYTES_MAX => {
                let Some(last) = end.checked_sub(window.min as usize) else {
                    return;
                };
                let first = end.saturating_sub(window.max as usize);
                let Some(first) = attempts.take_unverified(first, last) else {
                    return;
                };
                if self.budget.is_spent(1) {
                    self.limit(rule);
                    return;
                }
                profile::timed(rule, RunCause::Candidate, || {
                    self.verify_within((rule, pattern), text, first..=last)
                });
            }
            _ => {
                attempts.offsets = SEARCHED_ALL;
                profile::timed(rule, RunCause::Candidate, || {
                    self.count(rule, pattern, text, hits_max - seen);
                    self.value(rule) as u32 > seen
                });
            }
        }
    }

    /// Whether the pattern of a rule matches at one of these offsets.
    fn verify_within(
        &mut self,
        (rule, pattern): (RuleId, &Pattern),
        text: &[u8],
        offsets: std::ops::RangeInclusive<usize>,
    ) -> bool {
        let budget = &mut self.budget;
        let keep_going = |bytes: usize| !budget.is_spent_by(bytes);
        let outcome = pattern.matches_within(text, offsets, keep_going);
        let Ok((matches, tried)) = outcome else {
            self.limit(rule);
            return false;
        };
        if let Some(attempts) = self.tables.attempts.get_mut(rule as usize) {
            attempts.offsets += tried;
        }
        if matches {
            self.hit(rule, 1.0);
        }
        matches
    }

    /// Counts the matches of a rule in one text, up to `hits_max` in all texts.
    pub(crate) fn count_up_to(
        &mut self,
        rule: RuleId,
        pattern: &Pattern,
        text: &[u8],
        hits_max: u32,
    ) {
        let seen = self.value(rule) as u32;
        profile::timed(rule, RunCause::Always, || {
            self.count(rule, pattern, text, hits_max.saturating_sub(seen));
            self.value(rule) as u32 > seen
        });
    }

    /// Counts the matches of a rule in one text, up to `hits_max`, and adds them to its value.
    pub(crate) fn count(&mut self, rule: RuleId, pattern: &Pattern, text: &[u8], hits_max: u32) {
        if hits_max > 1 && !self.explain && pattern.is_literal() {
            if self.budget.is_spent_by(text.len()) {
                self.limit(rule);
            } else {
                let hits = pattern.count_literal(text, hits_max);
                if hits > 0 {
                    self.hit(rule, f64::from(hits));
                }
            }
            return;
        }
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

    /// The first match at or after `start`, within the time of the message.
    pub(crate) fn find(
        &mut self,
        rule: RuleId,
        pattern: &Pattern,
        text: &[u8],
        start: usize,
    ) -> Option<(usize, usize)> {
        if self.budget.is_spent_by(text.len().saturating_sub(start)) {
            self.limit(rule);
            return None;
        }
        let budget = &mut self.budget;
        let keep_going = |bytes: usize| !budget.is_spent_by(bytes);
        if let Ok(found) = pattern.find(text, start, keep_going) {
            return found;
        }
        self.limit(rule);
        None
    }
}

impl Drop for ScanState {
    fn drop(&mut self) {
        let mut tables = std::mem::take(&mut self.tables);
        for &rule in &self.hits {
            if let Some(value) = tables.values.get_mut(rule as usize) {
                *value = 0.0;
            }
        }
        tables.valued.fill(0);
        SPARE.set(Some(tables));
    }
}
