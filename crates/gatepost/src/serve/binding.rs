//! Opens the socket of every configured address, before anything else is started: a start opens all
//! of them or none, and a server that was started as root needs its privileges no longer.

use gatepost_listeners::acceptor::Acceptor;
use gatepost_message::Listener;

use super::encryption::Encryption;
use super::error::StartError;
use crate::config::Config;

/// A socket that is listened on, before anybody accepts from it.
pub(super) struct BoundListener {
    pub(super) listener: Listener,
    pub(super) speaks_tls: bool,
    pub(super) acceptor: Acceptor,
}

pub(super) fn bind_all(
    config: &Config,
    encryption: &Encryption,
) -> Result<Vec<BoundListener>, StartError> {
    let mut all = Vec::new();
    for binding in config.listeners.bindings() {
        let listener = binding.listener;
        for (bind, speaks_tls) in binding.addresses() {
            let refused = |cause| StartError::Bind {
                listener,
                bind: bind.clone(),
                cause,
            };
            let mut acceptor = Acceptor::bind(bind).map_err(refused)?;
            acceptor
                .open_siblings(config.workers.sockets_per_address())
                .map_err(refused)?;
            let entry = encryption.entry(&binding, speaks_tls);
            all.push(BoundListener {
                listener,
                speaks_tls,
                acceptor: acceptor.with_entry(entry),
            });
        }
    }
    Ok(all)
}
