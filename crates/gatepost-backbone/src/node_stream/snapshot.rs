//! The content of the database as changes, with which a stream begins.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gatepost_broker::IN_PROCESS_PREFIX;
use gatepost_store::{SessionChange, StoreChange, StoreError, StoreSnapshot};

use super::change;

/// The bytes of a message of the snapshot, about.
const CHUNK_BYTES: usize = 256 * 1024;

/// Passes all changes on, in chunks, until `pass` returns `false`.
pub(crate) fn encode(
    snapshot: &StoreSnapshot,
    pass: impl FnMut(Bytes) -> bool,
) -> Result<(), StoreError> {
    let mut encoder = SnapshotEncoder {
        buffer: BytesMut::new(),
        pass,
        is_over: false,
    };
    let mut in_process = HashSet::new();
    snapshot.each_session(|row| {
        if row.client.starts_with(IN_PROCESS_PREFIX) {
            in_process.insert(row.number);
        } else {
            encoder.push(SessionChange::Put(Box::new(row)));
        }
    })?;
    let is_moved = |session| !in_process.contains(&session);
    snapshot.each_subscription(|row| {
        if is_moved(row.session) {
            encoder.push(SessionChange::Subscribe(Box::new(row)));
        }
    })?;
    snapshot.each_message(|(number, publication)| {
        let publication = Arc::new(publication);
        encoder.push(SessionChange::Message {
            number,
            publication,
        });
    })?;
    snapshot.each_received(|(session, packet)| {
        if is_moved(session) {
            encoder.push(SessionChange::Receive { session, packet });
        }
    })?;
    snapshot.each_delivery(|row| {
        if is_moved(row.session) {
            encoder.push(SessionChange::Enqueue(Box::new(row)));
        }
    })?;
    for space in change::SPACES {
        snapshot.each_record(space, |key, value| {
            encoder.push_change(&StoreChange::PutRecord { space, key, value });
        })?;
    }
    encoder.flush();
    Ok(())
}

struct SnapshotEncoder<Pass> {
    buffer: BytesMut,
    pass: Pass,
    /// Whether the receiver has ended.
    is_over: bool,
}

impl<Pass: FnMut(Bytes) -> bool> SnapshotEncoder<Pass> {
    fn push(&mut self, change: SessionChange) {
        self.push_change(&StoreChange::Session(change));
    }

    fn push_change(&mut self, change: &StoreChange) {
        if self.is_over {
            return;
        }
        change::push(&mut self.buffer, change);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.buffer.is_empty() && !self.is_over {
            self.is_over = !(self.pass)(self.buffer.split().freeze());
        }
    }
}
