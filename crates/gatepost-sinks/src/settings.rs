//! `[[sink]]`: the messages that are sent to other systems, and their destinations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gatepost_broker::SlowSubscriber;
use gatepost_settings::{ByteSize, PeerNetwork, Period};
use serde::{Deserialize, Serialize};

use crate::mail_settings::MailSettings;
use crate::ready_templates::ready;

/// One sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkSettings {
    /// The sink's name: letters, digits, `-` and `_`. The sink's session is `$sink/NAME`.
    pub name: String,
    /// Whether the sink runs. A sink that is switched off keeps its queue, which continues to fill.
    pub enabled: bool,
    /// The topic filters of the messages that it receives.
    pub filters: Vec<String>,
    /// The topic on which messages that are given up are published; empty drops them.
    pub dead_letter: String,
    /// The treatment of a full queue.
    pub when_full: SlowSubscriber,
    /// QoS 1 and 2 messages that may wait; 0 for `broker.queue_messages_max`.
    pub queue_messages_max: usize,
    /// Bytes of messages that may wait; 0 for `broker.queue_bytes_max`.
    pub queue_bytes_max: ByteSize,
    /// The schedule by which a failed attempt is repeated, and a message is given up.
    pub retry: SinkRetrySettings,
    /// Each message becomes an HTTP request.
    pub webhook: Option<WebhookSettings>,
    /// Messages go to another MQTT broker, and come from it.
    pub bridge: Option<BridgeSettings>,
    /// Messages are sent as mail, by `smarthost`.
    pub mail: Option<MailSettings>,
}

impl Default for SinkSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            filters: Vec::new(),
            dead_letter: String::new(),
            // Publishers must not wait for a web address that does not answer.
            when_full: SlowSubscriber::DropOldest,
            queue_messages_max: 0,
            queue_bytes_max: ByteSize(0),
            retry: SinkRetrySettings::default(),
            webhook: None,
            bridge: None,
            mail: None,
        }
    }
}

/// `retry`: when an attempt that failed is repeated, and when a message is given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkRetrySettings {
    /// The pause before the second attempt. Each pause is twice the last one.
    pub first: Period,
    /// The longest pause.
    pub longest: Period,
    /// Attempts after which a message is given up; 0 for any number.
    pub attempts_max: u32,
    /// The age of a message after which it is given up; 0 for any age.
    pub age_max: Period,
}

impl Default for SinkRetrySettings {
    fn default() -> Self {
        Self {
            first: Period::seconds(1),
            longest: Period::seconds(300),
            attempts_max: 0,
            age_max: Period::seconds(86_400),
        }
    }
}

/// `webhook`: each message becomes an HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// The address. `{id}` in its path or query stands for the message's id.
    pub url: String,
    /// The file whose first line is the address, where that is a secret.
    pub url_file: PathBuf,
    /// `POST` or `PUT`.
    pub method: String,
    /// A ready template (`slack`, `discord`, `matrix`, `teams`, `telegram`, `ntfy`, `gotify`,
    /// `pagerduty`, `alertmanager`) or the path of one; empty for the message as JSON.
    pub template: String,
    /// Values for the template.
    pub variables: BTreeMap<String, String>,
    /// The media type of the body. Where it is JSON, the template's values are written as JSON.
    pub content_type: String,
    /// Further header fields.
    pub headers: BTreeMap<String, String>,
    /// The file whose first line is sent as `Authorization: Bearer`.
    pub token_file: PathBuf,
    /// The file of secrets, one in a line, by each of which requests are signed.
    pub secret_file: PathBuf,
    /// The header field for the HMAC of the body by the first secret; empty for none.
    pub hmac_header: String,
    /// The time for one attempt, from the connection to the header of the response.
    pub timeout: Period,
    /// Requests at once. With more than one, messages may arrive in another order.
    pub concurrency: u16,
    /// Requests in a second; 0 for any number.
    pub rate_max: u32,
    /// Whether the address may be on this machine or in a private network.
    pub allow_private: bool,
    /// Networks that are allowed besides public addresses.
    pub allow_networks: Vec<PeerNetwork>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            url_file: PathBuf::new(),
            method: "POST".to_owned(),
            template: String::new(),
            variables: BTreeMap::new(),
            content_type: "application/json".to_owned(),
            headers: BTreeMap::new(),
            token_file: PathBuf::new(),
            secret_file: PathBuf::new(),
            hmac_header: String::new(),
            timeout: Period::seconds(10),
            concurrency: 1,
            rate_max: 0,
            allow_private: false,
            allow_networks: Vec::new(),
        }
    }
}

/// `bridge`: messages go to another MQTT broker, and come from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BridgeSettings {
    /// The other broker: `mqtt://HOST:PORT`, or `mqtts://` for TLS.
    pub address: String,
    /// The version of MQTT: `5` or `3.1.1`.
    pub version: String,
    /// The messages to carry, as in mosquitto's option `topic`: pattern, `out`, `in` or `both`,
    /// QoS, prefix here, prefix there.
    pub topics: Vec<String>,
    /// The client id at the other broker; if empty, it consists of the sink's name and the name of
    /// the machine.
    pub client_id: String,
    /// The user name at the other broker.
    pub user: String,
    /// The file whose first line is the password.
    pub password_file: PathBuf,
    /// The authorities that are trusted, in PEM; empty for the system's.
    pub tls_ca: PathBuf,
    /// The client certificate for the other broker.
    pub tls_cert: PathBuf,
    /// The private key of that certificate.
    pub tls_key: PathBuf,
    /// The time limit of a connection attempt, with its handshakes.
    pub connect_timeout: Period,
    /// The longest silence on the connection.
    pub keep_alive: Period,
    /// The time for which the other broker keeps the bridge's session (MQTT 5).
    pub session_expiry: Period,
    /// Messages that may be unacknowledged by the other broker; it may request fewer.
    pub in_flight_max: u16,
    /// The topic at the other broker whose retained message is `1` while the bridge is connected,
    /// and otherwise `0`; empty for none.
    pub notification_topic: String,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        Self {
            address: String::new(),
            version: "5".to_owned(),
            topics: Vec::new(),
            client_id: String::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            tls_ca: PathBuf::new(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            connect_timeout: Period::seconds(20),
            keep_alive: Period::seconds(60),
            session_expiry: Period::seconds(7 * 86_400),
            in_flight_max: 1_000,
            notification_topic: String::new(),
        }
    }
}

impl SinkSettings {
    /// The files that the sink reads, also at a reload.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let webhook = self.webhook.as_ref();
        let of_webhook = webhook.into_iter().flat_map(|webhook| {
            let template = webhook.template_file();
            let named = [&webhook.url_file, &webhook.token_file, &webhook.secret_file];
            named.into_iter().map(PathBuf::as_path).chain(template)
        });
        let bridge = self.bridge.as_ref().into_iter();
        let of_bridge = bridge.flat_map(|bridge| {
            let BridgeSettings {
                password_file,
                tls_ca,
                tls_cert,
                tls_key,
                ..
            } = bridge;
            [password_file, tls_ca, tls_cert, tls_key].map(PathBuf::as_path)
        });
        let of_mail = self.mail.iter().map(|mail| mail.template.as_path());
        of_webhook
            .chain(of_bridge)
            .chain(of_mail)
            .filter(|file| !file.as_os_str().is_empty())
    }
}

impl WebhookSettings {
    /// The file of the template, unless it is a ready one.
    pub(crate) fn template_file(&self) -> Option<&Path> {
        let is_path = !self.template.is_empty() && ready(&self.template).is_none();
        is_path.then(|| Path::new(&self.template))
    }
}
