//! Subscribers within this process: server-sent events, JSON lines, live pages.
//!
//! They get the publications themselves, not bytes. A reader that falls behind loses the oldest
//! and is told how many it missed, in their place.
//!
//! Two ways lead to a reader. Its own task asks for what comes next; or, with a [`Taker`], events
//! are handed over where they are published, once for each batch of the publisher's, as sessions'
//! outboxes are flushed: nobody is woken, and one thread encodes for all. The task is woken only
//! when the taker has no room. Either way events leave the queue under its lock, so in order.

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

/// Takes a reader's events on the thread that publishes.
pub trait Taker: Send + Sync {
    /// Takes events from `next` for as long as it has room, without waiting; tells whether it has
    /// room still. Where it has not, the reader's task is woken, which makes room and calls
    /// [`Reader::pump`]. Called under the reader's lock.
    fn take(&self, next: &mut dyn FnMut() -> Option<Event>) -> bool;
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Publication>>,
    missed: u64,
    /// Traced events that the reader has not taken, by message id.
    traced: Pending,
    reader: Option<Waker>,
    /// Who takes the events, if not the reader's task.
    taker: Option<Arc<dyn Taker>>,
    /// Whether a publisher has it among those to be flushed.
    is_due: bool,
    /// What the backlog held: may come a second time by the live way.
    known: HashSet<MessageId>,
    closed: bool,
}

impl Waiting {
    fn next(&mut self) -> Option<Event> {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            let missed = Some(missed);
            return Some(Event::Gap { missed });
        }
        while let Some(publication) = self.events.pop_front() {
            self.traced
                .settle(publication.id.number(), StepOutcome::Sent);
            if self.known.is_empty() || !self.known.remove(&publication.id) {
                return Some(Event::Publication(publication));
            }
        }
        None
    }

    /// Lets the taker take what it has room for; wakes the task where that is not all.
    fn pump(&mut self) {
        let Some(taker) = self.taker.clone() else {
            return;
        };
        if !taker.take(&mut || self.next())
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
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
    /// Adds a publication; tells whether the publisher is to flush this queue at the end of its
    /// batch.
    pub(crate) fn push(
        &self,
        publication: &Arc<Publication>,
        trace: Option<&Arc<Trace>>,
        core: &Core,
    ) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.events.len() >= self.messages_max {
            // A batch of its own length shall not cost a taker anything.
            waiting.pump();
        }
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
        if waiting.taker.is_some() {
            return !std::mem::replace(&mut waiting.is_due, true);
        }
        if let Some(reader) = waiting.reader.take() {
            drop(waiting);
            reader.wake();
        }
        false
    }

    /// Hands over what was pushed.
    pub(crate) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_due = false;
        waiting.pump();
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
        queue.waiting.lock().known = events.iter().map(|publication| publication.id).collect();
        let gap = has_gap.then_some(Event::Gap { missed: None });
        Self {
            backlog: gap
                .into_iter()
                .chain(events.into_iter().map(Event::Publication))
                .collect(),
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
        if let Some(event) = waiting.next() {
            return Poll::Ready(Some(event));
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

impl Reader {
    /// Hands what comes from now on to `taker`. The caller has written what [`Reader::try_next`]
    /// gave before, until that was nothing.
    pub fn attach(&mut self, taker: Arc<dyn Taker>) {
        let mut waiting = self.queue.waiting.lock();
        waiting.taker = Some(taker);
        waiting.pump();
    }

    /// Hands over what waited for room.
    pub fn pump(&self) {
        self.queue.waiting.lock().pump();
    }

    /// With a taker: waits for the broker's end. Also wakes the task when the taker has no room,
    /// which the caller looks at itself.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.queue.waiting.lock();
        if waiting.closed {
            return Poll::Ready(());
        }
        match &mut waiting.reader {
            Some(reader) => reader.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
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
