//! The latest lines of the server's log, which the dashboard shows.
//!
//! Each level has a queue of its own, so that many lines of one level displace no line of another:
//! an error is still kept after any number of ordinary lines. The lines are those of the log: its
//! level and its limit of repetitions apply here too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;

/// Lines that are kept of each level.
const LINES_PER_LEVEL: usize = 500;
/// Bytes of one text of a line; the rest is cut.
const TEXT_BYTES_MAX: usize = 1_024;
/// Fields of one line.
const FIELDS_MAX: usize = 16;

/// The level of a line, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something needs attention.
    Warn,
    /// Ordinary events.
    Info,
}

impl LogLevel {
    const ALL: [Self; 3] = [Self::Error, Self::Warn, Self::Info];

    /// The level of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "error" => Some(Self::Error),
            "warn" => Some(Self::Warn),
            "info" => Some(Self::Info),
            _ => None,
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// The position of the line since the start.
    pub number: u64,
    /// Its time.
    pub unix_ms: u64,
    /// Its level.
    pub level: LogLevel,
    /// The subsystem.
    pub target: &'static str,
    /// The text.
    pub text: String,
    /// The values in it, as name and text.
    pub fields: Vec<(&'static str, String)>,
}

#[derive(Debug, Default)]
struct LogLines {
    count: u64,
    by_level: [VecDeque<LogLine>; LogLevel::ALL.len()],
}

/// The latest lines. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RecentLog(Arc<Mutex<LogLines>>);

impl RecentLog {
    /// Keeps a line, instead of the oldest of its level.
    pub fn keep(
        &self,
        level: LogLevel,
        target: &'static str,
        mut text: String,
        mut fields: Vec<(&'static str, String)>,
    ) {
        cut(&mut text);
        fields.truncate(FIELDS_MAX);
        for (_, value) in &mut fields {
            cut(value);
        }
        let mut line = LogLine {
            number: 0,
            unix_ms: unix_ms(SystemTime::now()),
            level,
            target,
            text,
            fields,
        };
        let mut lines = self.0.lock();
        lines.count += 1;
        line.number = lines.count;
        if let Some(of_level) = lines.by_level.get_mut(level as usize) {
            if of_level.len() >= LINES_PER_LEVEL {
                of_level.pop_front();
            }
            of_level.push_back(line);
        }
    }

    /// The latest lines of this level and of more important ones that contain `search` in any case,
    /// newest first.
    pub fn latest(&self, least: LogLevel, search: &str, count: usize) -> Vec<LogLine> {
        let search = search.to_lowercase();
        let lines = self.0.lock();
        let levels = LogLevel::ALL.into_iter().filter(|level| *level <= least);
        let mut found: Vec<LogLine> = levels
            .filter_map(|level| lines.by_level.get(level as usize))
            .flatten()
            .filter(|line| line.contains(&search))
            .cloned()
            .collect();
        drop(lines);
        found.sort_by_key(|line| std::cmp::Reverse(line.number));
        found.truncate(count);
        found
    }
}

impl LogLine {
    fn contains(&self, search: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(search);
        let in_fields = || {
            self.fields
                .iter()
                .any(|(name, value)| has(name) || has(value))
        };
        search.is_empty() || has(&self.text) || has(self.target) || in_fields()
    }
}

/// Cuts a text to the length that is kept, and frees the rest.
fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.shrink_to_fit();
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn an_error_remains_after_any_number_of_ordinary_lines() {
        let log = RecentLog::default();
        let keep = |level, target, text: &str, fields| {
            log.keep(level, target, text.to_owned(), fields);
        };
        keep(LogLevel::Error, "store", "disk full", Vec::new());
        let fields = vec![("peer", "192.0.2.1".to_owned())];
        keep(LogLevel::Warn, "smtp", "refused", fields);
        for number in 0..3 * LINES_PER_LEVEL {
            keep(LogLevel::Info, "gateway", &number.to_string(), Vec::new());
        }
        assert_eq!(
            texts(&log.latest(LogLevel::Warn, "", 9)),
            ["refused", "disk full"]
        );
        assert_eq!(texts(&log.latest(LogLevel::Error, "", 9)), ["disk full"]);
        assert_eq!(
            texts(&log.latest(LogLevel::Info, "192.0.2.1", 9)),
            ["refused"]
        );
        assert_eq!(
            texts(&log.latest(LogLevel::Info, "STORE", 9)),
            ["disk full"]
        );
        let all = log.latest(LogLevel::Info, "", usize::MAX);
        assert_eq!(all.len(), LINES_PER_LEVEL + 2);
        assert_eq!(all[0].text, (3 * LINES_PER_LEVEL - 1).to_string());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let log = RecentLog::default();
        let text = "ä".repeat(TEXT_BYTES_MAX);
        let fields = vec![("a", text.clone()); 99];
        log.keep(LogLevel::Info, "x", text, fields);
        let line = log.latest(LogLevel::Info, "", 1).remove(0);
        assert_eq!(line.text.len(), TEXT_BYTES_MAX);
        assert!(line.text.capacity() < 2 * TEXT_BYTES_MAX);
        assert_eq!(line.fields.len(), FIELDS_MAX);
        assert_eq!(line.fields[0].1.len(), TEXT_BYTES_MAX);
    }
}
