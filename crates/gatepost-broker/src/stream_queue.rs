//! The queue between the broker and one reader within this process.
//!
//! Events leave it in one of two ways, always under its lock, so in order. Either the reader's own
//! task takes the next one; or, with an [`EventConsumer`], the publishing thread passes events on,
//! once for each batch of the publisher, like the flush of a session's outbox: no task is woken,
//! and one thread encodes for all. The reader's task is woken only when the consumer is full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::counters::{Counters, DropCause};
use crate::recent::Remembered;
use crate::trace::{OpenSteps, StepOutcome, Trace};

/// An item of a reader's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// A publication.
    Publication(Remembered),
    /// Events are missing at this position.
    Gap {
        /// The number of missed events; `None` where that is unknown, because they were forgotten.
        missed: Option<u64>,
    },
}

/// Receives a reader's events on the thread that publishes.
pub trait EventConsumer: Send + Sync {
    /// Takes events from `next` until it is full, without waiting; returns whether it can take
    /// more. Otherwise the reader's task is woken, which frees space and calls `Reader::pump`.
    /// Called under the reader's lock.
    fn take(&self, next: &mut dyn FnMut() -> Option<StreamEvent>) -> bool;
}

#[derive(Default)]
pub(crate) struct StreamState {
    events: VecDeque<Remembered>,
    missed: u64,
    /// Traced events that the reader has not taken, by message id.
    traced: OpenSteps,
    pub(crate) reader: Option<Waker>,
    /// Receives the events in place of the reader's task.
    pub(crate) consumer: Option<Arc<dyn EventConsumer>>,
    /// Whether a publisher has scheduled this queue to be flushed.
    is_due: bool,
    pub(crate) closed: bool,
}

impl StreamState {
    pub(crate) fn next(&mut self) -> Option<StreamEvent> {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            let missed = Some(missed);
            return Some(StreamEvent::Gap { missed });
        }
        let publication = self.events.pop_front()?;
        self.traced
            .settle(publication.id.number(), StepOutcome::Sent);
        Some(StreamEvent::Publication(publication))
    }

    /// Passes events to the consumer, and wakes the task if the consumer is full.
    pub(crate) fn pump(&mut self) {
        // Taken out for the call, which borrows the queue: cheaper than counting a reference.
        let Some(consumer) = self.consumer.take() else {
            return;
        };
        let takes_more = consumer.take(&mut || self.next());
        self.consumer = Some(consumer);
        if !takes_more && let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The queue between the broker and one reader.
pub(crate) struct StreamQueue {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) filters: usize,
    pub(crate) state: Mutex<StreamState>,
    pub(crate) messages_max: usize,
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl StreamQueue {
    /// Adds a publication; returns whether the publisher is to flush this queue at the end of its
    /// batch.
    pub(crate) fn push(
        &self,
        remembered: &Remembered,
        trace: Option<&Arc<Trace>>,
        counters: &Counters,
    ) -> bool {
        let mut state = self.state.lock();
        if state.events.len() >= self.messages_max {
            // A batch as long as the queue must not lose events of a consumer.
            state.pump();
        }
        if state.events.len() >= self.messages_max {
            if let Some(lost) = state.events.pop_front() {
                let outcome = StepOutcome::Dropped(DropCause::StreamFull);
                state.traced.settle(lost.id.number(), outcome);
            }
            state.missed += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
            counters.drop_messages(DropCause::StreamFull, 1);
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        state.events.push_back(remembered.clone());
        if let Some(trace) = trace {
            let step = trace.at_reader(&self.name, self.kind, &remembered.publication);
            state.traced.add(remembered.id.number(), step);
        }
        if state.consumer.is_some() {
            return !std::mem::replace(&mut state.is_due, true);
        }
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
        false
    }

    /// Passes the pushed events to the consumer.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        state.is_due = false;
        state.pump();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().events.len()
    }

    /// Wakes the reader's task.
    pub(crate) fn wake(&self) {
        let reader = self.state.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}
