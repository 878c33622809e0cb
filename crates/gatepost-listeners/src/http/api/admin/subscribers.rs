//! `/admin/subscribers?topic=NAME`: the clients that a publication on a topic would reach now.

use gatepost_broker::TopicSubscriber;
use gatepost_message::{Topic, TopicFilter};
use serde_json::{Value, json};

use super::{count_of, skip_of};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;

pub(super) fn respond(
    context: &HttpContext,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD"], "GET, HEAD")?;
    let topic = Topic::new(&request.query_value("topic").unwrap_or_default())?;
    let (skip, count) = (skip_of(request)?, count_of(request)?);
    let broker = &context.services.broker;
    let found = broker.subscribers(topic.as_str(), skip, count);
    let subscribers: Vec<Value> = found.sessions.iter().map(subscriber_json).collect();
    let answer = json!({
        "subscribers": subscribers,
        "total": found.total,
        "readers": found.readers,
    });
    Ok(HttpResponse::json(200, &answer))
}

fn subscriber_json(subscriber: &TopicSubscriber) -> Value {
    let filters = subscriber.filters.iter().map(TopicFilter::as_str);
    json!({
        "client": subscriber.client,
        "user": subscriber.user,
        "connected": subscriber.connected,
        "filters": filters.collect::<Vec<_>>(),
    })
}
