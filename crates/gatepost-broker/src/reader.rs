//! Subscribers within this process: server-sent events, JSON lines, live pages.
//!
//! They get the publications themselves, not bytes. A reader that falls behind loses the oldest
//! and is told how many it missed, in their place.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use gatepost_message::{MessageId, Publication, TopicFilter};
use parking_lot::Mutex;

use crate::core::Core;
use crate::counters::DropCause;
use crate::subscription::Subscription;
use crate::trace::{Pending, StepOutcome, Trace};

/// From where a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Since {
    /// Only what comes from now on.
    #[default]
    Now,
    /// First what is remembered after this id; a gap is told if older ones are forgotten.
    After(MessageId),
    /// First everything remembered.
    Everything,
    /// First the last publication of each topic.
    Latest,
}

/// How a reader wishes to be served.
#[derive(Debug, Clone, Default)]
pub struct ReaderOptions {
    /// From where it starts.
    pub since: Since,
    /// Who it is, for the list of sessions.
    pub name: String,
    /// What it is, for the list of sessions: `sse`, `jsonl`.
    pub kind: &'static str,
}

/// What a reader gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A publication.
    Publication(Arc<Publication>),
    /// So many are missing here.
    Gap {
        /// How many; `None` where nobody knows, because they were forgotten.
        missed: Option<u64>,
    },
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Publication>>,
    missed: u64,
    /// Traced events that the reader has not taken, by message id.
    traced: Pending,
    reader: Option<Waker>,
    closed: bool,
}

/// Between the broker and one reader.
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) filters: usize,
    waiting: Mutex<Waiting>,
    messages_max: usize,
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl Queue {
    pub(crate) fn push(
        &self,
        publication: &Arc<Publication>,
        trace: Option<&Arc<Trace>>,
        core: &Core,
    ) {
        let mut waiting = self.waiting.lock();
        if waiting.events.len() >= self.messages_max {
            if let Some(lost) = waiting.events.pop_front() {
                let outcome = StepOutcome::Dropped(DropCause::StreamFull);
                waiting.traced.settle(lost.id.number(), outcome);
            }
            waiting.missed += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
            core.counters.drop_messages(DropCause::StreamFull, 1);
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        waiting.events.push_back(publication.clone());
        if let Some(trace) = trace {
            let step = trace.at_reader(&self.name, self.kind, publication);
            waiting.traced.add(publication.id.number(), step);
        }
        if let Some(reader) = waiting.reader.take() {
            drop(waiting);
            reader.wake();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().events.len()
    }

    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
    }
}

/// A running subscription within this process; dropping it ends it.
pub struct Reader {
    core: Arc<Core>,
    queue: Arc<Queue>,
    filters: Vec<TopicFilter>,
    /// What was remembered when it began, oldest first, and a gap before it.
    backlog: VecDeque<Event>,
    /// Of the backlog: may come a second time by the live way.
    known: HashSet<MessageId>,
}

impl Reader {
    pub(crate) fn new(core: Arc<Core>, filters: &[TopicFilter], options: ReaderOptions) -> Self {
        let queue = Arc::new(Queue {
            name: options.name,
            kind: options.kind,
            filters: filters.len(),
            waiting: Mutex::default(),
            messages_max: core.settings.stream_messages_max.max(1),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        // Live first, remembered second: nothing falls between.
        for filter in filters {
            core.index
                .insert(filter, Subscription::Reader(queue.clone()));
        }
        core.readers.lock().push(Arc::downgrade(&queue));
        let (events, has_gap) = core.recent.since(filters, options.since);
        let known = events.iter().map(|publication| publication.id).collect();
        let gap = has_gap.then_some(Event::Gap { missed: None });
        Self {
            backlog: gap
                .into_iter()
                .chain(events.into_iter().map(Event::Publication))
                .collect(),
            known,
            core,
            queue,
            filters: filters.to_vec(),
        }
    }

    /// The next event if it is already there.
    pub fn try_next(&mut self) -> Option<Event> {
        match self.poll_ready(None) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// The next event; `None` when the broker ends. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Reader::next`], for those who poll.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_ready(Some(context.waker()))
    }

    fn poll_ready(&mut self, waker: Option<&Waker>) -> Poll<Option<Event>> {
        if let Some(event) = self.backlog.pop_front() {
            return Poll::Ready(Some(event));
        }
        let mut waiting = self.queue.waiting.lock();
        loop {
            let missed = std::mem::take(&mut waiting.missed);
            if missed > 0 {
                let missed = Some(missed);
                return Poll::Ready(Some(Event::Gap { missed }));
            }
            let Some(publication) = waiting.events.pop_front() else {
                break;
            };
            let number = publication.id.number();
            waiting.traced.settle(number, StepOutcome::Sent);
            if !self.known.remove(&publication.id) {
                return Poll::Ready(Some(Event::Publication(publication)));
            }
        }
        if waiting.closed {
            return Poll::Ready(None);
        }
        if let Some(waker) = waker {
            waiting.reader = Some(waker.clone());
        }
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for filter in &self.filters {
            self.core.index.remove(filter, &|subscription| {
                matches!(subscription, Subscription::Reader(queue) if Arc::ptr_eq(queue, &self.queue))
            });
        }
    }
}
