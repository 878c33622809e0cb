//! The rules of header fields: `header` with a pattern or `exists:`, and `mimeheader`.

use std::borrow::Cow;

use super::state::{RuleId, State};
use super::table::{Table, Worth};
use crate::mail::{HeaderSelector, Mail};
use crate::pattern::Pattern;

const SCREENED: Worth = Worth {
    patterns_min: 2,
    bits_min: 2.5,
    loop_chance_max: 0.995,
};

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
    table: Table,
    /// Rules that may hit where the message has no such field, by index.
    of_missing: Vec<u32>,
}

impl FieldRules {
    pub(crate) fn new(
        selector: HeaderSelector,
        mut rules: Vec<FieldRule>,
        exists: Vec<RuleId>,
    ) -> Self {
        // Perl matches a missing field as an empty text.
        let of_missing = (0u32..)
            .zip(&rules)
            .filter(|(_, rule)| {
                rule.negated || rule.if_unset.is_some() || rule.pattern.min_len() == 0
            })
            .map(|(index, _)| index)
            .collect();
        Self {
            selector,
            table: table(&mut rules),
            rules,
            exists,
            of_missing,
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        self.rules.iter().map(|rule| (rule.rule, &rule.pattern))
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut State) {
        if let Some(text) = mail.header(&self.selector) {
            for &rule in &self.exists {
                state.hit(rule, 1.0);
            }
            run_on(&self.rules, &self.table, &text, state);
            return;
        }
        for &index in &self.of_missing {
            if let Some(rule) = self.rules.get(index as usize) {
                rule.run(rule.if_unset.as_deref().unwrap_or_default(), state);
            }
        }
    }
}

fn table(rules: &mut [FieldRule]) -> Table {
    let patterns = rules
        .iter_mut()
        .map(|rule| (&mut rule.pattern, rule.negated));
    Table::new(patterns, SCREENED)
}

/// Runs rules on a field's text.
fn run_on(rules: &[FieldRule], table: &Table, text: &[u8], state: &mut State) {
    let in_time = table.screen(text, state, |state, owner, end| {
        if let Some(rule) = rules.get(owner.pattern as usize) {
            let what = (rule.rule, &rule.pattern, rule.hits_max);
            state.candidate(what, text, owner, end);
        }
    });
    if !in_time {
        for rule in rules {
            state.limit(rule.rule);
        }
        return;
    }
    for index in table.others(text) {
        if let Some(rule) = rules.get(index as usize) {
            rule.run(text, state);
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
            state.count_up_to(self.rule, &self.pattern, text, self.hits_max);
        }
    }
}

/// The `mimeheader` rules of one field that hit if any part's field matches.
#[derive(Debug)]
pub(crate) struct MimeRules {
    selector: HeaderSelector,
    rules: Vec<FieldRule>,
    table: Table,
}

impl MimeRules {
    pub(crate) fn new(selector: HeaderSelector, mut rules: Vec<FieldRule>) -> Self {
        Self {
            selector,
            table: table(&mut rules),
            rules,
        }
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        self.rules.iter().map(|rule| (rule.rule, &rule.pattern))
    }

    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut State) {
        for value in mail.mime_headers(&self.selector) {
            run_on(&self.rules, &self.table, &value, state);
        }
    }
}

/// A `mimeheader` rule that counts, negates or joins, or looks at some parts only.
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
    /// Whether the rule only asks if any part's field matches.
    pub(crate) fn is_simple(&self) -> bool {
        let field = &self.field;
        !self.concat && self.range.is_none() && !field.negated && field.hits_max == 1
    }

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
