//! The traffic of one batch: counted without atomics, and added to the broker's counters once, by
//! the flush.

use crate::counters::Counters;

/// Messages and deliveries since the last flush. The server's own figures do not count.
#[derive(Default)]
pub(super) struct BatchTraffic {
    pub(super) messages: u64,
    /// Bytes of the payloads of these messages.
    pub(super) bytes: u64,
    pub(super) deliveries: u64,
    /// Bytes of the shared frames of these deliveries.
    pub(super) bytes_out: u64,
}

impl BatchTraffic {
    pub(super) fn add_to(&self, counters: &Counters) {
        Counters::add(&counters.messages_in, self.messages);
        Counters::add(&counters.bytes_in, self.bytes);
        Counters::add(&counters.deliveries, self.deliveries);
        Counters::add(&counters.bytes_out, self.bytes_out);
    }
}
