//! `/admin/rules` and `/admin/reload`: what the rules do, which cannot run, and what a reload of
//! the config would change or has changed.

use serde_json::Value;

use super::super::error::HttpError;
use super::super::operations::Operations;
use super::super::request::Request;
use super::super::response::Response;
use super::super::routes::expect_method;
use super::super::topics::flag;
use super::count_of;

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
    let only_checks = flag("check", request.parameter("check"))?;
    let report: Value = operations.reload(only_checks).await?;
    // With a mistake in it, the config that runs stays.
    let status = if report["possible"] == false {
        422
    } else {
        200
    };
    Ok(Response::json(status, &report))
}
