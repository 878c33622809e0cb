//! The bounds on publications of this node that wait for the log, in all partitions, and the
//! figures of appending.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::settings::BackboneSettings;

pub(crate) struct AppendBounds {
    messages_max: usize,
    bytes_max: usize,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Publications that the log did not store in time.
    refused: AtomicU64,
    /// Acknowledgements of the log, and the time that they have taken together.
    acknowledged: AtomicU64,
    microseconds: AtomicU64,
}

/// The acknowledgements of the log since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendTimes {
    pub(crate) count: u64,
    pub(crate) total: Duration,
}

impl AppendBounds {
    pub(super) fn new(settings: &BackboneSettings) -> Self {
        Self {
            messages_max: settings.queue_messages_max,
            bytes_max: settings.queue_bytes_max.as_usize(),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            microseconds: AtomicU64::new(0),
        }
    }

    pub(super) fn note_refused(&self, publications: usize) {
        self.refused
            .fetch_add(publications as u64, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn note_acknowledged(&self, after: Duration) {
        let microseconds = after.as_micros() as u64;
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> AppendTimes {
        AppendTimes {
            count: self.acknowledged.load(Ordering::Relaxed),
            total: Duration::from_micros(self.microseconds.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn add(&self, messages: usize, bytes: usize) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, messages: usize, bytes: usize) {
        self.messages.fetch_sub(messages, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a publisher may append more. What it appends at once may exceed the bounds.
    pub(super) fn has_room(&self) -> bool {
        self.messages() < self.messages_max && self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    /// The publications that wait.
    pub(super) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use gatepost_settings::ByteSize;

    use super::*;

    #[test]
    fn messages_and_bytes_are_bounded() {
        let bounds = AppendBounds::new(&BackboneSettings {
            queue_messages_max: 2,
            queue_bytes_max: ByteSize(100),
            ..BackboneSettings::default()
        });
        bounds.add(1, 99);
        assert!(bounds.has_room());
        bounds.add(1, 0);
        assert!(!bounds.has_room());
        bounds.remove(1, 0);
        bounds.add(0, 1);
        assert!(!bounds.has_room());
        bounds.remove(1, 100);
        assert!(bounds.has_room() && bounds.messages() == 0);
    }
}
