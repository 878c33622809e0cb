//! The certificates of all listeners: read at the start, and again when their files change.

use gatepost_listeners::entry::ListenerEntry;
use gatepost_listeners::tls::{ServerTls, TlsError};
use gatepost_message::Listener;

use crate::config::{Config, ListenerBinding};

/// The protocols that ALPN offers to browsers and other HTTP clients.
const HTTP_PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("listeners.{listener}.{table}: {error}")]
pub(crate) struct UnusableCertificate {
    listener: Listener,
    /// The table of the settings that name them.
    table: &'static str,
    error: TlsError,
}

/// The TLS of each listener, if it has one.
#[derive(Default)]
pub(crate) struct Encryption {
    listeners: Vec<(Listener, ServerTls)>,
}

impl Encryption {
    /// Reads every certificate and key that the config names.
    pub(crate) fn open(config: &Config) -> Result<Self, UnusableCertificate> {
        let mut encryption = Self::default();
        for place in config.listeners.bindings() {
            if !place.tls.is_set() {
                continue;
            }
            let listener = place.listener;
            let protocols: &[&str] = match listener {
                Listener::Http => &HTTP_PROTOCOLS,
                _ => &[],
            };
            let tls = ServerTls::open(place.tls, protocols);
            let tls = tls.map_err(|error| UnusableCertificate {
                listener,
                table: "tls",
                error,
            })?;
            encryption.listeners.push((listener, tls));
        }
        for (listener, forward) in [
            (Listener::Smtp, &config.listeners.smtp.forward),
            (Listener::Lmtp, &config.listeners.lmtp.forward),
        ] {
            forward.check().map_err(|error| UnusableCertificate {
                listener,
                table: "forward",
                error,
            })?;
        }
        Ok(encryption)
    }

    /// A listener's TLS, also for those that change to TLS at the client's request.
    pub(crate) fn of(&self, listener: Listener) -> Option<&ServerTls> {
        let mut listeners = self.listeners.iter();
        listeners.find_map(|(one, tls)| (*one == listener).then_some(tls))
    }

    /// The start of connections at an address of this place.
    pub(crate) fn entry(&self, place: &ListenerBinding<'_>, speaks_tls: bool) -> ListenerEntry {
        let tls = self.of(place.listener).filter(|_| speaks_tls);
        ListenerEntry::new(tls.cloned(), place.proxy_protocol)
    }

    /// Follows the files from now on; to be called on a runtime.
    pub(crate) fn follow(&self) {
        for (_, tls) in &self.listeners {
            let tls = tls.clone();
            gatepost_tasks::spawn(async move { tls.follow().await });
        }
    }

    /// Reads the files again, changed or not. Unusable files change nothing.
    pub(crate) fn reload(&self) {
        for (listener, tls) in &self.listeners {
            if let Err(error) = tls.reload() {
                tracing::error!(target: "tls", %listener, "not reloaded: {error}");
            }
        }
    }
}
