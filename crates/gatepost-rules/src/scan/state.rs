//! What is known of one message while it is scanned.

use std::cell::Cell;

use super::budget::Budget;
use super::rounds::Rounds;
use crate::pattern::{LONG_TEXT_BYTES, Pattern};
use crate::screen::{Owner, Window};

/// A rule's place in the tables of its set.
pub(crate) type RuleId = u32;

/// Places of one text from which a rule is tried before all of the text is searched once.
const PLACES_MAX: u32 = 511;
/// A wider window is not gone through: all of the text is searched.
const WINDOW_BYTES_MAX: u32 = 256;
/// Texts after which their numbers begin anew; no message has as many as are left then.
const TEXTS_MAX: u32 = u32::MAX / 2;
/// The longest text that is kept as what matched.
const MATCHED_BYTES_MAX: usize = 200;

/// The values of all rules for one message.
#[derive(Debug)]
pub(crate) struct State {
    tables: Tables,
    rounds: Rounds,
    /// Rules with a value, in the order in which they got it.
    pub(crate) hits: Vec<RuleId>,
    /// Rules that ran into a limit.
    pub(crate) limited: Vec<RuleId>,
    /// What matched, where that is asked for.
    pub(crate) matched: Vec<(RuleId, Vec<u8>)>,
    pub(crate) explain: bool,
    pub(crate) budget: Budget,
}

/// What is kept for each rule. A thread keeps it from one message to the next, and undoes what a
/// message left in it: that is little, and all of it would be too much to clear for each message, or
/// to fetch into the cache.
#[derive(Debug, Default)]
struct Tables {
    /// By rule: 0, or how often it hit, or the value of a meta.
    values: Vec<f64>,
    /// A bit for each rule that has a value: most have none, and their values are not looked at.
    valued: Vec<u64>,
    /// By rule: in which text it was last tried, and at how many places of it; see [`Tries`].
    tries: Vec<Tries>,
    /// The number of the text that is being looked at. No message before had one as high.
    text: u32,
}

thread_local! {
    /// What the last message's scan left, with all values at 0.
    static SPARE: Cell<Option<Tables>> = const { Cell::new(None) };
}

impl Tables {
    fn of(rules: usize) -> Self {
        let spare = SPARE.take().filter(|spare| {
            // Another set of rules, or the last numbers of texts.
            spare.values.len() == rules && spare.text < TEXTS_MAX
        });
        spare.unwrap_or_else(|| Self {
            values: vec![0.0; rules],
            valued: vec![0; rules.div_ceil(64)],
            tries: vec![Tries::default(); rules],
            text: 0,
        })
    }
}

/// How often a rule was tried in a text.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    text: u32,
    /// More than [`PLACES_MAX`] once all of the text was searched.
    places: u32,
    /// Windows overlap, and no place is tried twice: no match begins from the first of these places
    /// on, before the second.
    tried: (u32, u32),
}

impl Tries {
    /// The first of these places that is still to be tried, with all up to `last`, which count as
    /// tried from now on.
    fn untried(&mut self, first: usize, last: usize) -> Option<usize> {
        let (from, to) = (self.tried.0 as usize, self.tried.1 as usize);
        let (from, first) = if (from..=to).contains(&first) {
            (from, to)
        } else {
            (first, first)
        };
        if first > last {
            return None;
        }
        // Texts that are not long have no more places than this.
        self.tried = (from as u32, (last + 1) as u32);
        Some(first)
    }
}

impl State {
    pub(crate) fn new(rules: usize, budget: Budget, explain: bool) -> Self {
        Self {
            tables: Tables::of(rules),
            rounds: Rounds::default(),
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

    /// Says that candidates are of another text from now on.
    pub(crate) fn begin_text(&mut self) {
        self.tables.text += 1;
    }

    /// Tries a rule in a text in which a fragment of its pattern ended at `end`, up to `hits_max`
    /// hits in all.
    pub(crate) fn candidate(
        &mut self,
        what: (RuleId, &Pattern, u32),
        text: &[u8],
        owner: Owner,
        end: usize,
    ) {
        let place = (end, owner.window);
        if owner.rounds <= 1 {
            self.try_near(what, text, place);
            return;
        }
        for place in self
            .rounds
            .add((what.0, owner.rounds), self.tables.text, place)
        {
            self.try_near(what, text, place);
        }
    }

    /// Tries a rule where a match may hold a fragment that ended at `end`.
    fn try_near(
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
        let Some(tries) = self.tables.tries.get_mut(rule as usize) else {
            return;
        };
        if tries.text != current {
            *tries = Tries {
                text: current,
                ..Tries::default()
            };
        }
        if tries.places > PLACES_MAX {
            return;
        }
        // Whoever counts matches, or wants to see the first one, needs them in order.
        let is_simple = hits_max == 1 && !self.explain && text.len() <= LONG_TEXT_BYTES;
        match window {
            Some(window) if is_simple && window.max - window.min <= WINDOW_BYTES_MAX => {
                let Some(last) = end.checked_sub(window.min as usize) else {
                    return;
                };
                let first = end.saturating_sub(window.max as usize);
                let Some(first) = tries.untried(first, last) else {
                    return;
                };
                if self.budget.is_spent(1) {
                    self.limit(rule);
                    return;
                }
                let budget = &mut self.budget;
                let go_on = |bytes: usize| !budget.is_spent_by(bytes);
                match pattern.begins_at(text, first..=last, go_on) {
                    Ok((begins, tried)) => {
                        tries.places += tried;
                        if begins {
                            self.hit(rule, 1.0);
                        }
                    }
                    Err(_) => self.limit(rule),
                }
            }
            _ => {
                tries.places = PLACES_MAX + 1;
                self.count(rule, pattern, text, hits_max - seen);
            }
        }
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
        self.count(rule, pattern, text, hits_max.saturating_sub(seen));
    }

    /// Counts the matches of a rule in one text, up to `hits_max`, and adds them to its value.
    pub(crate) fn count(&mut self, rule: RuleId, pattern: &Pattern, text: &[u8], hits_max: u32) {
        if hits_max > 1 && !self.explain && pattern.is_plain() {
            if self.budget.is_spent_by(text.len()) {
                self.limit(rule);
            } else {
                let hits = pattern.count_plain(text, hits_max);
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

    /// One search, on the message's time.
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
        let go_on = |bytes: usize| !budget.is_spent_by(bytes);
        if let Ok(found) = pattern.find(text, start, go_on) {
            return found;
        }
        self.limit(rule);
        None
    }
}

impl Drop for State {
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
