//! Profiles of scans: [`RuleSet::profile`] adds the costs of a message to a [`ScanProfile`].
//!
//! Taking a profile costs time itself, some 50 ns for each run of a rule, and makes the views
//! before the rules that would make them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatepost_pattern::FirstUses;

use super::RuleSet;
use crate::compile::CompiledRuleSet;
use crate::eval::ScannedMail;
use crate::profile::{self, ScanStage};
use crate::scan::ScanState;
use crate::{Report, ScanContext};

/// The cost of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCost {
    /// Its name.
    pub name: Arc<str>,
    /// The time of its pattern or function.
    pub time: Duration,
    /// The number of times that the prefilter made it a candidate.
    pub candidates: u64,
    /// The number of times that a candidate was a match.
    pub confirmed: u64,
    /// The number of times that it ran without a prefilter.
    pub runs: u64,
}

/// The distribution of the time of some scans.
#[derive(Debug, Default)]
pub struct ScanProfile {
    /// The number of messages.
    pub messages: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The bytes of texts that prefilters read.
    pub filtered_bytes: u64,
    /// The work that was done on first use.
    pub first_uses: FirstUses,
    stages: [Duration; ScanStage::COUNT],
    rules: HashMap<Arc<str>, RuleCost>,
}

impl ScanProfile {
    /// The time of each stage, in the order of a scan.
    pub fn stages(&self) -> impl Iterator<Item = (ScanStage, Duration)> {
        ScanStage::ALL.into_iter().zip(self.stages)
    }

    /// The costs of rules, the most expensive first.
    pub fn rules(&self) -> Vec<RuleCost> {
        let mut rules: Vec<RuleCost> = self.rules.values().cloned().collect();
        rules.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        rules
    }

    fn add_rules(&mut self, compiled: &CompiledRuleSet) {
        for (rule, work) in profile::take_rules() {
            let Some(facts) = compiled.facts.get(rule as usize) else {
                continue;
            };
            let name = Arc::clone(&facts.name);
            let cost = self.rules.entry(Arc::clone(&name)).or_insert(RuleCost {
                name,
                time: Duration::ZERO,
                candidates: 0,
                confirmed: 0,
                runs: 0,
            });
            cost.time += work.time;
            cost.candidates += work.candidates;
            cost.confirmed += work.confirmed;
            cost.runs += work.runs;
        }
    }
}

impl RuleSet {
    /// Scans a message as [`RuleSet::scan`] does, and adds its costs to a profile.
    pub fn profile(
        &self,
        message: &[u8],
        context: &ScanContext<'_>,
        total: &mut ScanProfile,
    ) -> Report {
        profile::begin();
        let before = FirstUses::begin_timing();
        let add_rules = |compiled: &CompiledRuleSet, _: &ScanState| total.add_rules(compiled);
        let (report, ()) = self.judge(message, context, add_rules);
        total.first_uses += FirstUses::end_timing(before);
        let recorded = profile::end();
        for (sum, time) in total.stages.iter_mut().zip(recorded.stages) {
            *sum += time;
        }
        total.messages += 1;
        total.bytes += message.len() as u64;
        total.filtered_bytes += recorded.filtered_bytes;
        report
    }
}

/// Makes the views that rules would make on first use, so that their time is their own.
pub(super) fn make_views(mail: &ScannedMail<'_>) {
    if profile::is_on() {
        profile::enter(ScanStage::Mime);
        for part in mail.parts().leaves() {
            let _ = part.decoded();
        }
        profile::enter(ScanStage::Views);
        let _ = (mail.body(), mail.rawbody(), mail.uris(), mail.relays());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RulesSettings;

    const RULES: &str = "body FOUND /cheap watches/i\nbody NOT_FOUND /cheap clocks/i\n\
        body OTHER /cheap [a-w]+ches/i\nbody FOURTH /cheap[ ]houses/i\n\
        body FIFTH /cheap[ ]boats/i\nbody SIXTH /cheap[ ]shoes/i\n\
        header FUNCTION eval:check_for_missing_to_header()\nmeta BOTH FOUND && FUNCTION\n";
    const MESSAGE: &[u8] = b"Subject: x\r\n\r\ncheap watches and cheap cl\r\n";

    #[test]
    fn stages_rules_and_first_uses_are_counted() {
        let (set, problems) =
            RuleSet::from_text("a.cf", RULES.as_bytes(), &RulesSettings::default());
        assert!(problems.is_empty(), "{problems:?}");
        let mut profile = ScanProfile::default();
        let report = set.profile(MESSAGE, &ScanContext::default(), &mut profile);
        let plain = set.scan(MESSAGE, &ScanContext::default());
        assert_eq!(report.symbols(), plain.symbols());
        assert_eq!((profile.messages, profile.bytes), (1, MESSAGE.len() as u64));
        assert!(profile.filtered_bytes > 0);
        assert!(profile.first_uses.transitions.count > 0);
        let rules = profile.rules();
        let of = |name: &str| rules.iter().find(|rule| &*rule.name == name);
        let found = of("FOUND").expect("it was a candidate");
        assert_eq!((found.candidates, found.confirmed, found.runs), (1, 1, 0));
        assert_eq!(of("FUNCTION").map(|rule| rule.runs), Some(1));
        let timed = |stage: ScanStage| {
            profile
                .stages()
                .any(|(of, time)| of == stage && !time.is_zero())
        };
        for stage in [
            ScanStage::Head,
            ScanStage::Prefilter,
            ScanStage::Candidates,
            ScanStage::Report,
        ] {
            assert!(timed(stage), "{}", stage.name());
        }

        // The second message reuses what the first one computed.
        let mut again = ScanProfile::default();
        set.profile(MESSAGE, &ScanContext::default(), &mut again);
        assert_eq!(again.first_uses.transitions.count, 0);
        assert_eq!(again.first_uses.patterns.count, 0);
        // A scan without a profile adds nothing to the next one.
        set.scan(MESSAGE, &ScanContext::default());
        set.profile(MESSAGE, &ScanContext::default(), &mut again);
        assert_eq!(again.messages, 2);
        let found = again.rules();
        let found = found.iter().find(|rule| &*rule.name == "FOUND");
        assert_eq!(found.map(|rule| rule.candidates), Some(2));
    }
}
