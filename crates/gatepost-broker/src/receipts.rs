//! Exactly-once publications that are being judged: the packet identifier of each becomes durable
//! together with the publication.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::MessageId;
use parking_lot::Mutex;

use crate::session::Session;

/// The session that sent a publication, and the packet identifier that it used.
pub(crate) type PublicationOrigin = (Arc<Session>, NonZeroU16);

/// The map is nearly always empty, so a look-up costs one load.
#[derive(Default)]
pub(crate) struct PendingReceipts {
    count: AtomicUsize,
    by_message: Mutex<HashMap<MessageId, PublicationOrigin>>,
}

impl PendingReceipts {
    pub(crate) fn insert(&self, message: MessageId, receipt: PublicationOrigin) {
        let mut by_message = self.by_message.lock();
        by_message.insert(message, receipt);
        self.count.store(by_message.len(), Ordering::Release);
    }

    /// Removes and returns the receipt of this message.
    pub(crate) fn take(&self, message: MessageId) -> Option<PublicationOrigin> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut by_message = self.by_message.lock();
        let receipt = by_message.remove(&message);
        self.count.store(by_message.len(), Ordering::Release);
        receipt
    }
}
