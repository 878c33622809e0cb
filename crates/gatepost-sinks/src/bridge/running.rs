//! The loop of a bridge: it connects, passes packets on in both directions, and reconnects.

use std::collections::HashMap;

use gatepost_message::{Publication, Topic};
use gatepost_mqtt::Reason;
use tokio::time::Instant;

use super::connection::BridgeConnection;
use super::error::BridgeError;
use super::gathering::MessageGathering;
use super::inbound::InboundMessages;
use super::mqtt_client::MqttClient;
use super::state_topic;
use super::work::{ConnectionEnding, RunningBridge, stopped};
use crate::attempt::AttemptBackoff;
use crate::session::{SinkSession, SinkSubscription};
use crate::status::SinkState;

impl RunningBridge {
    /// Runs until the sink is stopped.
    pub(crate) async fn run(self) {
        let mut backoff = AttemptBackoff::new(&self.settings.retry);
        let mut began = Instant::now();
        // The session must be there before the first connection, so that no message is missed.
        let mut has_session = false;
        self.announce(false);
        while !*self.stop.borrow() {
            if !has_session {
                match self.session(u16::MAX).await {
                    Ok(session) => {
                        has_session = true;
                        session.close();
                    }
                    Err(error) => self.fail(&error),
                }
                self.progress.opened();
            }
            let ending = self.connect(&mut began).await;
            self.progress.end_all_deliveries();
            self.announce(false);
            match ending {
                ConnectionEnding::Stop => return,
                ConnectionEnding::Again(why) => self.fail(&why),
            }
            // A broker that accepts connections and ends them, as after a refused subscription,
            // must not be asked again and again.
            backoff.worked_for(began.elapsed());
            let mut stop = self.stop.clone();
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = tokio::time::sleep(backoff.pause()) => {}
            }
        }
    }

    fn in_flight_max(&self, receive_max: u16) -> u16 {
        self.bridge.in_flight_max.min(receive_max)
    }

    async fn session(&self, receive_max: u16) -> Result<SinkSession, String> {
        let wanted = SinkSubscription {
            filters: self.bridge.wanted(),
            in_flight_max: self.in_flight_max(receive_max),
            frame_bytes_max: None,
            kind: "bridge",
            authorization: None,
        };
        let opened = SinkSession::open(&self.broker, &self.settings, &wanted).await;
        opened.map_err(|error| error.to_string())
    }

    /// Serves one connection. `began` becomes the time at which it was ready, or was given up.
    async fn connect(&self, began: &mut Instant) -> ConnectionEnding {
        let mut stop = self.stop.clone();
        let opened = tokio::select! {
            () = stopped(&mut stop) => return ConnectionEnding::Stop,
            opened = self.open() => opened,
        };
        *began = Instant::now();
        let client = match opened {
            Ok(client) => client,
            Err(error) => return ConnectionEnding::Again(error.to_string()),
        };
        let receive_max = client.properties.receive_max;
        let session = match self.session(receive_max).await {
            Ok(session) => session,
            Err(error) => return ConnectionEnding::Again(error),
        };
        if !client.properties.session_present {
            // The other broker may use the identifiers of its lost session for other messages.
            session.forget_received();
        }
        let mut connection = BridgeConnection {
            running: self,
            inbound: InboundMessages::new(&session, client.version),
            client,
            session,
            in_flight: HashMap::new(),
            in_flight_max: self.in_flight_max(receive_max),
            sent: Instant::now(),
            heard: Instant::now(),
            gathering: MessageGathering::new(Instant::now()),
        };
        let ending = match connection.begin() {
            Ok(()) => {
                tracing::info!(target: "sinks", sink = self.bridge.name,
                    session_present = connection.client.properties.session_present, "connected");
                self.progress.set_state(SinkState::Running);
                self.announce(true);
                connection.serve().await
            }
            Err(error) => ConnectionEnding::Again(error.to_string()),
        };
        let BridgeConnection {
            client, session, ..
        } = connection;
        session.close();
        if matches!(ending, ConnectionEnding::Stop) {
            client
                .close(self.bridge.notification_topic.as_deref())
                .await;
        }
        ending
    }

    /// Before MQTT 5, tries to connect as a bridge first; brokers that do not know mosquitto's
    /// bridge bit refuse that.
    async fn open(&self) -> Result<MqttClient, BridgeError> {
        if self.bridge.version.has_properties() {
            return MqttClient::open(&self.bridge, false).await;
        }
        match MqttClient::open(&self.bridge, true).await {
            Err(
                BridgeError::Refused(Reason::UNSUPPORTED_PROTOCOL_VERSION, _) | BridgeError::Io(_),
            ) => MqttClient::open(&self.bridge, false).await,
            opened => opened,
        }
    }

    fn fail(&self, why: &str) {
        if self.progress.failed(why, SinkState::Retrying) {
            tracing::warn!(target: "sinks", sink = self.bridge.name, reason = why,
                "a bridge is not connected");
        }
    }

    /// Publishes the connection state on a topic, as mosquitto does.
    fn announce(&self, is_connected: bool) {
        if let Ok(topic) = Topic::new(&state_topic(&self.bridge.name)) {
            let mut publication = Publication::new(topic, if is_connected { "1" } else { "0" });
            publication.retain = true;
            let _ = self.broker.publish_now(publication);
        }
    }
}
