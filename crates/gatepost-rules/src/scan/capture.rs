//! Rules whose patterns contain texts that other rules captured.
//!
//! The capturing rules run here a second time, for their groups alone: they are few, and all other rules keep
//! engines without capture groups.

use std::borrow::Cow;

use super::RuleId;
use super::state::ScanState;
use crate::language::definition::View;
use gatepost_mail::{HeaderSelector, Mail};
use gatepost_pattern::{Captured, Groups, Template};

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
    pub(crate) fn scan(&self, mail: &Mail<'_>, state: &mut ScanState) {
        if self.templates.is_empty() {
            return;
        }
        let mut captured = Captured::new();
        for source in &self.sources {
            let mut left = source.hits_max;
            for text in source.text.texts(mail) {
                if left == 0 {
                    break;
                }
                if state.budget.is_spent_by(text.len()) {
                    self.templates
                        .iter()
                        .for_each(|rule| state.limit(rule.rule));
                    return;
                }
                left -= source.groups.capture(&text, left, &mut captured).min(left);
            }
        }
        if captured.is_empty() {
            return;
        }
        for rule in &self.templates {
            rule.run(&captured, mail, state);
        }
    }
}

impl TemplateRule {
    fn run(&self, captured: &Captured, mail: &Mail<'_>, state: &mut ScanState) {
        let mut texts = self.text.texts(mail);
        texts.retain(|text| self.template.may_match(text, captured));
        if texts.is_empty() && !self.negated {
            return;
        }
        // A value that makes no valid pattern, such as one too long, counts as missing.
        let Some(Ok(pattern)) = self.template.fill(captured) else {
            return;
        };
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
