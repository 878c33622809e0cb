//! `/admin/series`: figures over time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_store::{SeriesPoints, SeriesQuery, SeriesResolution, StoreSettings};
use serde_json::{Value, json};

use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::parameters::time_of;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;
use crate::monitoring::series;

/// The range of a request without `from`.
const RANGE_DEFAULT: Duration = Duration::from_hours(1);
const POINTS_DEFAULT: u64 = 300;
const POINTS_MAX: u64 = 2_000;

/// The requested range, in whole steps.
struct SeriesRange {
    from_ms: u64,
    to_ms: u64,
    step_ms: u64,
    prefers_averages: bool,
}

/// Each name may be repeated or be a list with commas; without one, all figures are meant. A range
/// that ends before it begins has no points.
pub(super) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let store = context.services.store.clone();
    let names = names_of(request)?;
    let settings = store.settings().unwrap_or_default();
    let range = range_of(request, &settings)?;
    // Samples wait for the next commit.
    store.flush().await;
    let query_names = names.clone();
    let (from_ms, to_ms, step_ms) = (range.from_ms, range.to_ms, range.step_ms);
    let read = move || {
        store.series(&SeriesQuery {
            from_ms,
            to_ms,
            step_ms,
            prefers_averages: range.prefers_averages,
            names: &query_names,
        })
    };
    let unavailable = |error: &dyn std::fmt::Display| HttpError::Unavailable(error.to_string());
    let points = tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| unavailable(&error))?
        .map_err(|error| unavailable(&error))?;
    let count = to_ms.saturating_sub(from_ms) / step_ms;
    let times: Vec<u64> = (0..count).map(|point| from_ms + point * step_ms).collect();
    let body = json!({
        "step_seconds": step_ms as f64 / 1_000.0,
        "times_unix_ms": times,
        "series": in_order(points, &names),
        "dropped": context.services.stats.series_dropped(),
    });
    Ok(HttpResponse::json(200, &body).with("Cache-Control", "no-store"))
}

/// Figures that were requested by name are listed even without a sample.
fn in_order(mut points: SeriesPoints, names: &[String]) -> Vec<Value> {
    let listed = series::names().filter_map(|(name, unit)| {
        let values = points.remove(&name);
        let is_wanted = values.is_some() || names.contains(&name);
        let values = values.unwrap_or_default();
        is_wanted.then(|| json!({ "name": name, "unit": unit, "values": values }))
    });
    listed.collect()
}

fn names_of(request: &HttpRequest) -> Result<Vec<String>, HttpError> {
    let mut names = Vec::new();
    for (parameter, value) in request.query_values() {
        if parameter == "name" {
            let listed = value.split(',').filter(|name| !name.is_empty());
            names.extend(listed.map(str::to_owned));
        }
    }
    let is_unknown = |name: &String| !series::names().any(|(known, _)| known == *name);
    if names.iter().any(is_unknown) {
        let known: Vec<String> = series::names().map(|(name, _)| name).collect();
        return Err(HttpError::Parameter {
            name: "name",
            detail: format!("write one or more of {}", known.join(", ")),
        });
    }
    Ok(names)
}

fn range_of(request: &HttpRequest, settings: &StoreSettings) -> Result<SeriesRange, HttpError> {
    let now = SystemTime::now();
    let to = time_of(request, "to")?.unwrap_or(now);
    let from = time_of(request, "from")?.unwrap_or(to - RANGE_DEFAULT);
    let [from_ms, to_ms, now_ms] = [from, to, now].map(unix_ms);
    let points = match request.query_value("points") {
        None => POINTS_DEFAULT,
        Some(text) => {
            let points = text.parse().ok();
            let points = points.filter(|points| (1..=POINTS_MAX).contains(points));
            points.ok_or_else(|| HttpError::Parameter {
                name: "points",
                detail: format!("write a number from 1 to {POINTS_MAX}"),
            })?
        }
    };
    let age_max = settings.series_age_max.duration();
    let prefers_averages = u128::from(now_ms.saturating_sub(from_ms)) > age_max.as_millis();
    let interval = settings.series_interval_of(if prefers_averages {
        SeriesResolution::Averages
    } else {
        SeriesResolution::Samples
    });
    let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    let step_ms = to_ms
        .saturating_sub(from_ms)
        .div_ceil(points)
        .max(interval_ms);
    // Whole steps since 1970, so that a range that moves with the clock keeps its steps.
    let first_ms = from_ms / step_ms * step_ms;
    let end_ms = to_ms.div_ceil(step_ms).saturating_mul(step_ms);
    Ok(SeriesRange {
        from_ms: first_ms,
        to_ms: if from_ms < to_ms { end_ms } else { first_ms },
        step_ms,
        prefers_averages,
    })
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
