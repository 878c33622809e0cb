//! Bridges: messages are sent to another MQTT broker and received from it.
//!
//! One end of the connection is the session of the sink, the other end is the session that the
//! other broker keeps for the bridge. The bridge passes packets between the two: a delivery is sent
//! under the packet identifier that it has in the local session, and the other broker's
//! acknowledgement acknowledges it there. So a delivery at QoS 2 arrives exactly once, even if
//! connections are lost or either broker restarts, as long as that broker keeps its session.
//!
//! Messages do not loop: each broker is requested to send nothing back (no local; before MQTT 5 by
//! mosquitto's bridge bit), and a user property names the bridges that a message has passed.

mod connection;
mod error;
mod gathering;
mod inbound;
mod mqtt_client;
mod running;
mod topic_map;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use gatepost_broker::{RequestedFilter, RetainHandling, SubscribeOptions};
use gatepost_message::{Topic, TopicFilter};
use gatepost_mqtt::Version;
use tokio_rustls::TlsConnector;

use crate::field_mistake::FieldMistake;
use crate::file_text::first_line;
use crate::settings::BridgeSettings;
use crate::tls;
use mqtt_client::MqttClient;
use topic_map::TopicMaps;

pub(crate) use work::RunningBridge;

const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;
/// The user property that names the bridges a message has passed.
const MARKER: &str = "gatepost-bridge";

/// The topic on which the state of a bridge is published.
pub(crate) fn state_topic(name: &str) -> String {
    format!("$SYS/broker/connection/{name}/state")
}

/// The address of the other broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BridgeAddress {
    is_tls: bool,
    host: String,
    port: u16,
}

impl BridgeAddress {
    /// `mqtt://HOST[:PORT]` or `mqtts://HOST[:PORT]`.
    fn new(url: &str) -> Option<Self> {
        let (is_tls, rest) = match url.split_once("://")? {
            ("mqtt", rest) => (false, rest),
            ("mqtts", rest) => (true, rest),
            _ => return None,
        };
        let rest = rest.trim_end_matches('/');
        let usual = if is_tls { TLS_PORT } else { PORT };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':'))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map_or(Some(usual), |port| port.parse().ok())?;
        let is_host = !host.is_empty() && !host.contains(['@', '/', '?', '#', ' ']);
        is_host.then(|| Self {
            is_tls,
            host: host.to_owned(),
            port,
        })
    }
}

/// A bridge, ready to connect.
pub(crate) struct Bridge {
    name: String,
    address: BridgeAddress,
    version: Version,
    tls: Option<TlsConnector>,
    client_id: String,
    user: Option<String>,
    password: Option<String>,
    connect_timeout: Duration,
    keep_alive: Duration,
    session_expiry_seconds: u32,
    in_flight_max: u16,
    notification_topic: Option<String>,
    maps: TopicMaps,
}

impl Bridge {
    /// Reads the files that the settings name.
    pub(crate) fn new(name: &str, settings: &BridgeSettings) -> Result<Self, FieldMistake> {
        let wrong = |field, reason: &str| FieldMistake::new(field, reason);
        let address = BridgeAddress::new(&settings.address).ok_or_else(|| {
            wrong(
                "bridge.address",
                "write mqtt://HOST:PORT, or mqtts:// for TLS",
            )
        })?;
        let version = match settings.version.as_str() {
            "5" => Version::Mqtt5,
            "3.1.1" => Version::Mqtt311,
            _ => {
                return Err(wrong(
                    "bridge.version",
                    "the versions are \"5\" and \"3.1.1\"",
                ));
            }
        };
        let maps = settings.topics.iter().map(|line| line.parse());
        let maps = maps
            .collect::<Result<Vec<_>, topic_map::MalformedTopicMap>>()
            .map_err(|error| FieldMistake::new("bridge.topics", error.to_string()))?;
        if maps.is_empty() {
            return Err(wrong(
                "bridge.topics",
                "write the topics that it carries, such as [\"sensors/# out 1\"]",
            ));
        }
        let tls = if address.is_tls {
            let files = [&settings.tls_ca, &settings.tls_cert, &settings.tls_key];
            let connector = tls::connector_with(files.map(PathBuf::as_path));
            Some(connector.map_err(|error| FieldMistake::new("bridge.tls_ca", error))?)
        } else {
            None
        };
        let notification = Some(&settings.notification_topic).filter(|topic| !topic.is_empty());
        if notification.is_some_and(|topic| Topic::new(topic).is_err()) {
            return Err(wrong("bridge.notification_topic", "this is not a topic"));
        }
        let keep_alive = settings.keep_alive.duration();
        if !(5..=u64::from(u16::MAX)).contains(&keep_alive.as_secs()) {
            return Err(wrong("bridge.keep_alive", "write 5 seconds to 18 hours"));
        }
        Ok(Self {
            name: name.to_owned(),
            address,
            version,
            tls,
            client_id: match settings.client_id.as_str() {
                "" => format!("{name}.{}", host_name()),
                client_id => client_id.to_owned(),
            },
            user: Some(settings.user.clone()).filter(|user| !user.is_empty()),
            password: first_line(&settings.password_file, "bridge.password_file")?,
            connect_timeout: settings.connect_timeout.duration(),
            keep_alive,
            session_expiry_seconds: settings.session_expiry.duration().as_secs() as u32,
            in_flight_max: settings.in_flight_max.max(1),
            notification_topic: notification.cloned(),
            maps: TopicMaps(maps),
        })
    }

    /// The other broker.
    pub(crate) fn target(&self) -> String {
        let scheme = if self.address.is_tls { "mqtts" } else { "mqtt" };
        format!("{scheme}://{}:{}", self.address.host, self.address.port)
    }

    /// Connects under another client id, so that a running bridge is not disturbed.
    pub(crate) async fn check(&mut self) -> Result<(), String> {
        self.client_id = format!("{}.check", self.client_id);
        self.session_expiry_seconds = 0;
        self.notification_topic = None;
        let client = MqttClient::open(self, false)
            .await
            .map_err(|error| error.to_string())?;
        client.close(None).await;
        Ok(())
    }

    /// The subscriptions at the local broker.
    fn wanted(&self) -> Vec<(RequestedFilter, SubscribeOptions)> {
        let maps = self.maps.0.iter();
        let filters = maps.filter_map(|map| {
            let filter = RequestedFilter::new(map.local_filter()?.as_str()).ok()?;
            let options = SubscribeOptions {
                no_local: true,
                retain_as_published: true,
                retain_handling: RetainHandling::SendIfNew,
                ..SubscribeOptions::at(map.qos)
            };
            Some((filter, options))
        });
        filters.collect()
    }
}

/// The filters of the messages that a bridge with these settings sends. Malformed lines have none.
pub(crate) fn sent_filters(settings: &BridgeSettings) -> Vec<TopicFilter> {
    let lines = settings.topics.iter();
    let maps = lines.filter_map(|line| line.parse::<topic_map::TopicMap>().ok());
    maps.filter_map(|map| map.local_filter().cloned()).collect()
}

/// The name of this machine, as mosquitto uses it in its client ids.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
