//! The bounds on publications of this node that wait for the log, in all partitions.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::settings::BackboneSettings;

pub(crate) struct AppendBounds {
    messages_max: usize,
    bytes_max: usize,
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl AppendBounds {
    pub(super) fn new(settings: &BackboneSettings) -> Self {
        Self {
            messages_max: settings.queue_messages_max,
            bytes_max: settings.queue_bytes_max.as_usize(),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
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
