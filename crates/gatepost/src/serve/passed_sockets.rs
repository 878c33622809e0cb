//! Socket activation: listening sockets that the service manager has opened (sd_listen_fds(3)).
//! Ports below 1024 then need no capability, and no connection is refused while the server is
//! replaced.
//!
//! The config remains the only list of open addresses: a passed socket replaces the address in a
//! listener's `bind` that it listens on, and a socket that matches no address is an error.

// SAFETY of the module: it takes ownership of descriptors by their numbers, in `take` only.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use gatepost_listeners::acceptor::Acceptor;
use gatepost_message::Listener;
use gatepost_settings::Bind;

use super::error::StartError;

/// The first descriptor that is passed: the one after standard error.
const FIRST_DESCRIPTOR: RawFd = 3;
/// The maximum number of sockets, more than a config has addresses.
const SOCKETS_MAX: RawFd = 1024;

/// The sockets that no address of the config has taken yet.
pub(super) struct PassedSockets(Vec<PassedSocket>);

struct PassedSocket {
    /// `FileDescriptorName` of its unit.
    name: String,
    acceptor: Acceptor,
}

impl PassedSockets {
    /// Takes all sockets that are passed to this process. To be called once, first of all.
    pub(super) fn take() -> Result<Self, StartError> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let is_for_us = variable("LISTEN_PID").parse() == Ok(std::process::id());
        let count = variable("LISTEN_FDS").parse().unwrap_or(0);
        if !is_for_us {
            return Ok(Self(Vec::new()));
        }
        let names = variable("LISTEN_FDNAMES");
        let mut names = names.split(':');
        let mut sockets = Vec::new();
        for descriptor in (FIRST_DESCRIPTOR..).take(RawFd::min(count, SOCKETS_MAX) as usize) {
            let name = names.next().unwrap_or_default().to_owned();
            let refused = |cause: std::io::Error| StartError::PassedSocket {
                name: name.clone(),
                cause,
            };
            // SAFETY: `LISTEN_PID` names this process, so the service manager has passed these
            // descriptors to it, and this is called once, before anything else opens or owns one.
            // A number that is not open is refused before it is owned.
            let socket = unsafe {
                let borrowed = BorrowedFd::borrow_raw(descriptor);
                rustix::io::fcntl_getfd(borrowed).map_err(|error| refused(error.into()))?;
                OwnedFd::from_raw_fd(descriptor)
            };
            let acceptor = Acceptor::of_passed(socket).map_err(refused)?;
            sockets.push(PassedSocket { name, acceptor });
        }
        Ok(Self(sockets))
    }

    /// The socket that listens on an address of this listener. One that is named after another
    /// listener is not meant for it.
    pub(super) fn remove(&mut self, listener: Listener, bind: &Bind) -> Option<Acceptor> {
        let position = self.0.iter().position(|socket| {
            let named_after = Listener::ALL.iter().find(|one| one.name() == socket.name);
            socket.acceptor.local() == bind && named_after.is_none_or(|one| *one == listener)
        })?;
        Some(self.0.remove(position).acceptor)
    }

    /// Checks that every socket has matched an address.
    pub(super) fn expect_none_left(&self) -> Result<(), StartError> {
        match self.0.first() {
            None => Ok(()),
            Some(socket) => Err(StartError::PassedSocketUnused {
                name: socket.name.clone(),
                bind: socket.acceptor.local().clone(),
            }),
        }
    }
}
