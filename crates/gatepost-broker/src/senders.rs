//! Publications that the procedures judge, and the session that sent each: a subscription with No
//! Local gets no publication of its own client, by whatever way it is published \[MQTT-3.8.3-3\].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::MessageId;
use parking_lot::Mutex;

use crate::session::Session;

/// The map is nearly always empty, so a look-up costs one load.
#[derive(Default)]
pub(crate) struct PendingSenders {
    count: AtomicUsize,
    by_message: Mutex<HashMap<MessageId, Arc<Session>>>,
}

impl PendingSenders {
    fn change(&self, change: impl FnOnce(&mut HashMap<MessageId, Arc<Session>>)) {
        let mut by_message = self.by_message.lock();
        change(&mut by_message);
        self.count.store(by_message.len(), Ordering::Release);
    }

    pub(crate) fn find(&self, message: MessageId) -> Option<Arc<Session>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.by_message.lock().get(&message).cloned()
    }
}

/// The record of a session as the sender of one message, as long as this value exists.
pub struct RecordedSender {
    senders: Arc<PendingSenders>,
    message: MessageId,
}

impl RecordedSender {
    pub(crate) fn new(
        senders: Arc<PendingSenders>,
        message: MessageId,
        sender: Arc<Session>,
    ) -> Self {
        senders.change(|by_message| {
            by_message.insert(message, sender);
        });
        Self { senders, message }
    }
}

impl Drop for RecordedSender {
    fn drop(&mut self) {
        self.senders.change(|by_message| {
            by_message.remove(&self.message);
        });
    }
}
