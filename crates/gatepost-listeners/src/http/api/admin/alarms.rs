//! `/admin/alarms`: the alarms, and requests to acknowledge and snooze them.

use gatepost_alarms::UnknownAlarm;
use gatepost_settings::Period;
use serde::Deserialize;
use serde_json::json;

use super::{body, count_of};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// The name of an administrator without a login: requests from this machine need none.
const NAMELESS: &str = "an administrator";

/// The body of a POST. Without a topic, all topics of the alarm are meant.
#[derive(Deserialize)]
#[serde(
    tag = "action",
    rename_all = "lowercase",
    deny_unknown_fields,
    expecting = "an object with action = acknowledge, snooze or forget"
)]
enum AlarmAction {
    /// The alarm is not published again while it remains raised.
    Acknowledge {
        #[serde(default)]
        topic: Option<String>,
    },
    /// The alarm's notices are suppressed for this time; a missing time ends that.
    Snooze {
        #[serde(default)]
        topic: Option<String>,
        time: Period,
    },
    /// The topic is watched again after the next message on it.
    Forget { topic: String },
}

/// `/admin/alarms`, `/admin/alarms/NAME`
pub(super) fn respond(
    context: &HttpContext,
    request: &HttpRequest,
    name: &str,
) -> Result<HttpResponse, HttpError> {
    let alarms = context.services.alarms.as_ref();
    if name.is_empty() {
        expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
        let count = count_of(request)?;
        let statuses = alarms.map_or_else(Vec::new, |alarms| alarms.status(count));
        return Ok(HttpResponse::json(200, &json!({ "alarms": statuses })));
    }
    expect_method(request, &["POST"], "POST")?;
    let action: AlarmAction = body(request)?;
    let unknown = || HttpError::Missing(format!("there is no alarm with the name {name}"));
    let alarms = alarms.ok_or_else(unknown)?;
    let changed = match action {
        AlarmAction::Acknowledge { topic } => {
            let by = request.user().unwrap_or(NAMELESS);
            alarms.acknowledge(name, topic.as_deref(), by)
        }
        AlarmAction::Snooze { topic, time } => {
            alarms.snooze(name, topic.as_deref(), time.duration())
        }
        AlarmAction::Forget { topic } => alarms.forget(name, &topic),
    };
    let topics = changed.map_err(|UnknownAlarm| unknown())?;
    Ok(HttpResponse::json(200, &json!({ "topics": topics })))
}
