//! An entry of the log, from its forming until its publishers know the outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use gatepost_store::StoreError;

use super::pending::PendingAppend;
use crate::log::bounds::AppendBounds;
use crate::log::identity::LogIdentity;

/// An entry to be stored.
pub(crate) struct LogEntry {
    /// The message id, which the engine stores once.
    pub(crate) id: String,
    pub(crate) bytes: Bytes,
    /// The identity of the publication, if it is kept in the database.
    pub(crate) kept: Option<LogIdentity>,
    pub(super) publications: usize,
    weight: usize,
    pending: Vec<(Arc<PendingAppend>, usize)>,
    pub(super) deadline: Option<Instant>,
    /// Whether its senders have the outcome.
    is_settled: AtomicBool,
    /// Whether it was read back from the log. Its acknowledgement may have been lost.
    is_in_log: AtomicBool,
}

impl LogEntry {
    pub(super) fn new(id: String, kept: Option<LogIdentity>, deadline: Option<Instant>) -> Self {
        Self {
            id,
            bytes: Bytes::new(),
            kept,
            publications: 0,
            weight: 0,
            pending: Vec::new(),
            deadline,
            is_settled: AtomicBool::new(false),
            is_in_log: AtomicBool::new(false),
        }
    }

    /// Counts a publication of this flush, whose bytes were added.
    pub(super) fn note(&mut self, flush: &Arc<PendingAppend>, weight: usize) {
        self.publications += 1;
        self.weight += weight;
        match self.pending.last_mut() {
            Some((pending, count)) if Arc::ptr_eq(pending, flush) => *count += 1,
            _ => self.pending.push((flush.clone(), 1)),
        }
    }

    pub(super) fn note_in_log(&self) {
        self.is_in_log.store(true, Ordering::Release);
    }

    pub(super) fn is_in_log(&self) -> bool {
        self.is_in_log.load(Ordering::Acquire)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    pub(super) fn settle(&self, outcome: &Result<(), StoreError>, bounds: &AppendBounds) {
        if !self.is_settled.swap(true, Ordering::AcqRel) {
            for (pending, count) in &self.pending {
                pending.settle(*count, outcome.clone());
            }
            if outcome.is_err() {
                bounds.note_refused(self.publications);
            }
            bounds.remove(self.publications, self.weight);
        }
    }
}
