//! Forms that are sent to a page: a hidden, signed field states the permitted action.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Format, Message, Properties, Qos, Topic};
use gatepost_pages::forms::{FIELD, FormAction};
use gatepost_pages::{CachedPath, CallError, FormResult, PageRequest, RenderedPage};
use serde_json::{Map, Value};

use super::lookup::own_path;
use super::multipart;
use super::pages::{page_request, render, response_of};
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::origin;
use crate::http::request::{HttpRequest, parse_form};
use crate::http::response::HttpResponse;
use crate::http::verdict::status_of;

const URLENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";
/// The reason shown for a refused form.
const FORMS: &str = "application/x-www-form-urlencoded or multipart/form-data";

/// Whether the body may come from a browser's form.
pub(super) fn is_form(request: &HttpRequest) -> bool {
    let kind = media_type(request);
    kind.eq_ignore_ascii_case(URLENCODED) || kind.eq_ignore_ascii_case(MULTIPART)
}

fn media_type(request: &HttpRequest) -> &str {
    let field = request.field("content-type").unwrap_or_default();
    field.split(';').next().unwrap_or_default().trim()
}

/// Executes the action of a form, and answers with a redirect or with the page.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &mut HttpRequest,
    entry: Arc<CachedPath>,
) -> Result<HttpResponse, HttpError> {
    origin::expect_own(request)?;
    access::identify(context, request).await?;
    let mut page_request = page_request(request);
    let fields = fields(request)?;
    page_request.form = fields.iter().cloned().collect();
    let form = context.pages.take_form(&mut page_request)?;
    page_request.body = as_json(&fields).into();
    match form.action {
        FormAction::Show => render(context, request, entry, page_request, 200).await,
        FormAction::Publish(topic) => {
            publish(context, request, entry, page_request, (&topic, form.then)).await
        }
        FormAction::Call(path) => {
            call(context, request, entry, page_request, (&path, form.then)).await
        }
    }
}

fn fields(request: &HttpRequest) -> Result<Vec<(String, String)>, HttpError> {
    if media_type(request).eq_ignore_ascii_case(URLENCODED) {
        return Ok(parse_form(&String::from_utf8_lossy(&request.body)));
    }
    let kind = request.field("content-type").unwrap_or_default();
    multipart::fields(kind, &request.body).ok_or(HttpError::MediaType(FORMS))
}

/// All fields but the signed one, as a JSON object. A field that was sent several times, as by a
/// group of checkboxes, is a list.
fn as_json(fields: &[(String, String)]) -> String {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in fields.iter().filter(|(name, _)| name != FIELD) {
        values.entry(name).or_default().push(value);
    }
    let object: Map<String, Value> = values
        .into_iter()
        .map(|(name, values)| match values.as_slice() {
            [only] => (name.to_owned(), Value::from(*only)),
            several => (name.to_owned(), Value::from(several.to_vec())),
        })
        .collect();
    Value::Object(object).to_string()
}

/// Publishes the field `payload`, or all fields as JSON.
async fn publish(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    entry: Arc<CachedPath>,
    mut page_request: PageRequest,
    (topic, then): (&str, Option<String>),
) -> Result<HttpResponse, HttpError> {
    access::expect_publish(request, topic, false)?;
    let (payload, kind) = match page_request.form.get("payload") {
        Some(payload) => (Bytes::from(payload.clone()), "text/plain; charset=utf-8"),
        None => (page_request.body.clone(), "application/json"),
    };
    let topic = Topic::new(topic)?;
    let mut message = Message::new(request.envelope(), Some(topic), Format::Payload, payload);
    message.qos = Qos::AtLeastOnce;
    message.properties = Some(Box::new(Properties {
        payload_is_text: Some(true),
        content_type: Some(kind.to_owned()),
        ..Properties::default()
    }));
    let id = message.id;
    let verdict = context.services.gateway.submit(message).await.verdict;
    let status = status_of(verdict.action);
    let mut response = if status < 400 {
        see_other(then.unwrap_or_else(|| with_query(request)))
    } else {
        page_request.result = Some(FormResult {
            verdict: verdict.action.name().to_owned(),
            reason: verdict.reason,
            id: id.to_string(),
            text: String::new(),
        });
        render(context, request, entry, page_request, status).await?
    };
    response.message = Some(id);
    Ok(response)
}

/// Calls the form's procedure.
async fn call(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    entry: Arc<CachedPath>,
    mut page_request: PageRequest,
    (path, then): (&str, Option<String>),
) -> Result<HttpResponse, HttpError> {
    let (called, back) = context.pages.call(path, page_request).await?;
    page_request = back;
    match called {
        Ok(called) => {
            let mut reply = called.reply.map(|reply| *reply).unwrap_or_default();
            if reply.redirect().is_none()
                && let Some(then) = then
            {
                // The address comes from the page, so a malformed one is an error of the page.
                let set = reply.set_redirect(then);
                set.map_err(|error| HttpError::page_failed(&error))?;
            }
            if reply.redirect().is_some() {
                let rendered = RenderedPage {
                    reply,
                    personal: true,
                    ..RenderedPage::default()
                };
                let mut response = response_of(request, rendered, 303);
                // A browser may repeat the form with 302, never with 303 (RFC 9110, section
                // 15.4.4).
                if response.status == 302 {
                    response.status = 303;
                }
                return Ok(response);
            }
            page_request.result = Some(FormResult {
                verdict: "accept".to_owned(),
                text: called.text,
                ..FormResult::default()
            });
            let accept = request.field("accept-encoding").map(str::as_bytes);
            let mut rendered = context.pages.render(entry, page_request, accept).await?;
            rendered.reply.merge(reply);
            Ok(response_of(request, rendered, 200))
        }
        Err(CallError::Refused { action, reason, .. }) => {
            page_request.result = Some(FormResult {
                verdict: action.name().to_owned(),
                reason,
                ..FormResult::default()
            });
            render(context, request, entry, page_request, status_of(action)).await
        }
        Err(error) => Err(HttpError::page_failed(&error)),
    }
}

fn see_other(place: String) -> HttpResponse {
    HttpResponse::empty(303)
        .with("Location", place)
        .with("Cache-Control", "no-store")
}

/// The address of the page itself.
fn with_query(request: &HttpRequest) -> String {
    let slash = if request.path.len() > 1 && request.path.ends_with('/') {
        "/"
    } else {
        ""
    };
    let query = if request.query.is_empty() { "" } else { "?" };
    format!("{}{slash}{query}{}", own_path(request), request.query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_field_keeps_all_its_values() {
        let fields = parse_form("room=hall&gatepost-form=x&room=attic&name=Anna&room=hall&none=");
        assert_eq!(
            as_json(&fields),
            r#"{"name":"Anna","none":"","room":["hall","attic","hall"]}"#
        );
        assert_eq!(as_json(&[]), "{}");
    }
}
