//! The loop of a bridge: it connects, passes packets on in both directions, and reconnects.

use std::collections::HashMap;

use gatepost_message::{Publication, Topic};
use gatepost_mqtt::Reason;
use tokio::time::Instant;

use super::connection::Connection;
use super::error::BridgeError;
use super::inbound::Inbound;
use super::link::Link;
use super::work::{ConnectionEnding, RunningBridge, stopped};
use crate::attempt::Backoff;
use crate::inlet::{Inlet, SinkSubscription};
use crate::status::SinkState;

impl RunningBridge {
    /// Runs until the sink is stopped.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(&self.settings.retry);
        // The session must be there before the first connection, so that no message is missed.
        let mut has_session = false;
        self.announce(false);
        while !*self.stop.borrow() {
            if !has_session {
                match self.inlet(u16::MAX).await {
                    Ok(inlet) => {
                        has_session = true;
                        inlet.close();
                    }
                    Err(error) => self.fail(&error),
                }
                self.progress.opened();
            }
            let ending = self.connect(&mut backoff).await;
            self.progress.end_all_deliveries();
            self.announce(false);
            match ending {
                ConnectionEnding::Stop => return,
                ConnectionEnding::Again(why) => self.fail(&why),
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = tokio::time::sleep(backoff.pause()) => {}
            }
        }
    }

    async fn inlet(&self, receive_max: u16) -> Result<Inlet, String> {
        let wanted = SinkSubscription {
            filters: self.bridge.wanted(),
            in_flight_max: self.bridge.in_flight_max.min(receive_max),
            frame_bytes_max: None,
            kind: "bridge",
            authorization: None,
        };
        let opened = Inlet::open(&self.broker, &self.settings, &wanted).await;
        opened.map_err(|error| error.to_string())
    }

    async fn connect(&self, backoff: &mut Backoff) -> ConnectionEnding {
        let mut stop = self.stop.clone();
        let opened = tokio::select! {
            () = stopped(&mut stop) => return ConnectionEnding::Stop,
            opened = self.open() => opened,
        };
        let link = match opened {
            Ok(link) => link,
            Err(error) => return ConnectionEnding::Again(error.to_string()),
        };
        let inlet = match self.inlet(link.terms.receive_max).await {
            Ok(inlet) => inlet,
            Err(error) => return ConnectionEnding::Again(error),
        };
        let mut connection = Connection {
            running: self,
            inbound: Inbound::new(&inlet, link.version),
            link,
            inlet,
            in_flight: HashMap::new(),
            sent: Instant::now(),
            heard: Instant::now(),
        };
        let ending = match connection.begin() {
            Ok(()) => {
                tracing::info!(target: "sinks", sink = self.bridge.name,
                    session_present = connection.link.terms.session_present, "connected");
                self.progress.set_state(SinkState::Running);
                self.announce(true);
                backoff.succeeded();
                connection.serve().await
            }
            Err(error) => ConnectionEnding::Again(error.to_string()),
        };
        let Connection { link, inlet, .. } = connection;
        inlet.close();
        if matches!(ending, ConnectionEnding::Stop) {
            link.close().await;
        }
        ending
    }

    /// Before MQTT 5, tries to connect as a bridge first; brokers that do not know mosquitto's
    /// bridge bit refuse that.
    async fn open(&self) -> Result<Link, BridgeError> {
        if self.bridge.version.has_properties() {
            return Link::open(&self.bridge, false).await;
        }
        match Link::open(&self.bridge, true).await {
            Err(
                BridgeError::Refused(Reason::UNSUPPORTED_PROTOCOL_VERSION, _) | BridgeError::Io(_),
            ) => Link::open(&self.bridge, false).await,
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
        let topic = format!("$SYS/broker/connection/{}/state", self.bridge.name);
        if let Ok(topic) = Topic::new(&topic) {
            let mut publication = Publication::new(topic, if is_connected { "1" } else { "0" });
            publication.retain = true;
            let _ = self.broker.publish_now(publication);
        }
    }
}
