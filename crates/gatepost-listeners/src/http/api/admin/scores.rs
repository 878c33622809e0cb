//! `/admin/scores`: the rules with their scores, and the scores that administrators set.

use gatepost_operations::{Operations, SCORE_MAX};
use serde::Deserialize;

use super::{body, count_of, skip_of};
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The body of a PUT.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewScore {
    score: f64,
}

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with action = undo")]
struct ScoresChange {
    action: ScoresAction,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScoresAction {
    /// The scores before the last change return.
    Undo,
}

/// `/admin/scores`, `/admin/scores/NAME`
pub(super) async fn respond(
    operations: &Operations,
    request: &HttpRequest,
    name: &str,
) -> Result<HttpResponse, HttpError> {
    let report = if name.is_empty() {
        expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
        if request.method() != "POST" {
            let search = request.query_value("search").unwrap_or_default();
            let (count, skip) = (count_of(request)?, skip_of(request)?);
            let rules = operations.rule_scores(&search, count, skip).await?;
            return Ok(HttpResponse::json(200, &rules));
        }
        let ScoresChange { action } = body(request)?;
        let ScoresAction::Undo = action;
        operations.undo_rule_scores().await?
    } else {
        expect_method(request, &["PUT", "DELETE"], "PUT, DELETE")?;
        let score = match request.method() {
            "PUT" => Some(new_score(request)?),
            _ => None,
        };
        operations.set_rule_score(name, score).await?
    };
    // After a mistake, the scores in force remain.
    let status = if report.possible { 200 } else { 422 };
    Ok(HttpResponse::json(status, &report))
}

fn new_score(request: &HttpRequest) -> Result<f64, HttpError> {
    let NewScore { score } = body(request)?;
    if score.abs() <= SCORE_MAX {
        return Ok(score);
    }
    Err(HttpError::Parameter {
        name: "score",
        detail: format!("write a number from -{SCORE_MAX} to {SCORE_MAX}"),
    })
}
