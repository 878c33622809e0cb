//! UnifiedPush's gateway for Matrix, at the path that Matrix prescribes.
//!
//! A Matrix homeserver sends notifications to a *push gateway* (Matrix, Push Gateway API). The
//! phone's push key is its application's endpoint of UnifiedPush: a topic of this server. The whole
//! notification is published there, as other application servers do it directly. An application
//! asks by GET whether the server that issued its endpoint has a gateway.
//!
//! A homeserver never uses a push key again that is *rejected*, so only what can never be an
//! endpoint is rejected. An endpoint of another host, which a proxy may have changed, and a topic
//! that strangers may not publish to are errors, after which the homeserver tries again.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::fields::NtfyFields;
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::HttpResponse;
use crate::mount::MountPrefix;

pub(super) const PATH: &str = "/_matrix/push/v1/notify";
/// Devices of one notification. Homeservers send one.
const DEVICES_MAX: usize = 16;

#[derive(Deserialize)]
struct PushRequest {
    notification: Notification,
}

#[derive(Deserialize)]
struct Notification {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    pushkey: String,
}

pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    expect_method(request, &["GET", "HEAD", "POST"], "GET, HEAD, POST")?;
    if request.method() != "POST" {
        let gateway = json!({ "unifiedpush": { "gateway": "matrix" } });
        return Ok(HttpResponse::json(200, &gateway));
    }
    let devices = devices_of(&request.body)?;
    let (mut topics, mut rejected) = (Vec::new(), Vec::new());
    for Device { pushkey } in &devices {
        match topic_of(pushkey, request.field("host").unwrap_or_default())? {
            Some(topic) => topics.push(topic),
            None => rejected.push(pushkey),
        }
    }
    // Before anything is published: a notification that is repeated should not arrive twice.
    for topic in &topics {
        let whole = MountPrefix::topic(request.mount().as_ref(), topic);
        access::expect_publish(request, &whole, false)?;
    }
    for topic in topics {
        let response = super::send(context, request, topic, NtfyFields::default()).await?;
        if response.status != 200 {
            return Ok(response);
        }
    }
    Ok(HttpResponse::json(200, &json!({ "rejected": rejected })))
}

fn devices_of(body: &[u8]) -> Result<Vec<Device>, HttpError> {
    let read: PushRequest = serde_json::from_slice(body)
        .map_err(|error| HttpError::Body(format!("not a notification of Matrix: {error}")))?;
    let devices = read.notification.devices;
    if devices.len() > DEVICES_MAX {
        let text = format!("a notification is for at most {DEVICES_MAX} devices");
        return Err(HttpError::Body(text));
    }
    Ok(devices)
}

/// The topic that an endpoint names; `None` if no endpoint has this form.
fn topic_of<'k>(pushkey: &'k str, host: &str) -> Result<Option<&'k str>, HttpError> {
    let Some((scheme, rest)) = pushkey.split_once("://") else {
        return Ok(None);
    };
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return Ok(None),
    };
    let Some((authority, path)) = rest.split_once('/') else {
        return Ok(None);
    };
    let topic = path.split(['?', '#']).next().unwrap_or_default();
    if !super::is_topic(topic) {
        return Ok(None);
    }
    let [named, own] =
        [authority, host].map(|name| name.strip_suffix(default_port).unwrap_or(name));
    if !named.eq_ignore_ascii_case(own) {
        let detail = format!("pushkey: {authority} is not this server, which is {host} here");
        return Err(HttpError::Body(detail));
    }
    Ok(Some(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_key_is_an_endpoint_of_this_server() {
        for (pushkey, topic) in [
            ("https://push.example/upAb1?up=1", Some("upAb1")),
            ("https://PUSH.example:443/upAb1", Some("upAb1")),
            ("http://push.example:80/upAb1#part", Some("upAb1")),
            ("https://push.example/", None),
            ("https://push.example", None),
            ("https://push.example/a/b", None),
            ("https://push.example/$SYS", None),
            ("ftp://push.example/upAb1", None),
            ("V2h5IG9uIGVhcnRo", None),
        ] {
            let found = topic_of(pushkey, "push.example").expect("of this server");
            assert_eq!(found, topic, "{pushkey}");
        }
        for elsewhere in [
            "https://ntfy.example/upAb1",
            "https://push.example:8443/upAb1",
            "https://push.example@ntfy.example/upAb1",
        ] {
            assert!(topic_of(elsewhere, "push.example").is_err(), "{elsewhere}");
        }
    }
}
