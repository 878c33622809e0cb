//! The signals of an operator: SIGHUP reloads, SIGTERM and SIGINT drain and end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Reload,
    End,
}

/// The signals, caught from here on.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next wish.
    pub(super) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.hangup.recv() => Wish::Reload,
            _ = self.terminate.recv() => Wish::End,
            _ = self.interrupt.recv() => Wish::End,
        }
    }
}
