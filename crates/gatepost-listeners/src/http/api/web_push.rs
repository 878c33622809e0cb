//! `/v1/webpush`: the subscriptions of the user's browsers. The path and the shapes are ntfy's.

use gatepost_message::TopicFilter;
use gatepost_sinks::{Sinks, SubscriptionRequest, WebPush, WebPushError};
use gatepost_users::Identity;
use serde::Deserialize;
use serde_json::json;

use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method, json_object};
use crate::http::response::HttpResponse;
use crate::mount::MountPrefix;

/// The subscription that a browser cancels.
#[derive(Deserialize)]
struct UnsubscribeRequest {
    endpoint: String,
}

/// Answers a request of an authenticated user.
pub(in crate::http) async fn respond(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(
        request,
        &["GET", "HEAD", "POST", "DELETE"],
        "GET, HEAD, POST, DELETE",
    )?;
    let sinks = context.services.sinks.as_ref();
    let web_push = sinks.and_then(Sinks::web_push).ok_or_else(|| {
        HttpError::NotFound("/v1/webpush; web_push.contact is not set".to_owned())
    })?;
    match request.method() {
        "POST" => subscribe(context, request, web_push).await,
        "DELETE" => unsubscribe(request, web_push).await,
        _ => Ok(HttpResponse::json(
            200,
            &json!({
                "public_key": web_push.public_key(),
                "subscriptions": web_push.of_user(request.user()),
            }),
        )),
    }
}

async fn subscribe(
    context: &HttpContext,
    request: &HttpRequest,
    web_push: &WebPush,
) -> Result<HttpResponse, HttpError> {
    let mut subscription: SubscriptionRequest = json_object(&request.body)?;
    let mount = request.mount();
    for topic in &mut subscription.topics {
        *topic = MountPrefix::filter(mount.as_ref(), topic).into_owned();
    }
    subscription.login = request.identity.as_ref().map(Identity::kept_login);
    subscription.prefix = mount.map(|mount| mount.as_str().to_owned());
    let topics = subscription.topics.iter();
    let filters = topics.map(|topic| TopicFilter::new(topic));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    access::expect_subscribe(context, request, &filters)?;
    let id = web_push
        .subscribe(request.user(), subscription)
        .await
        .map_err(refused)?;
    Ok(HttpResponse::json(
        200,
        &json!({ "success": true, "id": id }),
    ))
}

async fn unsubscribe(request: &HttpRequest, web_push: &WebPush) -> Result<HttpResponse, HttpError> {
    let subscription: UnsubscribeRequest = json_object(&request.body)?;
    let removed = web_push
        .unsubscribe(request.user(), &subscription.endpoint)
        .await;
    if removed.map_err(refused)? {
        Ok(HttpResponse::json(200, &json!({ "success": true })))
    } else {
        Err(HttpError::NotFound("this endpoint".to_owned()))
    }
}

fn refused(error: WebPushError) -> HttpError {
    let text = error.to_string();
    match error {
        WebPushError::Taken | WebPushError::TooMany(_) => HttpError::Conflict(text),
        WebPushError::Store(_) | WebPushError::Key => HttpError::Unavailable(text),
        _ => HttpError::Body(text),
    }
}
