//! The operator's signals: SIGHUP reloads, SIGTERM and SIGINT drain and stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The request of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorSignal {
    Reload,
    Stop,
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

    /// The next signal.
    pub(super) async fn next(&mut self) -> OperatorSignal {
        tokio::select! {
            _ = self.hangup.recv() => OperatorSignal::Reload,
            _ = self.terminate.recv() => OperatorSignal::Stop,
            _ = self.interrupt.recv() => OperatorSignal::Stop,
        }
    }
}
