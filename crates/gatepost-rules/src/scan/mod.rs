//! Runs all rules on one message.
//!
//! `compile` sorts the rules of a folder by the view that they match; a [`RuleProgram`] then
//! makes one pass per view: a prefilter finds the candidate rules, whose patterns verify them. Eval
//! functions run, and metas are computed last.

mod capture;
mod clock;
mod context;
#[cfg(test)]
mod differential;
mod fields;
mod filter;
mod lines;
mod meta;
mod repetition;
mod state;
mod time_budget;

pub use context::ScanContext;

use std::time::Duration;

use gatepost_learning::Reputation;
use gatepost_learning::bayes::Interval;
use gatepost_pattern::{Captured, Pattern};

use crate::RuleId;
use crate::eval::{EvalCall, ScannedMail};
use crate::network::NetworkRule;
use crate::profile::{self, RunCause, ScanStage};
pub(crate) use capture::{CaptureRules, CaptureSource, MatchedText, TemplateRule};
pub(crate) use fields::{FieldRule, FieldRules, MimeRule, MimeRules};
pub(crate) use lines::{LineRule, LineRules};
pub(crate) use meta::{MetaOperand, MetaRule, MetaRules, NearMeta};
pub(crate) use state::ScanState;
pub(crate) use time_budget::ScanTimeBudget;

/// The cost of an eval function in steps: the clock is read for every eighth function.
const EVAL_COST: u32 = 8;

/// A rule that calls an eval function.
pub(crate) struct EvalRule {
    pub(crate) rule: RuleId,
    pub(crate) evaluation: EvalCall,
}

/// All rules of a set, sorted by the view that they match.
#[derive(Default)]
pub(crate) struct RuleProgram {
    /// The number of rules.
    pub(crate) rules: usize,
    pub(crate) fields: Vec<FieldRules>,
    pub(crate) body: LineRules,
    pub(crate) raw_body: LineRules,
    pub(crate) full: LineRules,
    pub(crate) uris: LineRules,
    pub(crate) mime: Vec<MimeRules>,
    pub(crate) special_mime: Vec<MimeRule>,
    pub(crate) header_evals: Vec<EvalRule>,
    pub(crate) other_evals: Vec<EvalRule>,
    /// Rules whose patterns contain captured texts.
    pub(crate) captures: CaptureRules,
    /// Queries to the network.
    pub(crate) network: Vec<NetworkRule>,
    pub(crate) metas: MetaRules,
    /// Rules on the probability that Bayes gives.
    pub(crate) bayes: Vec<(RuleId, Interval)>,
    /// The rule that adjusts the score by the sender's average, after all others.
    pub(crate) reputation: Option<(RuleId, Reputation)>,
}

impl RuleProgram {
    /// All patterns with their rules.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (RuleId, &Pattern)> {
        let lines = [&self.body, &self.raw_body, &self.full, &self.uris];
        let of_lines = lines.into_iter().flat_map(LineRules::rules);
        let of_fields = self.fields.iter().flat_map(FieldRules::patterns);
        let of_mime = self.mime.iter().flat_map(MimeRules::patterns);
        let of_special_mime = self.special_mime.iter().map(|rule| &rule.field);
        of_fields
            .chain(of_lines.map(|rule| (rule.rule, &rule.pattern)))
            .chain(of_mime)
            .chain(of_special_mime.map(|field| (field.rule, &field.pattern)))
    }

    /// Runs the rules that need the message alone, for at most `time`. `probability` is the result
    /// of Bayes, `captured` that of [`CaptureRules::capture`]. [`RuleProgram::run_metas`] must
    /// follow.
    pub(crate) fn run(
        &self,
        mail: &ScannedMail<'_>,
        probability: Option<f64>,
        captured: Option<&Captured>,
        time: Duration,
        context: &ScanContext<'_>,
    ) -> ScanState {
        let mut state = ScanState::new(self.rules, ScanTimeBudget::new(time), context.explain);
        for (rule, interval) in &self.bayes {
            if probability.is_some_and(|probability| interval.contains(probability)) {
                state.hit(*rule, 1.0);
            }
        }
        profile::enter(ScanStage::HeaderTests);
        for fields in &self.fields {
            fields.scan(mail, &mut state);
        }
        profile::enter(ScanStage::Functions);
        run_evals(&self.header_evals, mail, &mut state);
        profile::enter(ScanStage::Unfiltered);
        if !self.body.is_empty() {
            let body = mail.body();
            self.body.scan(body.text(), body.ends(), &mut state);
        }
        if !self.uris.is_empty() {
            let uris = mail.uris();
            self.uris.scan(uris.text(), uris.ends(), &mut state);
        }
        profile::enter(ScanStage::HeaderTests);
        for rules in &self.mime {
            rules.scan(mail, &mut state);
        }
        for rule in &self.special_mime {
            rule.scan(mail, &mut state);
        }
        profile::enter(ScanStage::Functions);
        run_evals(&self.other_evals, mail, &mut state);
        profile::enter(ScanStage::Unfiltered);
        if !self.raw_body.is_empty() {
            let raw_body = mail.rawbody();
            self.raw_body
                .scan(raw_body.text(), raw_body.ends(), &mut state);
        }
        if !self.full.is_empty() {
            let full = mail.full();
            self.full.scan(full, &[full.len()], &mut state);
        }
        profile::enter(ScanStage::Captures);
        self.captures.scan(captured, mail, &mut state);
        state
    }

    /// Computes the metas, when all other rules have their values.
    pub(crate) fn run_metas(&self, state: &mut ScanState) {
        self.metas.scan(state);
    }
}

fn run_evals(evals: &[EvalRule], mail: &ScannedMail<'_>, state: &mut ScanState) {
    for eval in evals {
        // The views that a function needs may be made here, which can take long.
        if state.budget.is_spent(EVAL_COST) {
            state.limit(eval.rule);
            continue;
        }
        profile::timed(eval.rule, RunCause::Always, || {
            let value = eval.evaluation.run(mail);
            if value > 0 {
                state.hit(eval.rule, f64::from(value));
            }
            value > 0
        });
    }
}
