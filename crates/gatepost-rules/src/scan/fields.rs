//! The rules of header fields: `header` with a pattern or `exists:`, and `mimeheader`.

use std::borrow::Cow;

use super::prefilter::Prefilter;
use super::state::{RuleId, State};
use crate::mail::{HeaderSelector, Mail};
use crate::pattern::{Literals, Pattern};

/// Rules of one field from which on a prefilter is worth having.
const PREFILTER_RULES_MIN: usize = 4;

/// A rule that compares a field with a pattern.
#[derive(Debug)]
pub(crate) struct FieldRule {
    pub(crate) rule: RuleId,
    pub(crate) pattern: Pattern,
    pub(crate) negated: bool,
    /// What stands for the field where the message has none.
    pub(crate) if_unset: Option<Vec<u8>>,
    pub(crate) hits_max: u32,
}

/// All rules of one field.
#[derive(Debug)]
pub(crate) struct FieldRules {
    selector: HeaderSelector,
    rules: Vec<FieldRule>,
    exists: Vec<RuleId>,
    prefilter: Option<Prefilter>,
    unfiltered: Vec<u32>,
}

impl FieldRules {
    pub(crate) fn new(
        selector: HeaderSelector,
        rules: Vec<FieldRule>,
        exists: Vec<RuleId>,
    ) -> Self {
        let literals: Vec<Option<Literals>> = rules
            .iter()
            .map(|rule| {
                if rules.len() >= PREFILTER_RULES_MIN {
                    rule.pattern.literals()
                } else {
                    None
                }
            })
            .collect();
        let indexed = || (0u32..).zip(&literals);
        let known = indexed().filter_map(|(index, texts)| Some((index, texts.as_ref()?)));
        let prefilter = Prefilter::new(known);
        let unfiltered = indexed()
            .filter(|(_, texts)| texts.is_none())
            .map(|(index, _)| index)
            .collect();
        Self {
            selector,
            rules,
            exists,
            prefilter,
            unfiltered,
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        self.rules.iter().map(|rule| (rule.rule, &rule.pattern))
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut State) {
        let value = mail.header(&self.selector);
        if value.is_some() {
            for &rule in &self.exists {
                state.hit(rule, 1.0);
            }
        }
        let Some(text) = value else {
            // Perl matches a missing field as an empty text.
            for rule in &self.rules {
                rule.run(rule.if_unset.as_deref().unwrap_or_default(), state);
            }
            return;
        };
        let Some(prefilter) = &self.prefilter else {
            self.rules.iter().for_each(|rule| rule.run(&text, state));
            return;
        };
        let mut is_candidate = vec![false; self.rules.len()];
        prefilter.search(&text, |rule, _, _| {
            if let Some(is_candidate) = is_candidate.get_mut(rule as usize) {
                *is_candidate = true;
            }
            true
        });
        for &rule in &self.unfiltered {
            if let Some(is_candidate) = is_candidate.get_mut(rule as usize) {
                *is_candidate = true;
            }
        }
        for (rule, is_candidate) in self.rules.iter().zip(is_candidate) {
            if is_candidate {
                rule.run(&text, state);
            } else if rule.negated {
                state.hit(rule.rule, 1.0);
            }
        }
    }
}

impl FieldRule {
    fn run(&self, text: &[u8], state: &mut State) {
        if self.negated {
            let limits = state.limited.len();
            let found = state.find(self.rule, &self.pattern, text, 0);
            // A search that gave up proves nothing.
            if found.is_none() && state.limited.len() == limits {
                state.hit(self.rule, 1.0);
            }
        } else {
            state.count(self.rule, &self.pattern, text, self.hits_max);
        }
    }
}

/// A `mimeheader` rule, which looks at a field of each part.
#[derive(Debug)]
pub(crate) struct MimeRule {
    pub(crate) selector: HeaderSelector,
    pub(crate) field: FieldRule,
    /// Joins the fields of all parts.
    pub(crate) concat: bool,
    /// The parts looked at, first and last, counted from 1.
    pub(crate) range: Option<(u32, u32)>,
}

impl MimeRule {
    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut State) {
        let (first, last) = self.range.unwrap_or((0, u32::MAX));
        let values = mail.mime_headers(&self.selector);
        let mut values: Vec<Cow<'_, [u8]>> = (1u32..)
            .zip(values)
            .filter(|(part, _)| (first..=last).contains(part))
            .map(|(_, value)| value)
            .collect();
        if self.concat {
            values = vec![join_lines(&values)];
        }
        let field = &self.field;
        if field.negated {
            let limits = state.limited.len();
            let found = values
                .iter()
                .any(|value| state.find(field.rule, &field.pattern, value, 0).is_some());
            if !found && state.limited.len() == limits {
                state.hit(field.rule, 1.0);
            }
            return;
        }
        for value in &values {
            // The first part that matches decides; its matches are what is counted.
            state.count(field.rule, &field.pattern, value, field.hits_max);
            if state.value(field.rule) > 0.0 {
                return;
            }
        }
    }
}

/// Joins texts, each ended by a line feed.
fn join_lines(values: &[Cow<'_, [u8]>]) -> Cow<'static, [u8]> {
    let mut joined = Vec::new();
    for value in values {
        joined.extend_from_slice(value);
        if !value.ends_with(b"\n") {
            joined.push(b'\n');
        }
    }
    Cow::Owned(joined)
}
