//! Meta rules: expressions over other rules.
//!
//! A meta is computed after all rules that it names, so the compiler sorts metas by their
//! dependencies. One peculiarity of SpamAssassin is kept: a meta with score 0 is never *settled*
//! when it would hit, so metas which name it are never computed ([`MetaOutcome`]).

use super::state::ScanState;
use crate::RuleId;
use crate::language::expression::Expression;

/// The usual number of metas of a message that differ from their value at rest.
const CHANGED_USUAL: usize = 64;

/// The rule that a name in a meta refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaOperand {
    /// A rule that runs.
    Rule(RuleId),
    /// Another meta, by its index in the order.
    Meta(u32),
    /// A rule that does not run: 0.
    Never,
}

/// A meta rule.
#[derive(Debug)]
pub(crate) struct MetaRule {
    pub(crate) rule: RuleId,
    pub(crate) expression: Expression<MetaOperand>,
    /// Whether its score is 0, so that it never hits, and its value only exists if it is 0.
    pub(crate) is_silent: bool,
    /// Whether it can never be computed, because something it names never is.
    pub(crate) is_blocked: bool,
}

/// All metas, each after those it names.
///
/// Nearly all rules do not hit a message. So the value of each meta *at rest*, when no rule hits,
/// is computed once; for a message only those metas are computed that name a rule whose value
/// differs.
#[derive(Debug, Default)]
pub(crate) struct MetaRules {
    rules: Vec<MetaRule>,
    /// The value of each meta when no rule hits.
    at_rest: Vec<MetaOutcome>,
    /// The indices of metas that hit when no rule hits.
    hitting_at_rest: Vec<u32>,
    /// By rule, and by meta: the indices of the metas that name it.
    naming_rule: Vec<Vec<u32>>,
    naming_meta: Vec<Vec<u32>>,
    /// By meta: the indices of the metas that it names.
    named_metas: Vec<Box<[u32]>>,
}

/// Whether a meta has a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MetaOutcome {
    Value(f64),
    Never,
}

impl MetaOutcome {
    fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Never => None,
        }
    }

    fn is_hit(self) -> bool {
        self.value().is_some_and(|value| value != 0.0)
    }
}

impl MetaRules {
    pub(crate) fn new(mut rules: Vec<MetaRule>) -> Self {
        let mut metas = Self {
            at_rest: Vec::with_capacity(rules.len()),
            naming_meta: vec![Vec::new(); rules.len()],
            ..Self::default()
        };
        for (place, meta) in (0u32..).zip(&mut rules) {
            let mut named_metas = Vec::new();
            for operand in meta.expression.names() {
                match *operand {
                    MetaOperand::Rule(rule) => {
                        let rule = rule as usize;
                        if rule >= metas.naming_rule.len() {
                            metas.naming_rule.resize_with(rule + 1, Vec::new);
                        }
                        metas.naming_rule[rule].push(place);
                    }
                    MetaOperand::Meta(other) => {
                        if let Some(naming) = metas.naming_meta.get_mut(other as usize) {
                            naming.push(place);
                        }
                        named_metas.push(other);
                    }
                    MetaOperand::Never => {}
                }
            }
            let expression = std::mem::replace(&mut meta.expression, Expression::EMPTY);
            meta.expression = expression.with_shortcuts();
            let at_rest = |meta: u32| metas.at_rest.get(meta as usize)?.value();
            let outcome = meta.compute(at_rest, &named_metas, |_| 0.0);
            metas.named_metas.push(named_metas.into());
            if outcome.is_hit() {
                metas.hitting_at_rest.push(place);
            }
            metas.at_rest.push(outcome);
        }
        metas.rules = rules;
        metas
    }

    pub(crate) fn scan(&self, state: &mut ScanState) {
        for (meta, value) in self.hits(state) {
            state.hit(meta, value);
        }
    }

    /// The metas that hit, and their values, by the values of all other rules.
    pub(crate) fn hits(&self, state: &ScanState) -> Vec<(RuleId, f64)> {
        let mut hits = Vec::new();
        // The metas whose value differs from that at rest, by index: few, so the values at rest
        // need not be copied for each message.
        let mut changed: Vec<(u32, MetaOutcome)> = Vec::with_capacity(CHANGED_USUAL);
        let mut due = MetaQueue::new(self.rules.len());
        due.add(&self.hitting_at_rest);
        for rule in &state.hits {
            let naming = self.naming_rule.get(*rule as usize);
            due.add(naming.map_or(&[][..], Vec::as_slice));
        }
        while let Some(place) = due.next() {
            let (Some(meta), Some(known)) = (self.rules.get(place), self.at_rest.get(place)) else {
                continue;
            };
            let named = self.named_metas.get(place).map_or(&[][..], |named| named);
            let settled = |meta: u32| {
                let found = changed.binary_search_by_key(&meta, |(place, _)| *place);
                let changed = found.ok().and_then(|index| changed.get(index));
                let settled = changed.map(|(_, outcome)| outcome);
                settled.or(self.at_rest.get(meta as usize))?.value()
            };
            let outcome = meta.compute(settled, named, |rule| state.value(rule));
            if outcome != *known {
                due.add(self.naming_meta.get(place).map_or(&[][..], Vec::as_slice));
                changed.push((place as u32, outcome));
            }
            if let MetaOutcome::Value(value) = outcome
                && value != 0.0
            {
                hits.push((meta.rule, value));
            }
        }
        hits
    }
}

/// Indices of metas to be computed, the lowest first. Added indices are higher than those taken
/// before.
struct MetaQueue {
    words: Vec<u64>,
    word: usize,
}

impl MetaQueue {
    fn new(places: usize) -> Self {
        Self {
            words: vec![0; places.div_ceil(64)],
            word: 0,
        }
    }

    fn add(&mut self, places: &[u32]) {
        for &place in places {
            if let Some(word) = self.words.get_mut(place as usize / 64) {
                *word |= 1 << (place % 64);
            }
        }
    }

    fn next(&mut self) -> Option<usize> {
        loop {
            let word = self.words.get_mut(self.word)?;
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.word * 64 + bit);
            }
            self.word += 1;
        }
    }
}

impl MetaRule {
    /// `settled` returns the value of a meta, if it has one. `named` are the metas in the
    /// expression: if one of them is never computed, this meta is not either.
    fn compute(
        &self,
        settled: impl Fn(u32) -> Option<f64>,
        named: &[u32],
        value: impl Fn(RuleId) -> f64,
    ) -> MetaOutcome {
        if self.is_blocked || named.iter().any(|&meta| settled(meta).is_none()) {
            return MetaOutcome::Never;
        }
        let sum = self.expression.evaluate(|operand| match *operand {
            MetaOperand::Never => 0.0,
            MetaOperand::Rule(rule) => value(rule),
            MetaOperand::Meta(index) => settled(index).unwrap_or(0.0),
        });
        if self.is_silent && sum != 0.0 {
            return MetaOutcome::Never;
        }
        // A hit counts at least once, even if the sum is negative.
        MetaOutcome::Value(if sum < 0.0 { 1.0 } else { sum })
    }
}

/// A meta that would have hit with one more, or one fewer, hit of another rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearMeta {
    pub(crate) meta: RuleId,
    pub(crate) other: RuleId,
    /// Whether the other rule would have to hit; otherwise it would have to not hit.
    pub(crate) needs_hit: bool,
}

impl MetaRules {
    /// The metas that nearly hit: a rule that they name did, and one change would make them hit.
    pub(crate) fn near(&self, state: &ScanState) -> Vec<NearMeta> {
        let rule_of = |operand: &MetaOperand| match *operand {
            MetaOperand::Rule(rule) => Some(rule),
            MetaOperand::Meta(index) => self.rules.get(index as usize).map(|meta| meta.rule),
            MetaOperand::Never => None,
        };
        let mut near = Vec::new();
        for meta in &self.rules {
            let names = || meta.expression.names().filter_map(rule_of);
            let has_part = names().any(|rule| state.value(rule) != 0.0);
            if meta.is_silent || meta.is_blocked || !has_part || state.value(meta.rule) != 0.0 {
                continue;
            }
            let change = names().find(|&changed| {
                let value = meta.expression.evaluate(|operand| match rule_of(operand) {
                    Some(rule) if rule == changed => f64::from(u8::from(state.value(rule) == 0.0)),
                    Some(rule) => state.value(rule),
                    None => 0.0,
                });
                value != 0.0
            });
            if let Some(other) = change {
                near.push(NearMeta {
                    meta: meta.rule,
                    other,
                    needs_hit: state.value(other) == 0.0,
                });
            }
        }
        near
    }
}
