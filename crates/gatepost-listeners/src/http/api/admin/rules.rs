//! `/admin/rules` and `/admin/reload`: what the rules do, which cannot run, and what a reload of
//! the config would change or has changed.

use serde_json::Value;

use super::count_of;
use crate::http::error::HttpError;
use crate::http::operations::Operations;
use crate::http::parameters::flag;
use crate::http::request::{Request, expect_method};
use crate::http::response::Response;

/// `/admin/rules`
pub(super) async fn rules(
    operations: &dyn Operations,
    request: &Request,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(Response::json(200, &operations.rules(count).await?))
}

/// `/admin/rules/slowest`
pub(super) async fn slowest(
    operations: &dyn Operations,
    request: &Request,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(Response::json(200, &operations.slowest_rules(count).await?))
}

/// `/admin/reload`, or with `check=1` only what it would change.
pub(super) async fn reload(
    operations: &dyn Operations,
    request: &Request,
) -> Result<Response, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let only_checks = flag("check", request.query_value("check"))?;
    let report: Value = operations.reload(only_checks).await?;
    // With a mistake in it, the config that runs stays.
    let status = if report["possible"] == false {
        422
    } else {
        200
    };
    Ok(Response::json(status, &report))
}
