//! The connection to the NATS servers.
//!
//! All state of a connection ends with it, and a new connection begins without any. The NATS
//! client's own reconnection is therefore not used: a client that reconnects would send its
//! unwritten messages, while the next connection sends earlier ones again.
//!
//! A server that can be reached may itself be cut off from the other servers: then it stores
//! nothing. Therefore a connection that ended is followed by one to the next server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::mpsc;

use crate::error::{BackboneError, is_recent};
use crate::settings::BackboneSettings;

/// The time for one server to answer.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// The time for one request of the engine.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// The interval of pings; two without an answer end the connection.
const PING_EVERY: Duration = Duration::from_secs(5);
/// The time after which the client of a lost connection may connect again. The client is dropped
/// long before that, and a later connection has sent its messages under the same message ids.
const RECONNECTED_AFTER: Duration = Duration::from_mins(5);
/// Messages of one subscription that may wait to be taken in.
const SUBSCRIPTION_CAPACITY: usize = 16_384;
/// Events that may wait; further ones say nothing new.
const EVENTS_MAX: usize = 256;

/// A connection and its events.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) events: mpsc::Receiver<Event>,
    /// The server's place in `backbone.nats`.
    pub(crate) server: usize,
}

/// Reads a file that a setting names.
fn read(setting: &'static str, path: &Path) -> Result<String, BackboneError> {
    std::fs::read_to_string(path).map_err(|cause| BackboneError::File {
        setting,
        path: path.to_owned(),
        cause: cause.to_string(),
    })
}

fn options(settings: &BackboneSettings, name: &str) -> Result<ConnectOptions, BackboneError> {
    let mut options = ConnectOptions::new()
        .name(name)
        .no_echo()
        .connection_timeout(CONNECT_TIME_MAX)
        .request_timeout(Some(REQUEST_TIME_MAX))
        .ping_interval(PING_EVERY)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .max_reconnects(1);
    if !settings.user.is_empty() {
        let text = read("password_file", &settings.password_file)?;
        let password = text.lines().next().unwrap_or_default().to_owned();
        options = options.user_and_password(settings.user.clone(), password);
    }
    if !settings.credentials.as_os_str().is_empty() {
        let text = read("credentials", &settings.credentials)?;
        options = options
            .credentials(&text)
            .map_err(|cause| BackboneError::File {
                setting: "credentials",
                path: settings.credentials.clone(),
                cause: cause.to_string(),
            })?;
    }
    if !settings.tls_ca.as_os_str().is_empty() {
        read("tls_ca", &settings.tls_ca)?;
        options = options.add_root_certificates(settings.tls_ca.clone());
        options = options.require_tls(true);
    }
    if !settings.tls_cert.as_os_str().is_empty() {
        read("tls_cert", &settings.tls_cert)?;
        read("tls_key", &settings.tls_key)?;
        let (cert, key) = (settings.tls_cert.clone(), settings.tls_key.clone());
        options = options.add_client_certificate(cert, key);
    }
    Ok(options)
}

impl Connection {
    /// Connects to one of the servers, which must be recent enough. They are tried in their order,
    /// beginning with the one at `first`.
    pub(crate) async fn open(
        settings: &BackboneSettings,
        name: &str,
        first: usize,
    ) -> Result<Self, BackboneError> {
        let count = settings.nats.len();
        let mut failure = None;
        for server in (0..count).map(|place| (first + place) % count) {
            match Self::open_at(settings, name, server).await {
                Err(
                    error @ (BackboneError::Unreachable(_)
                    | BackboneError::Tls(_)
                    // Such as after a full disk of this server alone.
                    | BackboneError::NoJetStream),
                ) => {
                    failure.get_or_insert(error);
                }
                result => return result,
            }
        }
        Err(failure.unwrap_or_else(|| BackboneError::Unreachable("none is named".to_owned())))
    }

    async fn open_at(
        settings: &BackboneSettings,
        name: &str,
        server: usize,
    ) -> Result<Self, BackboneError> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let options = options(settings, name)?.event_callback(move |event| {
            let sender = sender.clone();
            async move {
                // If the queue is full, the waiting events already report the same.
                let _ = sender.try_send(event);
            }
        });
        let has_connected = Arc::new(AtomicBool::new(false));
        let delayed = has_connected.clone();
        let options = options.reconnect_delay_callback(move |_| {
            if delayed.load(Ordering::Acquire) {
                RECONNECTED_AFTER
            } else {
                Duration::ZERO
            }
        });
        let client = options.connect(&settings.nats[server]).await?;
        has_connected.store(true, Ordering::Release);
        let info = client.server_info();
        if !is_recent(&info.version) {
            return Err(BackboneError::TooOld(info.version));
        }
        if !info.jetstream {
            return Err(BackboneError::NoJetStream);
        }
        Ok(Self {
            client,
            events,
            server,
        })
    }
}
