//! `header` rules with a pattern or `exists:`, and `mimeheader` rules.

use std::borrow::Cow;

use gatepost_mail::{HeaderSelector, Mail};
use gatepost_pattern::{Pattern, Prefilter, PrefilterThresholds};

use super::filter;
use super::state::ScanState;
use crate::RuleId;

const THRESHOLDS: PrefilterThresholds = PrefilterThresholds {
    patterns_min: 2,
    bits_min: 2.5,
    loop_probability_max: 0.995,
};

/// A rule that compares a field with a pattern.
#[derive(Debug)]
pub(crate) struct FieldRule {
    pub(crate) rule: RuleId,
    pub(crate) pattern: Pattern,
    pub(crate) negated: bool,
    /// The text that replaces the field in a message without it.
    pub(crate) if_unset: Option<Vec<u8>>,
    pub(crate) hits_max: u32,
}

/// All rules of one field.
#[derive(Debug)]
pub(crate) struct FieldRules {
    selector: HeaderSelector,
    rules: Vec<FieldRule>,
    exists: Vec<RuleId>,
    prefilter: Prefilter,
    /// The indices of rules that can hit a message without the field.
    without_field: Vec<u32>,
}

impl FieldRules {
    pub(crate) fn new(
        selector: HeaderSelector,
        mut rules: Vec<FieldRule>,
        exists: Vec<RuleId>,
    ) -> Self {
        let without_field = without_field(&rules);
        Self {
            selector,
            prefilter: prefilter(&mut rules),
            rules,
            exists,
            without_field,
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        self.rules.iter().map(|rule| (rule.rule, &rule.pattern))
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut ScanState) {
        if let Some(text) = mail.header(&self.selector) {
            for &rule in &self.exists {
                state.hit(rule, 1.0);
            }
            run_on(&self.rules, &self.prefilter, &text, state);
            return;
        }
        for &index in &self.without_field {
            if let Some(rule) = self.rules.get(index as usize) {
                rule.run(rule.if_unset.as_deref().unwrap_or_default(), state);
            }
        }
    }
}

/// The indices of rules that can hit without the field: Perl matches a missing field like an empty
/// one.
fn without_field(rules: &[FieldRule]) -> Vec<u32> {
    (0u32..)
        .zip(rules)
        .filter(|(_, rule)| rule.negated || rule.if_unset.is_some() || rule.pattern.min_len() == 0)
        .map(|(index, _)| index)
        .collect()
}

fn prefilter(rules: &mut [FieldRule]) -> Prefilter {
    let patterns = rules
        .iter_mut()
        .map(|rule| (&mut rule.pattern, rule.negated));
    filter::prefilter(patterns, THRESHOLDS)
}

/// Runs rules on a field's text.
fn run_on(rules: &[FieldRule], prefilter: &Prefilter, text: &[u8], state: &mut ScanState) {
    let outcome = filter::candidates(prefilter, text, state, |state, literal, end| {
        if let Some(rule) = rules.get(literal.pattern as usize) {
            let what = (rule.rule, &rule.pattern, rule.hits_max);
            state.candidate(what, text, literal, end);
        }
    });
    if outcome.is_err() {
        for rule in rules {
            state.limit(rule.rule);
        }
        return;
    }
    for index in prefilter.unfiltered_candidates(text) {
        if let Some(rule) = rules.get(index as usize) {
            rule.run(text, state);
        }
    }
}

impl FieldRule {
    fn run(&self, text: &[u8], state: &mut ScanState) {
        if self.negated {
            let limits = state.limited.len();
            let found = state.find(self.rule, &self.pattern, text, 0);
            // A search that gave up does not prove that nothing matches.
            if found.is_none() && state.limited.len() == limits {
                state.hit(self.rule, 1.0);
            }
        } else {
            state.count_up_to(self.rule, &self.pattern, text, self.hits_max);
        }
    }
}

/// The `mimeheader` rules of one field that hit if any part's field matches.
#[derive(Debug)]
pub(crate) struct MimeRules {
    selector: HeaderSelector,
    rules: Vec<FieldRule>,
    prefilter: Prefilter,
    /// The indices of rules that can hit a part without the field.
    without_field: Vec<u32>,
}

impl MimeRules {
    pub(crate) fn new(selector: HeaderSelector, mut rules: Vec<FieldRule>) -> Self {
        Self {
            selector,
            without_field: without_field(&rules),
            prefilter: prefilter(&mut rules),
            rules,
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        self.rules.iter().map(|rule| (rule.rule, &rule.pattern))
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut ScanState) {
        let values = mail.mime_headers(&self.selector);
        for value in values.iter().flatten() {
            run_on(&self.rules, &self.prefilter, value, state);
        }
        if values.iter().all(Option::is_some) {
            return;
        }
        for &index in &self.without_field {
            if let Some(rule) = self.rules.get(index as usize) {
                rule.run(rule.if_unset.as_deref().unwrap_or_default(), state);
            }
        }
    }
}

/// A `mimeheader` rule that counts, negates or concatenates, or matches some parts only.
#[derive(Debug)]
pub(crate) struct MimeRule {
    pub(crate) selector: HeaderSelector,
    pub(crate) field: FieldRule,
    /// The fields of all parts are concatenated.
    pub(crate) concat: bool,
    /// The first and the last part to be matched, counted from 1.
    pub(crate) range: Option<(u32, u32)>,
}

impl MimeRule {
    /// Whether the rule only tests if any part's field matches.
    pub(crate) fn is_simple(&self) -> bool {
        let field = &self.field;
        !self.concat && self.range.is_none() && !field.negated && field.hits_max == 1
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut ScanState) {
        let (first, last) = self.range.unwrap_or((0, u32::MAX));
        let values = mail.mime_headers(&self.selector);
        let unset = self.field.if_unset.as_deref().unwrap_or_default();
        let mut values: Vec<Cow<'_, [u8]>> = (1u32..)
            .zip(values)
            .filter(|(part, _)| (first..=last).contains(part))
            .map(|(_, value)| value.unwrap_or(Cow::Borrowed(unset)))
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
            // Only the matches in the first part that matches are counted.
            state.count_up_to(field.rule, &field.pattern, value, field.hits_max);
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
