//! `/admin/rules` and `/admin/reload`: statistics of the rules, rules that cannot run, and the
//! changes that a reload of the config makes or would make.

use gatepost_learning::bayes::Class;
use gatepost_operations::Operations;
use serde_json::json;

use super::count_of;
use crate::http::error::HttpError;
use crate::http::parameters::flag;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

/// `/admin/rules`
pub(super) fn rules(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(HttpResponse::json(200, &operations.rules(count)))
}

/// `/admin/rules/slowest`
pub(super) async fn slowest(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let count = count_of(request)?;
    Ok(HttpResponse::json(
        200,
        &operations.slowest_rules(count).await?,
    ))
}

/// `/admin/learn?as=spam`: Bayes learns the mail in the body.
pub(super) async fn learn(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let kind = request.field("content-type").unwrap_or_default();
    // A form of another origin cannot send this type without a preflight request.
    if !kind.eq_ignore_ascii_case("message/rfc822") {
        return Err(HttpError::MediaType("message/rfc822"));
    }
    let class = class_of(request)?;
    let learned = operations.learn_mail(request.body.clone(), class).await?;
    Ok(HttpResponse::json(200, &json!({ "learned": learned })))
}

/// The class that `as=` names.
pub(super) fn class_of(request: &HttpRequest) -> Result<Class, HttpError> {
    match request.query_value("as").as_deref() {
        Some("spam") => Ok(Class::Spam),
        Some("ham") => Ok(Class::Ham),
        _ => Err(HttpError::Parameter {
            name: "as",
            detail: "write spam or ham".to_owned(),
        }),
    }
}

/// `/admin/reload`, or with `check=1` only the changes that it would make.
pub(super) async fn reload(
    operations: &Operations,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["POST"], "POST")?;
    let only_checks = flag("check", request.query_value("check"))?;
    let report = operations.reload(only_checks).await?;
    // After a mistake, the configuration in force remains.
    let status = if report.possible { 200 } else { 422 };
    Ok(HttpResponse::json(status, &report))
}
