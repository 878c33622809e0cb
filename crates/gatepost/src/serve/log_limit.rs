//! The rate limit of repeating log lines. Peers can cause many lines, and no peer may fill the disk
//! with them or bury other lines.
//!
//! The limit is in one place for all crates: it counts the lines of each place in the code that
//! logs. Lines that record actions are exempt: each judged message, each ban, each change by an
//! administrator. Their cause costs more than the line.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_operations::RecentLog;
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::log_lines;

/// The time in which `log.repeats_max` lines of one place are written.
const PERIOD: Duration = Duration::from_secs(10);
/// Targets whose lines are records.
const RECORDS: [&str; 4] = ["audit", "bans", "gateway", "log"];

/// The counts of all places that log. Cheap to clone.
#[derive(Clone)]
pub(super) struct LogLimit {
    repeats_max: u32,
    /// Receives the lines that are written, too.
    recent: RecentLog,
    places: Arc<Mutex<HashMap<Identifier, LogSite>>>,
}

/// A place in the code that logs.
struct LogSite {
    metadata: &'static Metadata<'static>,
    began: Instant,
    written: u32,
    left_out: u64,
}

impl LogLimit {
    /// A limit of 0 sets no limit.
    pub(super) fn new(repeats_max: u32) -> Self {
        Self {
            repeats_max,
            recent: RecentLog::default(),
            places: Arc::default(),
        }
    }

    /// The lines that were written last.
    pub(super) fn recent(&self) -> RecentLog {
        self.recent.clone()
    }

    /// A format that writes only lines within the limit.
    pub(super) fn around<F>(&self, format: F) -> LimitedFormat<F> {
        LimitedFormat {
            limit: self.clone(),
            format,
        }
    }

    /// Whether a line of this place may be written now; otherwise it is counted.
    fn permits(&self, metadata: &'static Metadata<'static>, now: Instant) -> bool {
        if self.repeats_max == 0 || RECORDS.contains(&metadata.target()) {
            return true;
        }
        let mut places = self.places.lock();
        let place = places.entry(metadata.callsite()).or_insert(LogSite {
            metadata,
            began: now,
            written: 0,
            left_out: 0,
        });
        if now.saturating_duration_since(place.began) >= PERIOD {
            place.began = now;
            place.written = 0;
        }
        let is_permitted = place.written < self.repeats_max;
        if is_permitted {
            place.written += 1;
        } else {
            place.left_out += 1;
        }
        is_permitted
    }

    /// The places with omitted lines since the last call, and the number of lines.
    fn take_left_out(&self) -> Vec<(&'static Metadata<'static>, u64)> {
        let mut places = self.places.lock();
        let suppressed = places.values_mut().filter(|place| place.left_out > 0);
        suppressed
            .map(|place| (place.metadata, std::mem::take(&mut place.left_out)))
            .collect()
    }

    /// Logs periodically how many lines were omitted; runs until dropped.
    pub(super) async fn report(self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            for (metadata, lines) in self.take_left_out() {
                tracing::warn!(
                    target: "log", lines, of = metadata.target(), level = %metadata.level(),
                    place = metadata.name(),
                    "repeated lines were omitted (log.repeats_max)"
                );
            }
        }
    }
}

/// A format of log lines, with the limit.
pub(super) struct LimitedFormat<F> {
    limit: LogLimit,
    format: F,
}

impl<S, N, F> FormatEvent<S, N> for LimitedFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.limit.permits(event.metadata(), Instant::now()) {
            log_lines::keep(&self.limit.recent, event);
            self.format.format_event(context, writer, event)
        } else {
            // Nothing was formatted, so nothing is written.
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_operations::LogLevel;
    use std::io::{self, Write};

    /// The log lines of a test.
    #[derive(Clone, Default)]
    struct WrittenLines(Arc<Mutex<Vec<u8>>>);

    impl Write for WrittenLines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_repeats_is_left_out_and_counted_and_records_are_not() {
        let limit = LogLimit::new(3);
        let recent = limit.recent();
        let written = WrittenLines::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .map_event_format(|format| limit.around(format))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..20_000 {
                tracing::info!(target: "users", number, "login refused");
                if number < 10 {
                    tracing::info!(target: "audit", "changed");
                    tracing::warn!(target: "smtp", "another line");
                }
            }
        });
        let text = String::from_utf8(written.0.lock().clone()).expect("text");
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!(count("login refused"), 3, "{text}");
        assert_eq!((count("another line"), count("changed")), (3, 10));
        assert_eq!(text.lines().count(), 16, "no empty lines");
        let kept = recent.latest(LogLevel::Info, "", usize::MAX);
        assert_eq!(kept.len(), 16);
        let refused = kept.iter().find(|line| line.target == "users");
        let refused = refused.expect("a line of users");
        assert_eq!(refused.text, "login refused");
        assert_eq!(refused.fields, [("number", "2".to_owned())]);
        assert_eq!(recent.latest(LogLevel::Warn, "", 9).len(), 3);
        let left_out: Vec<(&str, u64)> = limit
            .take_left_out()
            .into_iter()
            .map(|(metadata, lines)| (metadata.target(), lines))
            .collect();
        assert!(left_out.contains(&("users", 19_997)), "{left_out:?}");
        assert!(limit.take_left_out().is_empty());
    }
}
