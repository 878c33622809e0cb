//! The MQTT listener: 3.1, 3.1.1 and 5, over TCP, Unix sockets and WebSocket.
//!
//! A connection is one task. It reads into a buffer of its worker, handles every packet that
//! one read gave, then flushes once: its own answers with one write, and every subscriber that
//! it published to with one write each. Between reads it owns only an unfinished packet.
//!
//! - `opening.rs`: a connection before its session; `login.rs`: authentication; `handshake.rs`:
//!   CONNECT (`connect_properties.rs`) and its answer;
//! - `connection.rs`: the loop; `input.rs`: reading, with a deadline for unfinished packets
//!   (`partial_packet.rs`); `closing.rs`: the end of a connection;
//! - `packets.rs`: handling of packets; `publish.rs` (`publishing.rs`), `subscribe.rs`: PUBLISH and
//!   SUBSCRIBE;
//! - `access.rs`: the client's rights (`rights.rs`) and their changes; `reauthentication.rs`: AUTH;
//! - `acknowledgements.rs`: acknowledgements that wait for the disk or for a verdict;
//! - `connection_end.rs`: the one place where errors become DISCONNECT;
//! - `encoder.rs`: publications on the wire.

mod access;
mod acknowledgements;
mod closing;
mod connect_properties;
mod connection;
mod connection_end;
mod encoder;
mod handshake;
mod input;
mod login;
mod opening;
mod packets;
mod partial_packet;
mod publish;
mod publishing;
mod reading;
mod reauthentication;
mod rights;
mod settings;
mod subscribe;
mod work_turn;

use std::sync::Arc;
use std::time::Duration;

use gatepost_broker::Broker;
use gatepost_gateway::Gateway;
use gatepost_message::Peer;
use gatepost_tasks::Task;
use gatepost_users::{Identity, ListenerAuth, Users};
use tokio::sync::watch;

use crate::acceptor::{AcceptedSocket, Acceptor};
use crate::admission::{Admission, AdmissionRefusal, ConnectionPermit};
use crate::connection_budget::descriptors_max;
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::service;
use crate::stream::Stream;
use crate::workers::Workers;
use connection::ServedConnection;

pub use rights::UsersRights;
pub use settings::{MqttSettings, OnReject};

/// The number of connections beyond the limits that are answered at the same time; further ones are
/// closed without an answer.
const REFUSALS_MAX: u32 = 64;
/// The time limit for connections to end at a shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// State that all connections share.
pub struct MqttContext {
    settings: MqttSettings,
    broker: Broker,
    gateway: Option<Gateway>,
    limits: ClientLimits,
    /// Connections beyond the limits that get an answer.
    refusals: Admission,
    auths: Option<PlainAndWebSocketAuth>,
}

/// Authentication of plain and of WebSocket connections. The latter arrive over the HTTP listener,
/// which other machines may be able to reach.
struct PlainAndWebSocketAuth {
    plain: ListenerAuth,
    websocket: ListenerAuth,
    /// For WebSocket clients that do not count as local.
    websocket_remote: ListenerAuth,
}

impl MqttContext {
    /// Without a gateway no scope applies to publications; without users no login is needed.
    pub fn new(
        settings: MqttSettings,
        broker: Broker,
        gateway: Option<Gateway>,
        shared: &SharedLimits,
    ) -> Self {
        let limits = ClientLimits::new(
            settings.connections_max.number(descriptors_max()),
            settings.connections_per_address_max,
            shared,
        );
        let refusals = Admission::new(REFUSALS_MAX, 0);
        Self {
            settings,
            broker,
            gateway,
            limits,
            refusals,
            auths: None,
        }
    }

    /// Sets the authentication of plain clients and of WebSocket clients.
    #[must_use]
    pub fn with_auths(mut self, plain: ListenerAuth, websocket: ListenerAuth) -> Self {
        self.auths = Some(PlainAndWebSocketAuth {
            websocket_remote: websocket.for_remote_peers(),
            plain,
            websocket,
        });
        self
    }

    fn auth(&self, websocket: Option<&WebSocketStart<'_>>) -> Option<&ListenerAuth> {
        self.auths.as_ref().map(|auths| match websocket {
            None => &auths.plain,
            Some(start) if start.is_local => &auths.websocket,
            Some(_) => &auths.websocket_remote,
        })
    }
}

impl ListenerContext for MqttContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// Wakes all connections when users or rules change; runs until dropped.
pub async fn follow_users(broker: Broker, users: Users) {
    let mut changes = users.changes();
    while changes.changed().await.is_ok() {
        broker.wake_connections();
    }
}

/// Accepts connections until `shutdown` becomes true, spreading them over `workers`; then waits
/// a little for those that the broker ends.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<MqttContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        let shared = Arc::clone(&context);
        let take = move |accepted: AcceptedSocket, peer| {
            let context = Arc::clone(&shared);
            let admitted = context.limits.admission.admit_accepted(&accepted, peer)?;
            let serving: Task = Box::pin(async move {
                let opening = Box::pin(open(accepted, peer, admitted, context));
                if let Some(serving) = opening.await {
                    serving.await;
                }
            });
            Some(serving)
        };
        service::on_every_worker("mqtt", acceptor, &workers, shutdown.clone(), Arc::new(take))
            .await;
        let drained = async {
            while context.limits.admission.open() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
        // The server ends when the last receiver is dropped.
        drop(shutdown);
    })
}

async fn open(
    accepted: AcceptedSocket,
    peer: Peer,
    admitted: Result<ConnectionPermit, AdmissionRefusal>,
    context: Arc<MqttContext>,
) -> Option<ServedConnection> {
    match accepted.open(peer).await {
        Ok((stream, client)) => {
            let admitted = context
                .limits
                .admission
                .admit_proxied(admitted, peer, client);
            connection::open(stream, client, None, admitted, context).await
        }
        Err(error) => {
            tracing::debug!(target: "mqtt", %peer, "lost: {error}");
            None
        }
    }
}

/// The start of a WebSocket connection: the result of its handshake.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketStart<'a> {
    /// Whether the handshake certainly came from a program on this machine.
    pub is_local: bool,
    /// The user whose browser made the handshake, if it proved that by a cookie.
    pub identity: Option<&'a Identity>,
    /// The user that the certificate of the client names, as HTTP found it: the connection may be
    /// a proxy's.
    pub certified: Option<&'a str>,
    /// The bytes that arrived after the handshake.
    pub received: &'a [u8],
}

/// Serves a connection whose WebSocket handshake is done, until it ends.
pub async fn serve_websocket(
    stream: Stream,
    peer: Peer,
    start: WebSocketStart<'_>,
    context: Arc<MqttContext>,
) {
    let admitted = context.limits.admission.admit_upgraded(peer);
    let opening = connection::open(stream, peer, Some(start), admitted, context);
    let opening = Box::pin(opening);
    if let Some(serving) = opening.await {
        serving.await;
    }
}
