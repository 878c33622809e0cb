//! Rules whose patterns contain texts that other rules captured.
//!
//! The capturing rules run here before all others, for their groups alone: they are few, and all
//! other rules keep engines without capture groups. The network and reports use what they captured,
//! too.

use std::borrow::Cow;
use std::time::Duration;

use gatepost_mail::{HeaderSelector, Mail};
use gatepost_pattern::{Captured, Groups, Template};

use super::state::ScanState;
use super::time_budget::ScanTimeBudget;
use crate::RuleId;
use crate::language::definition::View;
use crate::tags::message;

/// Texts of so many bytes in total are searched without machine code, which takes as long to make
/// as they to search.
const FEW_BYTES_MAX: usize = 2048;

/// The part of a message that a pattern matches.
#[derive(Debug)]
pub(crate) enum MatchedText {
    /// A field of the head.
    Field(HeaderSelector),
    /// The lines of a view, perhaps without the first one, the subject.
    Lines { view: View, skips_first: bool },
}

/// A pattern with groups that templates refer to.
#[derive(Debug)]
pub(crate) struct CaptureSource {
    pub(crate) text: MatchedText,
    pub(crate) groups: Groups,
    pub(crate) hits_max: u32,
}

/// A rule with a template.
#[derive(Debug)]
pub(crate) struct TemplateRule {
    pub(crate) rule: RuleId,
    pub(crate) text: MatchedText,
    pub(crate) template: Template,
    pub(crate) negated: bool,
    pub(crate) hits_max: u32,
}

/// All capturing patterns and all templates.
#[derive(Debug, Default)]
pub(crate) struct CaptureRules {
    pub(crate) sources: Vec<CaptureSource>,
    pub(crate) templates: Vec<TemplateRule>,
}

impl MatchedText {
    fn texts<'m>(&self, mail: &'m Mail<'_>) -> Vec<Cow<'m, [u8]>> {
        let (view, skips_first) = match self {
            Self::Field(selector) => return mail.header(selector).into_iter().collect(),
            Self::Lines { view, skips_first } => (view, usize::from(*skips_first)),
        };
        let lines = match view {
            View::Body => mail.body(),
            View::RawBody => mail.rawbody(),
            View::Uri => mail.uris(),
            View::Header | View::Full => return vec![Cow::Borrowed(mail.full())],
        };
        lines.iter().skip(skips_first).map(Cow::Borrowed).collect()
    }
}

impl CaptureRules {
    /// The texts that groups capture in a message, and the values of its tags that templates name;
    /// `None` if that takes more than `time`.
    pub(crate) fn capture(&self, mail: &Mail<'_>, time: Duration) -> Option<Captured> {
        let mut captured = Captured::new();
        if self.sources.is_empty() && self.templates.is_empty() {
            return Some(captured);
        }
        let mut budget = ScanTimeBudget::new(time);
        for source in &self.sources {
            let mut left = source.hits_max;
            for text in source.text.texts(mail) {
                if left == 0 {
                    break;
                }
                if budget.is_spent_by(text.len()) {
                    return None;
                }
                left -= source.groups.capture(&text, left, &mut captured).min(left);
            }
        }
        for name in self.templates.iter().flat_map(|rule| rule.template.names()) {
            if !captured.contains_key(name)
                && let Some(values) = message::values_of(name, mail)
            {
                let values = values.into_iter().map(String::into_bytes);
                captured.insert(name.to_owned(), values.collect());
            }
        }
        Some(captured)
    }

    /// Runs the templates with the texts that [`CaptureRules::capture`] found.
    pub(crate) fn scan(&self, captured: Option<&Captured>, mail: &Mail<'_>, state: &mut ScanState) {
        for rule in &self.templates {
            match captured {
                Some(captured) => rule.run(captured, mail, state),
                None => state.limit(rule.rule),
            }
        }
    }
}

impl TemplateRule {
    fn run(&self, captured: &Captured, mail: &Mail<'_>, state: &mut ScanState) {
        let is_missing = |name| captured.get(name).is_none_or(Vec::is_empty);
        if self.template.names().any(is_missing) {
            return;
        }
        let mut texts = self.text.texts(mail);
        texts.retain(|text| self.template.may_match(text, captured));
        if texts.is_empty() && !self.negated {
            return;
        }
        // A value that makes no valid pattern, such as one too long, counts as missing.
        let Some(Ok(mut pattern)) = self.template.fill(captured) else {
            return;
        };
        if texts.iter().map(|text| text.len()).sum::<usize>() <= FEW_BYTES_MAX {
            pattern = pattern.single_use();
        }
        if self.negated {
            let limits = state.limited.len();
            let found = texts
                .iter()
                .any(|text| state.find(self.rule, &pattern, text, 0).is_some());
            if !found && state.limited.len() == limits {
                state.hit(self.rule, 1.0);
            }
            return;
        }
        for text in &texts {
            let seen = state.value(self.rule) as u32;
            if seen >= self.hits_max {
                break;
            }
            state.count(self.rule, &pattern, text, self.hits_max - seen);
        }
    }
}
