//! The status of a sink, for `/metrics`, `/admin/sinks` and the dashboard.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_broker::Broker;
use gatepost_message::MessageId;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

/// The activity of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkState {
    /// The sink has no session yet.
    #[default]
    Starting,
    /// The last attempt succeeded, or there was none yet.
    Running,
    /// The last attempt failed.
    Retrying,
    /// The destination replied that it no longer exists.
    Gone,
    /// The sink is switched off in the settings.
    Off,
}

/// The last failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SinkError {
    /// The text of the error.
    pub text: String,
    /// The time in Unix milliseconds.
    pub unix_ms: u64,
}

/// A sink at one moment; sums are since the start of the server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SinkStatus {
    /// Its name.
    pub name: String,
    /// `webhook`, `bridge`, `mail` or `web push`.
    pub kind: &'static str,
    /// The destination, without parts that may be secret.
    pub target: String,
    /// The activity.
    pub state: SinkState,
    /// Messages that the destination has accepted.
    pub delivered: u64,
    /// Messages that it has received from the destination.
    pub received: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// Messages that wait or are being delivered.
    pub queued: u64,
    /// Messages that did not fit into the queue, or that expired.
    pub dropped: u64,
    /// The age of the oldest message that is being delivered, in seconds.
    pub lag_seconds: u64,
    /// The last failure, even if attempts have succeeded since.
    pub last_error: Option<SinkError>,
}

impl SinkStatus {
    /// Adds the figures of the sink's session.
    pub(crate) fn count_queue(&mut self, broker: &Broker, client_id: &str) {
        if let Some(session) = broker.session(client_id) {
            self.queued = session.unfinished as u64;
            self.dropped += session.dropped;
        }
    }

    /// Adds the figures of another: sums, the longest lag, the last error.
    pub(crate) fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.failed_attempts += other.failed_attempts;
        self.given_up += other.given_up;
        self.queued += other.queued;
        self.dropped += other.dropped;
        self.lag_seconds = self.lag_seconds.max(other.lag_seconds);
        if other.state == SinkState::Retrying {
            self.state = other.state;
        }
        let time = |error: &Option<SinkError>| error.as_ref().map(|error| error.unix_ms);
        if time(&other.last_error) > time(&self.last_error) {
            self.last_error = other.last_error;
        }
    }
}

#[derive(Default)]
struct SinkCounts {
    state: SinkState,
    delivered: u64,
    received: u64,
    failed_attempts: u64,
    given_up: u64,
    expired: u64,
    last_error: Option<SinkError>,
    /// The messages that are being delivered.
    at: BTreeSet<MessageId>,
}

impl SinkCounts {
    /// Changes the state after an attempt; returns whether that changes it. A destination that is
    /// gone remains so, whatever it replied to other messages that were sent at the same time.
    fn reach(&mut self, state: SinkState) -> bool {
        let next = match self.state {
            SinkState::Gone => SinkState::Gone,
            _ => state,
        };
        std::mem::replace(&mut self.state, next) != next
    }
}

/// Counts the activity of one sink.
#[derive(Default)]
pub(crate) struct SinkProgress {
    progress: Mutex<SinkCounts>,
    /// Whether the sink has opened its session, or cannot open it for now.
    is_open: watch::Sender<bool>,
}

impl SinkProgress {
    /// Records that the session is open, or cannot be opened for now.
    pub(crate) fn opened(&self) {
        self.is_open.send_replace(true);
    }

    /// Waits for [`SinkProgress::opened`].
    pub(crate) async fn until_opened(&self) {
        let _ = self.is_open.subscribe().wait_for(|&is_open| is_open).await;
    }

    pub(crate) fn set_state(&self, state: SinkState) {
        self.progress.lock().state = state;
    }

    pub(crate) fn state(&self) -> SinkState {
        self.progress.lock().state
    }

    pub(crate) fn began(&self, id: MessageId) {
        self.progress.lock().at.insert(id);
    }

    /// Records that this message is no longer being delivered.
    pub(crate) fn end_delivery(&self, id: MessageId) {
        self.progress.lock().at.remove(&id);
    }

    /// Records that no message is being delivered: unfinished ones are delivered again.
    pub(crate) fn end_all_deliveries(&self) {
        self.progress.lock().at.clear();
    }

    pub(crate) fn delivered(&self, count: usize) {
        let mut progress = self.progress.lock();
        progress.delivered += count as u64;
        progress.reach(SinkState::Running);
    }

    pub(crate) fn received(&self) {
        self.progress.lock().received += 1;
    }

    /// Records a failed attempt; returns whether the attempt before it succeeded.
    pub(crate) fn failed(&self, text: &str, state: SinkState) -> bool {
        let mut progress = self.progress.lock();
        progress.failed_attempts += 1;
        progress.last_error = Some(SinkError {
            text: text.to_owned(),
            unix_ms: since_epoch(SystemTime::now()).as_millis() as u64,
        });
        progress.reach(state)
    }

    /// Records a message that expired between two attempts.
    pub(crate) fn expired(&self) {
        self.progress.lock().expired += 1;
    }

    pub(crate) fn gave_up(&self) {
        self.progress.lock().given_up += 1;
    }

    /// Adds these figures to a status.
    pub(crate) fn describe(&self, status: &mut SinkStatus) {
        let progress = self.progress.lock();
        status.state = progress.state;
        status.delivered = progress.delivered;
        status.received = progress.received;
        status.failed_attempts = progress.failed_attempts;
        status.given_up = progress.given_up;
        status.dropped = progress.expired;
        status.last_error.clone_from(&progress.last_error);
        let oldest = progress.at.first();
        let age = oldest.and_then(|id| SystemTime::now().duration_since(id.time()).ok());
        status.lag_seconds = age.unwrap_or_default().as_secs();
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_that_is_gone_remains_gone_until_the_sink_starts_again() {
        let progress = SinkProgress::default();
        assert!(progress.failed("410 Gone", SinkState::Gone));
        progress.delivered(1);
        assert!(!progress.failed("503 Service Unavailable", SinkState::Retrying));
        assert_eq!(progress.state(), SinkState::Gone);
        progress.set_state(SinkState::Starting);
        progress.delivered(1);
        assert_eq!(progress.state(), SinkState::Running);
    }
}
