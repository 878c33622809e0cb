//! The figures under `$SYS`: those of other brokers under their usual names, and also drops, limits
//! and slow sessions.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use gatepost_message::{Publication, Topic};
use parking_lot::Mutex;

use crate::load::{self, LoadAverages};
use crate::publisher::Publisher;
use crate::session_table::SessionTable;
use crate::shared::BrokerShared;
use crate::stats::{self, BrokerStats, SessionStats};

/// Sessions in `$SYS/broker/sessions/slowest`.
const SLOWEST_SHOWN: usize = 20;

/// Figures of other parts of the server, by their names below `$SYS/broker/`.
type MoreFigures = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

/// State between two publications of the figures.
pub(crate) struct BrokerFigures {
    loads: Mutex<LoadAverages>,
    more: OnceLock<MoreFigures>,
}

impl BrokerFigures {
    pub(crate) fn new() -> Self {
        Self {
            loads: Mutex::new(LoadAverages::new(Instant::now())),
            more: OnceLock::new(),
        }
    }

    /// Adds figures; only the first call has an effect.
    pub(crate) fn add(&self, figures: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static) {
        let _ = self.more.set(Box::new(figures));
    }

    pub(crate) fn publish(&self, sessions: &SessionTable) {
        let stats = stats::without_lists(sessions);
        let mut figures = server_figures(&stats, sessions.shared());
        for (cause, count) in &stats.dropped {
            figures.push((
                format!("publish/messages/dropped/{}", cause.name()),
                count.to_string(),
            ));
        }
        for (limit, count) in &stats.limits {
            figures.push((format!("limits/{}", limit.name()), count.to_string()));
        }
        figures.extend(self.loads(&stats));
        if let Some(more) = self.more.get() {
            let more = more().into_iter();
            figures.extend(more.map(|(name, number)| (name, number.to_string())));
        }
        let slowest: Vec<String> = stats::longest_queues(sessions, SLOWEST_SHOWN)
            .iter()
            .filter(|session| session.queued > 0 || session.dropped > 0)
            .map(session_json)
            .collect();
        let slowest = format!("[{}]", slowest.join(","));
        figures.push(("sessions/slowest".to_owned(), slowest));
        let mut publisher = Publisher::new(sessions.shared().clone(), None);
        for (name, value) in figures {
            let Ok(topic) = Topic::new(&format!("$SYS/broker/{name}")) else {
                continue;
            };
            let mut publication = Publication::new(topic, Bytes::from(value));
            publication.retain = true;
            publisher.publish(publication);
        }
        // Topics that begin with `$` are not stored.
        let _ = publisher.flush();
    }

    /// Averages of one, five and fifteen minutes, in events a minute.
    fn loads(&self, stats: &BrokerStats) -> Vec<(String, String)> {
        let sums = [
            ("connections", stats.connections),
            ("messages/received", stats.messages_in),
            ("messages/sent", stats.deliveries),
            ("publish/received", stats.messages_in),
            ("publish/sent", stats.deliveries),
            ("publish/dropped", stats.dropped_total()),
            ("bytes/received", stats.bytes_in),
            ("bytes/sent", stats.bytes_out),
        ];
        let averages = self
            .loads
            .lock()
            .update(Instant::now(), &sums.map(|(_, sum)| sum));
        let mut figures = Vec::new();
        for ((name, _), averages) in sums.iter().zip(averages) {
            for ((span, _), average) in load::SPANS.iter().zip(averages) {
                figures.push((format!("load/{name}/{span}"), format!("{average:.2}")));
            }
        }
        figures
    }
}

fn server_figures(stats: &BrokerStats, shared: &BrokerShared) -> Vec<(String, String)> {
    let sessions = stats.sessions as u64;
    let connected = stats.sessions_connected;
    let maximum = shared
        .counters
        .connected_max
        .fetch_max(connected, Ordering::Relaxed)
        .max(connected);
    let texts = [
        (
            "version",
            format!("gatepost version {}", env!("CARGO_PKG_VERSION")),
        ),
        (
            "uptime",
            format!("{} seconds", shared.clock.started().elapsed().as_secs()),
        ),
    ];
    let numbers = [
        ("clients/connected", connected),
        ("clients/disconnected", sessions.saturating_sub(connected)),
        ("clients/maximum", maximum),
        ("clients/total", sessions),
        ("messages/received", stats.messages_in),
        ("messages/sent", stats.deliveries),
        ("messages/stored", stats.stored),
        ("publish/messages/received", stats.messages_in),
        ("publish/messages/sent", stats.deliveries),
        ("publish/messages/dropped", stats.dropped_total()),
        ("publish/bytes/received", stats.bytes_in),
        ("publish/bytes/sent", stats.bytes_out),
        ("retained messages/count", stats.retained as u64),
        ("retained messages/bytes", stats.retained_bytes as u64),
        ("subscriptions/count", stats.subscriptions as u64),
        ("memory/resident", shared.memory.resident_bytes() as u64),
    ];
    let texts = texts.map(|(name, text)| (name.to_owned(), text));
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number.to_string()));
    texts.into_iter().chain(numbers).collect()
}

/// One session as JSON, formatted here because the crate has no other JSON.
fn session_json(session: &SessionStats) -> String {
    let mut causes = String::new();
    for (cause, count) in &session.dropped_by {
        let comma = if causes.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(causes, "{comma}\"{}\":{count}", cause.name());
    }
    format!(
        "{{\"client\":{},\"connected\":{},\"queued\":{},\"queued_bytes\":{},\
         \"dropped\":{{{causes}}}}}",
        json_text(&session.client),
        session.connected,
        session.queued,
        session.queued_bytes,
    )
}

fn json_text(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(control));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_cannot_break_the_json() {
        assert_eq!(json_text("a\"b\\c\nd"), r#""a\"b\\c\u000ad""#);
    }
}
