//! Subscriptions over restarts with other settings.

use std::time::Duration;

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_store::{Store, StoreChange};
use serde_json::json;
use tokio::runtime::Handle;

use super::subscription::{PushSubscription, load};
use super::*;

/// The keys of a browser, in the example of RFC 8291.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

struct Everything;

impl Authorization for Everything {
    fn may_receive(&self, _topic: &str) -> bool {
        true
    }

    fn may_publish(&self, _topic: &str, _retain: bool) -> bool {
        true
    }
}

impl SubscriberRights for Everything {
    fn of_subscriber(
        &self,
        _user: Option<&str>,
        _login: Option<&serde_json::Value>,
        _client_id: &str,
    ) -> Arc<dyn Authorization> {
        Arc::new(Self)
    }

    fn has_ended(&self, _user: &str, _login: Option<&serde_json::Value>) -> bool {
        false
    }
}

/// A database with subscriptions of these users to services in a private network.
async fn subscribed(users: &[&str], now: SystemTime) -> Store {
    let store = Store::in_memory().expect("a store");
    let settings = WebPushSettings {
        allow_private: true,
        ..WebPushSettings::default()
    };
    for user in users {
        let request = json!({
            "endpoint": format!("https://10.0.0.1/{user}"),
            "p256dh": P256DH,
            "auth": AUTH,
            "topics": ["alarms/#"],
        });
        let request = serde_json::from_value(request).expect("a request");
        let subscription = PushSubscription::new(Some(user), request, &settings, now);
        let subscription = subscription.map_err(|error| error.to_string());
        let put = subscription.expect("permitted").put();
        let stored = store.submit([put]).expect("submitted");
        stored.committed().await.expect("stored");
    }
    store
}

/// The users whose subscriptions are stored, after all changes so far.
async fn users(store: &Store) -> Vec<String> {
    let last = StoreChange::DeleteRecord {
        space: "test",
        key: "none".into(),
    };
    let last = store.submit([last]).expect("submitted");
    last.committed().await.expect("stored");
    let stored = load(store).expect("read").into_iter();
    let mut users: Vec<String> = stored.filter_map(|one| one.user).collect();
    users.sort();
    users
}

#[tokio::test]
async fn subscriptions_that_the_settings_no_longer_allow_end_like_others() {
    let now = SystemTime::now();
    let store = subscribed(&["anna", "otto"], now).await;
    let settings = WebPushSettings {
        contact: "mailto:root@example.org".to_owned(),
        ..WebPushSettings::default()
    };
    let expiry = settings.expiry.duration();
    let broker = Broker::new(BrokerSettings::default());
    let rights = Arc::new(Everything);
    let handle = Handle::current();
    let web_push = WebPush::start(broker, store.clone(), rights, settings, handle);
    let web_push = web_push.expect("started");
    web_push.forget_expired(now + expiry / 2);
    let both = users(&store).await;
    assert_eq!(both, ["anna", "otto"], "in case they are allowed again");
    web_push.forget_users(|user| user == "anna");
    assert_eq!(users(&store).await, ["otto"]);
    web_push.forget_expired(now + expiry + Duration::from_secs(1));
    assert!(users(&store).await.is_empty());
}
