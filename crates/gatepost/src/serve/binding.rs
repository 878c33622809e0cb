//! Opens the socket of every configured address, before anything else is started: a start opens all
//! of them or none, and afterwards a server that was started as root no longer needs its
//! privileges.

use std::io;

use gatepost_listeners::acceptor::Acceptor;
use gatepost_message::Listener;
use gatepost_settings::Bind;
use gatepost_store::Store;

use super::encryption::Encryption;
use super::error::StartError;
use super::passed_sockets::PassedSockets;
use crate::config::Config;

/// A listening socket, before any worker accepts from it.
pub(super) struct BoundListener {
    pub(super) listener: Listener,
    pub(super) speaks_tls: bool,
    pub(super) acceptor: Acceptor,
}

pub(super) fn bind_all(
    config: &Config,
    encryption: &Encryption,
    mut passed: PassedSockets,
) -> Result<Vec<BoundListener>, StartError> {
    let mut all = Vec::new();
    for binding in config.listeners.bindings() {
        let listener = binding.listener;
        for (bind, speaks_tls) in binding.addresses() {
            let refused = |cause| refused(config, listener, bind, cause);
            let mut acceptor = match passed.remove(listener, bind) {
                Some(acceptor) => acceptor,
                None => Acceptor::bind(bind).map_err(refused)?,
            };
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
    passed.expect_none_left()?;
    Ok(all)
}

/// The lock of the data folder is taken later, as the user that owns it; here it only explains the
/// error.
fn refused(config: &Config, listener: Listener, bind: &Bind, cause: io::Error) -> StartError {
    let bind = bind.clone();
    if cause.kind() == io::ErrorKind::AddrInUse && Store::is_served(&config.data) {
        return StartError::ServedAlready {
            listener,
            bind,
            cause,
            folder: config.data.display().to_string(),
        };
    }
    StartError::Bind {
        listener,
        bind,
        cause,
    }
}
