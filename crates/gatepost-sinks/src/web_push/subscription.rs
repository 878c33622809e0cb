//! A subscription: the endpoint at the browser's push service, the keys with which only that
//! browser decrypts messages, and the topics that its user requested. Each subscription is stored
//! as one record in JSON.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD as BASE64};
use gatepost_broker::RequestedFilter;
use gatepost_message::MessageId;
use gatepost_store::{Store, StoreChange, StoreError};
use ring::digest;
use serde::{Deserialize, Serialize};

use super::encryption::BrowserKeys;
use super::settings::{ENDPOINT_BYTES_MAX, WebPushSettings};
use super::{NAME_PREFIX, WebPushError, unix_seconds};
use crate::http_client::{AddressGuard, HttpTarget};

/// The subscriptions' place among the records of the database.
const SPACE: &str = "web_push";
/// Bytes of the digest that names a subscription.
const ID_BYTES: usize = 16;

/// The request of a browser: its `PushSubscription` as JSON, and topics. ntfy's clients write the
/// keys beside the endpoint.
#[derive(Deserialize)]
pub struct SubscriptionRequest {
    /// The address at the push service.
    pub endpoint: String,
    #[serde(default)]
    keys: Option<RequestedKeys>,
    #[serde(default)]
    p256dh: Option<String>,
    #[serde(default)]
    auth: Option<String>,
    /// The topic filters.
    #[serde(default)]
    pub topics: Vec<String>,
    /// The prefix of the user's topics, which ends with `/` and which the browser does not see. The
    /// filters begin with it.
    #[serde(skip)]
    pub prefix: Option<String>,
    /// The login by which the user subscribes, for [`SubscriberRights`](super::SubscriberRights).
    #[serde(skip)]
    pub login: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct RequestedKeys {
    p256dh: String,
    auth: String,
}

/// The stored form of a subscription.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushSubscription {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    /// The login by which the user subscribed. Earlier versions did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) login: Option<serde_json::Value>,
    pub(super) endpoint: String,
    /// The name of its session. A subscription that replaces this one for another user gets a new
    /// name.
    pub(super) session: String,
    p256dh: String,
    auth: String,
    pub(super) topics: Vec<String>,
    /// The prefix of its user's topics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<String>,
    /// Unix seconds.
    pub(super) expires: u64,
}

/// The name of a subscription, which does not reveal its endpoint, since that is a secret.
pub(super) fn id_of(endpoint: &str) -> String {
    let digest = digest::digest(&digest::SHA256, endpoint.as_bytes());
    BASE64.encode(&digest.as_ref()[..ID_BYTES])
}

impl PushSubscription {
    /// The subscription that a user requests, if it is permitted.
    pub(super) fn new(
        user: Option<&str>,
        request: SubscriptionRequest,
        settings: &WebPushSettings,
        now: SystemTime,
    ) -> Result<Self, WebPushError> {
        let (p256dh, auth) = match (request.keys, request.p256dh, request.auth) {
            (Some(keys), ..) => (keys.p256dh, keys.auth),
            (None, Some(p256dh), Some(auth)) => (p256dh, auth),
            _ => return Err(WebPushError::Keys),
        };
        let subscription = Self {
            user: user.map(str::to_owned),
            login: request.login,
            endpoint: request.endpoint,
            session: format!("{NAME_PREFIX}{}", MessageId::next()),
            p256dh,
            auth,
            topics: request.topics,
            prefix: request.prefix,
            expires: unix_seconds(now + settings.expiry.duration()),
        };
        if subscription.endpoint.len() > ENDPOINT_BYTES_MAX {
            return Err(WebPushError::Endpoint("it is too long"));
        }
        subscription.target(settings)?;
        if !subscription.keys()?.are_usable() {
            return Err(WebPushError::Keys);
        }
        let count = subscription.topics.len();
        if count == 0 || count > settings.topics_max {
            return Err(WebPushError::TopicsCount(settings.topics_max));
        }
        for topic in &subscription.topics {
            let reason = match RequestedFilter::new(topic) {
                Err(error) => error.to_string(),
                Ok(_)
                    if subscription
                        .own_name(topic)
                        .is_none_or(|own| own.starts_with('$')) =>
                {
                    "topics that begin with $ are the server's".to_owned()
                }
                Ok(_) => continue,
            };
            return Err(WebPushError::Topic {
                topic: topic.clone(),
                reason,
            });
        }
        Ok(subscription)
    }

    /// The address that its messages are sent to. Names are resolved, and their addresses
    /// checked, for each connection; an address that is written out is checked now too.
    pub(super) fn target(&self, settings: &WebPushSettings) -> Result<HttpTarget, WebPushError> {
        let wrong = WebPushError::Endpoint;
        let target = HttpTarget::new(&self.endpoint).ok_or(wrong("it is not an HTTPS URL"))?;
        if !target.is_tls && !settings.allow_private {
            return Err(wrong("it does not begin with https://"));
        }
        let guard = guard(settings);
        match target.host.parse() {
            Ok(address) if !guard.allows(address) => Err(wrong("its address is not public")),
            _ => Ok(target),
        }
    }

    pub(super) fn keys(&self) -> Result<BrowserKeys, WebPushError> {
        Ok(BrowserKeys {
            public: key(&self.p256dh)?,
            auth: key(&self.auth)?,
        })
    }

    /// A topic or filter as the user names it; `None` for one that the user cannot name.
    pub(super) fn own_name<'n>(&self, name: &'n str) -> Option<&'n str> {
        let Some(prefix) = &self.prefix else {
            return Some(name);
        };
        let own = name.strip_prefix(prefix.as_str())?;
        (!own.is_empty() && !own.starts_with('$')).then_some(own)
    }

    /// The topic filters as the user wrote them.
    pub(super) fn own_topics(&self) -> Vec<String> {
        let topics = self.topics.iter();
        let own = topics.filter_map(|topic| self.own_name(topic));
        own.map(str::to_owned).collect()
    }

    /// Whether both come from the same browser: only that browser has the secret.
    pub(super) fn has_secret_of(&self, other: &Self) -> bool {
        matches!((self.keys(), other.keys()), (Ok(own), Ok(others)) if own == others)
    }

    /// Whether both differ in their expiry only.
    pub(super) fn differs_in_end_only(&self, other: &Self) -> bool {
        let renewed = Self {
            expires: other.expires,
            ..self.clone()
        };
        renewed == *other
    }

    pub(super) fn has_ended(&self, now: SystemTime) -> bool {
        self.expires <= unix_seconds(now)
    }

    pub(super) fn put(&self) -> StoreChange {
        StoreChange::PutRecord {
            space: SPACE,
            key: id_of(&self.endpoint).into(),
            // Texts and numbers always serialise.
            value: serde_json::to_vec(self).unwrap_or_default().into(),
        }
    }
}

/// Removes a subscription.
pub(super) fn delete(id: &str) -> StoreChange {
    StoreChange::DeleteRecord {
        space: SPACE,
        key: id.to_owned().into(),
    }
}

/// The subscriptions of earlier runs. A record that this version cannot read is skipped.
pub(super) fn load(store: &Store) -> Result<Vec<PushSubscription>, StoreError> {
    let mut found = Vec::new();
    store.each_record(SPACE, b"", |_, value| {
        found.extend(serde_json::from_slice::<PushSubscription>(&value));
    })?;
    Ok(found)
}

/// The addresses that endpoints may have.
pub(super) fn guard(settings: &WebPushSettings) -> AddressGuard {
    AddressGuard {
        allow_private: settings.allow_private,
        networks: settings.allow_networks.clone(),
    }
}

/// Decodes a key of this length, with or without padding.
fn key<const N: usize>(text: &str) -> Result<[u8; N], WebPushError> {
    let bytes = BASE64.decode(text).or_else(|_| URL_SAFE.decode(text));
    let bytes = bytes.map_err(|_| WebPushError::Keys)?;
    bytes.try_into().map_err(|_| WebPushError::Keys)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    const P256DH: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    fn requested(change: impl FnOnce(&mut Value)) -> Result<PushSubscription, WebPushError> {
        let mut body = json!({
            "endpoint": "https://push.example.net/a",
            "expirationTime": null,
            "keys": { "p256dh": P256DH, "auth": AUTH },
            "topics": ["alarms/#", "door"],
        });
        change(&mut body);
        let request = serde_json::from_value(body).expect("a request");
        let settings = WebPushSettings {
            topics_max: 3,
            ..WebPushSettings::default()
        };
        PushSubscription::new(Some("ann"), request, &settings, SystemTime::now())
    }

    pub(in crate::web_push) async fn commit<const N: usize>(
        store: &Store,
        changes: [StoreChange; N],
    ) {
        let ticket = store.submit(changes).expect("submitted");
        ticket.committed().await.expect("committed");
    }

    #[tokio::test]
    async fn a_subscription_is_stored_as_requested() {
        let subscription = requested(|_| {}).expect("a subscription");
        let padded = requested(|body| {
            *body = json!({
                "endpoint": "https://push.example.net/a",
                "p256dh": P256DH,
                "auth": format!("{AUTH}=="),
                "topics": ["door"],
            });
        });
        assert!(subscription.has_secret_of(&padded.expect("in ntfy's shape")));
        let store = Store::in_memory().expect("a store");
        commit(&store, [subscription.put()]).await;
        assert!(load(&store).expect("read") == [subscription.clone()]);
        let id = id_of(&subscription.endpoint);
        commit(&store, [delete(&id)]).await;
        assert!(load(&store).expect("read").is_empty());
    }

    #[tokio::test]
    async fn a_record_of_an_earlier_version_is_read() {
        let mut earlier = requested(|_| {}).expect("a subscription");
        let store = Store::in_memory().expect("a store");
        commit(&store, [earlier.put()]).await;
        assert!(load(&store).expect("read")[0].login.is_none());
        earlier.login = Some(json!({ "by": "record" }));
        commit(&store, [earlier.put()]).await;
        assert!(load(&store).expect("read") == [earlier]);
    }

    #[test]
    fn invalid_subscriptions_are_refused() {
        for endpoint in [
            "",
            "push",
            "http://push.example.net/a",
            "https://user@push.example.net/a",
            "https://127.0.0.1/a",
            "https://[::1]/a",
            "https://169.254.169.254/latest",
            &format!("https://push.example.net/{}", "a".repeat(2_000)),
        ] {
            let refused = requested(|body| body["endpoint"] = endpoint.into());
            assert!(
                matches!(refused, Err(WebPushError::Endpoint(_))),
                "{endpoint}"
            );
        }
        for keys in [
            Value::Null,
            json!({ "p256dh": "AAAA", "auth": AUTH }),
            json!({ "p256dh": P256DH, "auth": "%" }),
            json!({ "p256dh": format!("C{}", &P256DH[1..]), "auth": AUTH }),
        ] {
            let refused = requested(|body| body["keys"] = keys.clone());
            assert!(matches!(refused, Err(WebPushError::Keys)), "{keys}");
        }
        for topics in [json!([]), json!(["a", "b", "c", "d"])] {
            let refused = requested(|body| body["topics"] = topics);
            assert!(matches!(refused, Err(WebPushError::TopicsCount(3))));
        }
        for topic in ["a/#/b", "$SYS/#", "$share/g/a", ""] {
            let refused = requested(|body| body["topics"] = json!([topic]));
            assert!(
                matches!(refused, Err(WebPushError::Topic { .. })),
                "{topic}"
            );
        }
    }
}
