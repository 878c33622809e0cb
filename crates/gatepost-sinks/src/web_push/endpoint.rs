//! Requests to the push service of one subscription (RFC 8030, section 5).

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use gatepost_settings::Period;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;

use super::encryption::BrowserKeys;
use super::settings::WebPushSettings;
use super::subscription::{PushSubscription, guard};
use super::vapid_key::VapidKey;
use super::{WebPushError, notification};
use crate::attempt::AttemptFailure;
use crate::frame::SinkDelivery;
use crate::http_client::{HttpClient, HttpTarget, SharedTls, retry_after};
use crate::transport::{AttemptFuture, RemainingRecipients, SinkTransport};

/// Connections to one push service that are kept for one subscription, whose messages go one
/// after the other.
const IDLE_CONNECTIONS_MAX: usize = 1;

/// A subscription, ready to send.
pub(super) struct PushEndpoint {
    subscription: PushSubscription,
    keys: BrowserKeys,
    target: HttpTarget,
    client: HttpClient,
    vapid_key: Arc<VapidKey>,
    time_to_live: Period,
}

impl PushEndpoint {
    pub(super) fn new(
        subscription: &PushSubscription,
        settings: &WebPushSettings,
        vapid_key: Arc<VapidKey>,
        tls: SharedTls,
    ) -> Result<Self, WebPushError> {
        let target = subscription.target(settings)?;
        let timeout = settings.timeout.duration();
        Ok(Self {
            subscription: subscription.clone(),
            keys: subscription.keys()?,
            client: HttpClient::new(
                target.clone(),
                guard(settings),
                IDLE_CONNECTIONS_MAX,
                timeout,
                tls,
            ),
            target,
            vapid_key,
            time_to_live: settings.time_to_live,
        })
    }

    async fn send(&self, delivery: &SinkDelivery) -> Result<(), AttemptFailure> {
        let now = SystemTime::now();
        let request = self
            .request(delivery, now)
            .map_err(|reason| AttemptFailure::Refused(reason.to_owned()))?;
        let (status, fields) = self
            .client
            .send(request)
            .await
            .map_err(AttemptFailure::again)?;
        judged(status, &fields, now)
    }

    fn request(
        &self,
        delivery: &SinkDelivery,
        now: SystemTime,
    ) -> Result<Request<Full<Bytes>>, &'static str> {
        let own = self.subscription.own_name(&delivery.topic);
        let topic = own.ok_or("the user cannot name its topic")?;
        let text = notification::text(delivery, topic);
        let text = text.map_err(|_| "the message cannot be written")?;
        let sealed = self.keys.encrypt(&text);
        let sealed = sealed.map_err(|_| "the message cannot be encrypted")?;
        let authorization = self.vapid_key.authorization(&self.target.web_origin(), now);
        let authorization = authorization.map_err(|_| "the request cannot be signed")?;
        let mut authorization = HeaderValue::try_from(authorization)
            .map_err(|_| "the contact cannot be sent in a header field")?;
        authorization.set_sensitive(true);
        let kept = delivery.seconds_left();
        let kept = kept.unwrap_or_else(|| self.time_to_live.duration().as_secs());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.target.path(delivery.id))
            .header(header::HOST, &self.target.authority)
            .header(header::AUTHORIZATION, authorization)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_ENCODING, "aes128gcm")
            .header("ttl", kept)
            .header("urgency", notification::urgency(delivery));
        if let Some(topic) = notification::replaced_topic(delivery) {
            request = request.header("topic", topic);
        }
        let body = Full::new(Bytes::from(sealed));
        request.body(body).map_err(|_| "the request cannot be made")
    }
}

impl SinkTransport for PushEndpoint {
    fn kind(&self) -> &'static str {
        "web push"
    }

    fn target(&self) -> String {
        self.target.web_origin()
    }

    /// An endpoint that a push service has forgotten never becomes valid again.
    fn ends_when_gone(&self) -> bool {
        true
    }

    fn accepts(&self, delivery: &SinkDelivery) -> bool {
        self.subscription.own_name(&delivery.topic).is_some()
    }

    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        _: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a> {
        Box::pin(async move {
            for delivery in batch {
                self.send(delivery).await?;
            }
            Ok(())
        })
    }
}

/// The meaning of an answer for the message.
fn judged(status: StatusCode, fields: &HeaderMap, now: SystemTime) -> Result<(), AttemptFailure> {
    let code = status.as_u16();
    let reason = format!("{code} {}", status.canonical_reason().unwrap_or_default());
    Err(match code {
        200..300 => return Ok(()),
        // RFC 8030, section 7.3: the subscription has expired, or was never one.
        404 | 410 => AttemptFailure::Gone(reason),
        408 | 425 | 429 | 500.. => AttemptFailure::Again {
            reason,
            wait: retry_after(fields, now),
        },
        // 413 too: the same message would be refused again.
        _ => AttemptFailure::Refused(reason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_take_refuse_delay_or_end() {
        let of = |code| {
            let status = StatusCode::from_u16(code).expect("a status");
            judged(status, &HeaderMap::new(), SystemTime::now())
        };
        for code in [200, 201, 202] {
            assert!(of(code).is_ok(), "{code}");
        }
        for code in [404, 410] {
            assert!(matches!(of(code), Err(AttemptFailure::Gone(_))), "{code}");
        }
        for code in [408, 429, 500, 502, 503, 599, 999] {
            assert!(
                matches!(of(code), Err(AttemptFailure::Again { .. })),
                "{code}"
            );
        }
        for code in [100, 301, 307, 400, 401, 403, 413] {
            assert!(
                matches!(of(code), Err(AttemptFailure::Refused(_))),
                "{code}"
            );
        }
    }
}
