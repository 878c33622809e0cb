//! Rules about other rules.
//!
//! A meta is computed once all that it names is known, so the compiler puts metas in the order of
//! their dependencies. One of SpamAssassin's habits is kept: a meta with score 0 is never
//! *settled* when it would hit, so that metas which name it are never computed ([`Settled`]).

use super::state::{RuleId, State};
use crate::language::expression::Expression;

/// What a name in a meta stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A rule that runs.
    Rule(RuleId),
    /// Another meta, by its place in the order.
    Meta(u32),
    /// A rule that does not run: 0.
    Never,
}

/// A meta rule.
#[derive(Debug)]
pub(crate) struct MetaRule {
    pub(crate) rule: RuleId,
    pub(crate) expression: Expression<Operand>,
    /// Whether its score is 0, so that it never hits, and its value only exists if it is 0.
    pub(crate) is_silent: bool,
    /// Whether it can never be computed, because something it names never is.
    pub(crate) is_blocked: bool,
}

/// All metas, each after those it names.
#[derive(Debug, Default)]
pub(crate) struct MetaRules(pub(crate) Vec<MetaRule>);

/// Whether a meta has a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Settled {
    Value(f64),
    Never,
}

impl Settled {
    fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Never => None,
        }
    }
}

impl MetaRules {
    pub(crate) fn scan(&self, state: &mut State) {
        let mut settled: Vec<Settled> = Vec::with_capacity(self.0.len());
        for meta in &self.0 {
            let outcome = meta.compute(&settled, state);
            if let Settled::Value(value) = outcome
                && value != 0.0
            {
                state.hit(meta.rule, value);
            }
            settled.push(outcome);
        }
    }
}

impl MetaRule {
    fn compute(&self, settled: &[Settled], state: &State) -> Settled {
        if self.is_blocked {
            return Settled::Never;
        }
        let mut never = false;
        let value = self.expression.evaluate(|operand| match *operand {
            Operand::Never => 0.0,
            Operand::Rule(rule) => state.value(rule),
            Operand::Meta(index) => {
                let known = settled
                    .get(index as usize)
                    .and_then(|settled| settled.value());
                never |= known.is_none();
                known.unwrap_or(0.0)
            }
        });
        if never || (self.is_silent && value != 0.0) {
            return Settled::Never;
        }
        // A hit counts at least once, whatever the arithmetic gave.
        Settled::Value(if value < 0.0 { 1.0 } else { value })
    }
}

/// A meta that one rule more, or one less, would have made hit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    pub(crate) meta: RuleId,
    pub(crate) other: RuleId,
    /// Whether the other rule would have to hit; otherwise it would have to not hit.
    pub(crate) needs_hit: bool,
}

impl MetaRules {
    /// The metas that nearly hit: something they name did, and one change would do.
    pub(crate) fn near(&self, state: &State) -> Vec<Near> {
        let rule_of = |operand: &Operand| match *operand {
            Operand::Rule(rule) => Some(rule),
            Operand::Meta(index) => self.0.get(index as usize).map(|meta| meta.rule),
            Operand::Never => None,
        };
        let mut near = Vec::new();
        for meta in &self.0 {
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
                near.push(Near {
                    meta: meta.rule,
                    other,
                    needs_hit: state.value(other) == 0.0,
                });
            }
        }
        near
    }
}
