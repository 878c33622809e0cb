//! `/spamcheck`: the SpamAssassin rules, and the action for their score.

use std::borrow::Cow;
use std::sync::Arc;

use gatepost_message::{Action, Format, Message, RuleHit, Score, Verdict};
use gatepost_rules::{PendingScan, Report, RuleSet, ScanContext, ScanProgress};
use serde::{Deserialize, Serialize};

use crate::deferred_rules::DeferredRules;
use crate::procedure::{
    Needs, PendingJudgement, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure,
    ProcedureResult, Wake,
};

/// The most rules that a reason names; the hits and the journal have all of them.
const RULES_IN_REASON: usize = 12;

/// `[procedure."/spamcheck"]`: thresholds of scores. The highest threshold that a message's score
/// reaches determines the action; below the lowest it is accepted.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct SpamcheckSettings {
    /// The action for spam: for a message whose score reaches the rules' own `required_score`.
    #[serde(with = "crate::text_values")]
    pub action: Action,
    /// The score from which a message is tagged.
    pub tag: Option<f64>,
    /// The score from which it is quarantined.
    pub quarantine: Option<f64>,
    /// The score from which it is dropped.
    pub drop: Option<f64>,
    /// The score from which it is rejected.
    pub reject: Option<f64>,
    /// The action for a message of which limits prevented a complete judgement.
    pub given_up: GivenUpAction,
}

/// The action for a message of which limits prevented a complete judgement.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum GivenUpAction {
    /// The score decides; a rule reports the limit.
    #[default]
    Score,
    /// The message is deferred, unless its score is enough to withhold it from its readers.
    Defer,
}

impl Default for SpamcheckSettings {
    fn default() -> Self {
        Self {
            action: Action::Reject,
            tag: None,
            quarantine: None,
            drop: None,
            reject: None,
            given_up: GivenUpAction::default(),
        }
    }
}

impl SpamcheckSettings {
    fn action_at(&self, score: Score) -> Action {
        let rungs = [
            (Some(score.required), self.action),
            (self.tag, Action::Tag),
            (self.quarantine, Action::Quarantine),
            (self.drop, Action::Drop),
            (self.reject, Action::Reject),
        ];
        rungs
            .into_iter()
            .filter_map(|(from, action)| Some((from?, action)))
            .filter(|(from, _)| score.value >= *from)
            .max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))
            .map_or(Action::Accept, |(_, action)| action)
    }

    /// The action for a report, and whether the incomplete judgement decided it.
    fn action(&self, score: Score, report: &Report) -> (Action, bool) {
        let action = self.action_at(score);
        let defers = self.given_up == GivenUpAction::Defer && report.given_up.is_any();
        match action {
            Action::Accept | Action::Tag if defers => (Action::Defer, true),
            action => (action, false),
        }
    }
}

pub(crate) struct Spamcheck {
    pub(crate) settings: SpamcheckSettings,
    pub(crate) rules: DeferredRules,
}

impl Procedure for Spamcheck {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn start(&self, call: &ProcedureCall<'_>) -> ProcedureResult {
        if call.message.format != Format::Mail {
            // The rules are for mail only, so a payload is accepted.
            return ProcedureResult::Done(Ok(Verdict::accept().into()));
        }
        match self.rules.loaded() {
            Some(rules) => {
                let progress = start_scan(rules, call.message);
                judgement(progress, &self.settings, call.message)
            }
            None => ProcedureResult::Pending(Box::new(AwaitedSpamcheck {
                rules: self.rules.clone(),
                settings: self.settings.clone(),
                message: Arc::clone(call.message),
            })),
        }
    }
}

/// A scan that waits for rules that are being loaded.
struct AwaitedSpamcheck {
    rules: DeferredRules,
    settings: SpamcheckSettings,
    message: Arc<Message>,
}

impl PendingJudgement for AwaitedSpamcheck {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        let rules = self.rules.clone();
        Box::new(move |wake| rules.then(wake))
    }

    fn resume(self: Box<Self>) -> ProcedureResult {
        let Some(rules) = self.rules.loaded() else {
            let reason = "the rules are not loaded";
            return ProcedureResult::Done(Err(ProcedureFailure(reason.to_owned())));
        };
        judgement(
            start_scan(rules, &self.message),
            &self.settings,
            &self.message,
        )
    }
}

/// A scan that waits for answers of the network.
struct PendingSpamcheck {
    scan: PendingScan,
    settings: SpamcheckSettings,
    message: Arc<Message>,
}

impl PendingJudgement for PendingSpamcheck {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        let progress = self.scan.progress();
        Box::new(move |wake| progress.then(wake))
    }

    fn resume(self: Box<Self>) -> ProcedureResult {
        judgement(self.scan.resume(), &self.settings, &self.message)
    }
}

fn judgement(
    progress: ScanProgress,
    settings: &SpamcheckSettings,
    message: &Arc<Message>,
) -> ProcedureResult {
    let report = match progress {
        ScanProgress::Done(report) => report,
        ScanProgress::Waiting(scan) => {
            return ProcedureResult::Pending(Box::new(PendingSpamcheck {
                scan,
                settings: settings.clone(),
                message: Arc::clone(message),
            }));
        }
    };
    warn_of_limits(&report, message);
    let verdict = Verdict {
        tags: report.header_fields(),
        ..verdict(settings, &report)
    };
    ProcedureResult::Done(Ok(ProcedureAnswer {
        verdict,
        report: Some(Arc::new(report)),
        ..ProcedureAnswer::default()
    }))
}

/// Runs the rules over a message, up to the point where only answers of the network are missing.
pub(crate) fn start_scan(rules: &Arc<RuleSet>, message: &Message) -> ScanProgress {
    let context = ScanContext {
        user: message.envelope.user.as_deref(),
        envelope_sender: message.envelope.sender.as_deref(),
        ..ScanContext::default()
    };
    rules.start_scan(&message.body, &context)
}

/// Logs that rules ran into their limits.
pub(crate) fn warn_of_limits(report: &Report, message: &Message) {
    if let Some(first) = report.limited.first() {
        tracing::warn!(
            target: "rules",
            message = %message.id,
            first = &**first,
            rules = report.limited.len(),
            "rules reached their limits, so their results are missing"
        );
    } else if report.given_up.size {
        tracing::warn!(
            target: "rules",
            message = %message.id,
            "part of the message exceeds a size limit and was not read"
        );
    }
}

/// The verdict that the settings derive from a report, without the fields that the report adds.
pub(crate) fn verdict(settings: &SpamcheckSettings, report: &Report) -> Verdict {
    let score = Score {
        value: report.score,
        required: report.required,
    };
    let hit = |hit: &gatepost_rules::Hit| RuleHit {
        name: Cow::Owned(hit.name.to_string()),
        score: hit.score,
    };
    let (action, is_given_up) = settings.action(score, report);
    Verdict {
        action,
        score: Some(score),
        hits: report.hits.iter().map(hit).collect(),
        reason: match action {
            Action::Accept => String::new(),
            _ if is_given_up => format!("not judged completely: limit of {}", report.given_up),
            _ => reason(score, report),
        },
        procedure: String::new(),
        tags: Vec::new(),
        authentication: report.authentication.clone(),
        edits: Vec::new(),
    }
}

/// "spam score 15.0 of 5.0 (RULE_A, RULE_B)", the heaviest rules first.
fn reason(score: Score, report: &Report) -> String {
    let mut heaviest: Vec<_> = report.hits.iter().filter(|hit| hit.score > 0.0).collect();
    heaviest.sort_by(|one, other| other.score.total_cmp(&one.score));
    let names: Vec<&str> = heaviest
        .iter()
        .take(RULES_IN_REASON)
        .map(|hit| &*hit.name)
        .collect();
    let more = if heaviest.len() > RULES_IN_REASON {
        ", ..."
    } else {
        ""
    };
    format!(
        "spam score {:.1} of {:.1} ({}{more})",
        score.value,
        score.required,
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(settings: &SpamcheckSettings, value: f64) -> Action {
        settings.action_at(Score {
            value,
            required: 5.0,
        })
    }

    #[test]
    fn spam_is_rejected_unless_set_otherwise() {
        let settings = SpamcheckSettings::default();
        assert_eq!(at(&settings, 4.9), Action::Accept);
        assert_eq!(at(&settings, 5.0), Action::Reject);
    }

    #[test]
    fn the_highest_rung_reached_decides() {
        let settings = SpamcheckSettings {
            action: Action::Tag,
            tag: Some(3.0),
            quarantine: Some(8.0),
            reject: Some(15.0),
            ..SpamcheckSettings::default()
        };
        for (score, action) in [
            (2.9, Action::Accept),
            (3.0, Action::Tag),
            (7.9, Action::Tag),
            (8.0, Action::Quarantine),
            (15.0, Action::Reject),
        ] {
            assert_eq!(at(&settings, score), action, "{score}");
        }
    }
}
