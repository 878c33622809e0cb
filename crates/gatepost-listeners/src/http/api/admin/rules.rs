//! `/admin/rules` and `/admin/reload`: statistics of the rules, rules that cannot run, and the
//! changes that a reload of the config makes or would make.

use gatepost_operations::Operations;

use super::count_of;
use crate::http::error::HttpError;
use crate::http::parameters::flag;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::Response;

/// `/admin/rules`
pub(super) fn rules(operations: &Operations, request: &HttpRequest) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(Response::json(200, &operations.rules(count)))
}

/// `/admin/rules/slowest`
pub(super) async fn slowest(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<Response, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(Response::json(200, &operations.slowest_rules(count).await?))
}

/// `/admin/reload`, or with `check=1` only the changes that it would make.
pub(super) async fn reload(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<Response, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let only_checks = flag("check", request.query_value("check"))?;
    let report = operations.reload(only_checks).await?;
    // After a mistake, the configuration in force stays.
    let status = if report.possible { 200 } else { 422 };
    Ok(Response::json(status, &report))
}
