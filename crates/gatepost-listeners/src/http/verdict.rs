//! A verdict as a response: its status, and its JSON form.

use gatepost_broker::RuleViolation;
use gatepost_gateway::{StorageFailure, SubmissionOutcome};
use gatepost_message::{Action, MessageId, Verdict};
use serde_json::{Value, json};

use super::context::HttpContext;
use super::response::HttpResponse;

/// The status of a verdict.
pub(super) const fn status_of(action: Action) -> u16 {
    match action {
        Action::Accept | Action::Tag => 200,
        Action::Quarantine | Action::Drop => 202,
        Action::Reject => 422,
        Action::Defer => 503,
    }
}

/// The status of the outcome of a submission.
pub(super) const fn status_of_outcome(outcome: &SubmissionOutcome) -> u16 {
    if matches!(outcome.storage_failure, Some(StorageFailure::DiskFull)) {
        return 507;
    }
    match outcome.violation {
        None => status_of(outcome.verdict.action),
        Some(RuleViolation::PayloadTooLarge(_)) => 413,
        Some(RuleViolation::Schema(_)) => 422,
        Some(RuleViolation::Retained) => 400,
        Some(RuleViolation::TooMany(_)) => 429,
    }
}

/// Adds `Retry-After` if the verdict defers.
pub(super) fn add_retry_after(context: &HttpContext, action: Action, response: &mut HttpResponse) {
    if action == Action::Defer {
        let seconds = context.settings.retry_after.duration().as_secs();
        response.field("Retry-After", seconds.to_string());
    }
}

/// The same for the outcome of a submission, whose topic may name the time itself.
pub(super) fn add_retry_after_outcome(
    context: &HttpContext,
    outcome: &SubmissionOutcome,
    response: &mut HttpResponse,
) {
    let violation = outcome.violation.as_ref();
    match violation.and_then(RuleViolation::retry_seconds) {
        Some(seconds) => response.field("Retry-After", seconds.to_string()),
        None => add_retry_after(context, outcome.verdict.action, response),
    }
}

/// A verdict as JSON.
pub(super) fn verdict_json(id: MessageId, verdict: &Verdict) -> Value {
    let mut object = json!({
        "id": id.to_string(),
        "verdict": verdict.action.name(),
    });
    if let Some(score) = verdict.score {
        object["score"] = rounded(score.value);
        object["required"] = rounded(score.required);
    }
    if !verdict.hits.is_empty() {
        object["hits"] = verdict
            .hits
            .iter()
            .map(|hit| json!({ "name": hit.name, "score": rounded(hit.score) }))
            .collect();
    }
    if !verdict.reason.is_empty() {
        object["reason"] = verdict.reason.as_str().into();
    }
    if !verdict.procedure.is_empty() {
        object["procedure"] = verdict.procedure.as_str().into();
    }
    if !verdict.tags.is_empty() {
        object["tags"] = verdict
            .tags
            .iter()
            .map(|(name, value)| json!([name, value]))
            .collect();
    }
    object
}

/// Scores have three decimals in the rules, so their sums are rounded to three.
fn rounded(score: f64) -> Value {
    ((score * 1_000.0).round() / 1_000.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_its_status() {
        let statuses = Action::ALL.map(status_of);
        assert_eq!(statuses, [200, 200, 202, 202, 422, 503]);
    }
}
