//! The number of changes that the other nodes know, for which subscriptions wait.

use gatepost_broker::InterestBarrier;
use tokio::sync::watch;

pub(crate) struct ConfirmedChanges(watch::Sender<u64>);

impl ConfirmedChanges {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// The wait until so many changes are known; `None` if they are, or if there is no connection
    /// that announces them.
    pub(crate) fn barrier(&self, number: u64, is_followed: bool) -> Option<InterestBarrier> {
        let barrier = InterestBarrier::new(self.0.subscribe(), number);
        (is_followed && !barrier.is_reached()).then_some(barrier)
    }

    /// The other nodes know so many changes, or no subscription waits for them any more.
    pub(crate) fn confirm(&self, number: u64) {
        self.0.send_replace(number);
    }
}
