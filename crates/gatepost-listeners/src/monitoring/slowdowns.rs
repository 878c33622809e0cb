//! Slow subscribers that publishers waited for, with cause, start and end.
//!
//! The broker knows only the present slowdowns. They are sampled once a second and kept for some
//! minutes, so that a pause in the traffic can be explained after it has ended. Longer slowdowns
//! are logged.

use std::time::Duration;

use gatepost_broker::{SessionInspection, WaitCause};
use serde::Serialize;

/// The maximum number of slowdowns that are sampled and kept.
pub(crate) const SLOWDOWNS_MAX: usize = 20;
/// The time for which a slowdown is shown after its end.
const KEPT_MS: u64 = 300_000;
/// A slowdown that begins again within this time counts as the same one: its subscriber reads now
/// and then.
const PAUSE_MAX_MS: u64 = 5_000;
/// The duration from which a slowdown is logged.
const LOGGED_FROM_MS: u64 = 1_000;

/// One subscriber, and the time for which its publishers waited.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct Slowdown {
    /// The client id.
    pub client: String,
    /// The user, if it has logged in.
    pub user: Option<String>,
    /// `mqtt` or `websocket`.
    pub kind: String,
    /// Its address.
    pub address: Option<String>,
    /// The causes for which its messages wait.
    pub waits_for: Vec<&'static str>,
    /// The number of messages that wait for it.
    pub queued: u64,
    /// Unix time of the beginning, in milliseconds.
    pub since_unix_ms: u64,
    /// The end, in Unix milliseconds; `None` while the slowdown lasts.
    pub until_unix_ms: Option<u64>,
    #[serde(skip)]
    is_logged: bool,
}

/// The slowdowns of the last minutes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Slowdowns(Vec<Slowdown>);

impl Slowdowns {
    /// Records the subscribers that publishers wait for now.
    pub(crate) fn observe(&mut self, now_ms: u64, slow: &[SessionInspection]) -> &[Slowdown] {
        for known in self
            .0
            .iter_mut()
            .filter(|known| known.until_unix_ms.is_none())
        {
            if !slow.iter().any(|session| known.is_of(session)) {
                known.end(now_ms);
            }
        }
        for session in slow {
            self.record(now_ms, session);
        }
        self.0.retain(|known| {
            let ended = known.until_unix_ms.unwrap_or(now_ms);
            now_ms.saturating_sub(ended) < KEPT_MS
        });
        let too_many = self.0.len().saturating_sub(SLOWDOWNS_MAX);
        self.0.drain(..too_many);
        &self.0
    }

    fn record(&mut self, now_ms: u64, session: &SessionInspection) {
        let goes_on = |known: &&mut Slowdown| {
            let ended = known.until_unix_ms.unwrap_or(now_ms);
            known.is_of(session) && now_ms.saturating_sub(ended) <= PAUSE_MAX_MS
        };
        if let Some(known) = self.0.iter_mut().rev().find(goes_on) {
            known.until_unix_ms = None;
            known.update(session);
            known.log(now_ms);
            return;
        }
        let lasted = session.slows_publishers_for.unwrap_or_default();
        let mut began = Slowdown {
            client: session.stats.client.clone(),
            user: session.stats.user.clone(),
            kind: session.stats.kind.to_string(),
            address: None,
            waits_for: Vec::new(),
            queued: 0,
            since_unix_ms: now_ms.saturating_sub(lasted.as_millis() as u64),
            until_unix_ms: None,
            is_logged: false,
        };
        began.update(session);
        began.log(now_ms);
        self.0.push(began);
    }
}

impl Slowdown {
    fn is_of(&self, session: &SessionInspection) -> bool {
        self.client == session.stats.client && self.user == session.stats.user
    }

    fn update(&mut self, session: &SessionInspection) {
        let connection = session.connection.as_ref();
        self.address = connection.map(|connection| connection.peer.to_string());
        self.waits_for = session
            .waits_for
            .iter()
            .copied()
            .map(WaitCause::name)
            .collect();
        self.queued = session.stats.queued as u64;
    }

    /// Logs the slowdown once, when it has lasted long enough.
    fn log(&mut self, now_ms: u64) {
        if self.is_logged || now_ms.saturating_sub(self.since_unix_ms) < LOGGED_FROM_MS {
            return;
        }
        self.is_logged = true;
        tracing::warn!(
            target: "broker",
            client = self.client,
            user = self.user.as_deref().unwrap_or_default(),
            address = self.address.as_deref().unwrap_or_default(),
            queued = self.queued,
            waits_for = self.waits_for.join(", "),
            "publishers wait for a slow subscriber"
        );
    }

    fn end(&mut self, now_ms: u64) {
        self.until_unix_ms = Some(now_ms);
        if !self.is_logged {
            return;
        }
        let lasted = Duration::from_millis(now_ms.saturating_sub(self.since_unix_ms));
        tracing::info!(
            target: "broker",
            client = self.client,
            seconds = lasted.as_secs(),
            "publishers no longer wait for a slow subscriber"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gatepost_broker::{QueueStats, SessionStats, SlowSubscriber};

    use super::*;

    fn slow(client: &str, milliseconds: u64) -> SessionInspection {
        SessionInspection {
            stats: SessionStats {
                client: client.to_owned(),
                user: None,
                kind: "mqtt".into(),
                connected: true,
                subscriptions: 1,
                queued: 7,
                unfinished: 7,
                queued_bytes: 0,
                delivered: 0,
                dropped: 0,
                dropped_by: Vec::new(),
                policy: SlowSubscriber::SlowPublisher,
            },
            connection: None,
            expiry: Duration::ZERO,
            expires_in: None,
            is_stored: false,
            queue: QueueStats::default(),
            waits_for: vec![WaitCause::Socket],
            slows_publishers_for: Some(Duration::from_millis(milliseconds)),
            will: None,
            subscriptions: Vec::new(),
        }
    }

    #[test]
    fn a_slowdown_has_a_beginning_and_an_end_and_is_forgotten() {
        let mut slowdowns = Slowdowns::default();
        let seen = slowdowns.observe(10_000, &[slow("display", 400)]);
        assert_eq!(
            (seen[0].since_unix_ms, seen[0].until_unix_ms),
            (9_600, None)
        );
        assert_eq!(seen[0].waits_for, ["socket"]);
        assert!(!seen[0].is_logged, "it may be over at once");
        let seen = slowdowns.observe(11_000, &[slow("display", 1_400)]);
        assert!(seen[0].is_logged);
        let seen = slowdowns.observe(12_000, &[]);
        assert_eq!(seen[0].until_unix_ms, Some(12_000));
        // The subscriber reads now and then, so this is one slowdown, not many.
        let seen = slowdowns.observe(13_000, &[slow("display", 100)]);
        assert_eq!((seen.len(), seen[0].since_unix_ms), (1, 9_600));
        assert_eq!(seen[0].until_unix_ms, None);
        slowdowns.observe(14_000, &[]);
        let seen = slowdowns.observe(30_000, &[slow("display", 0)]);
        assert_eq!(seen.len(), 2, "after a while it is another one");
        slowdowns.observe(31_000, &[]);
        assert!(slowdowns.observe(31_000 + KEPT_MS, &[]).is_empty());
    }

    #[test]
    fn the_number_kept_is_bounded() {
        let mut slowdowns = Slowdowns::default();
        for client in 0..100 {
            slowdowns.observe(10_000 * client, &[slow(&client.to_string(), 0)]);
        }
        assert!(slowdowns.0.len() <= SLOWDOWNS_MAX);
    }
}
