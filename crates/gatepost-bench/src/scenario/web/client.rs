//! One client: a request and its response, then the next, each with its time.

use std::sync::Arc;

use super::schedule::PageSchedule;
use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;
use crate::load::{ConnectionClosed, Conversation, ReceiveOutcome, ResponsePart, ResponseReader};
use crate::timeline::Timeline;

/// Totals of all clients.
pub(super) struct WebTotals {
    request: Arc<[u8]>,
    keep_alive: bool,
    /// Requests that end earlier are not counted.
    pub(super) measure_from: Nanoseconds,
    /// Clients that need a new connection.
    pub(super) idle: Vec<usize>,
    /// All pages, including those before the measurement, by which the processes' costs are
    /// divided.
    pub(super) pages: u64,
    pub(super) hits: u64,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    pub(super) response: Latencies,
    pub(super) connect: Latencies,
    pub(super) timeline: Timeline,
    /// Nanoseconds spent in requests, by all clients.
    pub(super) in_requests: Nanoseconds,
    /// The times at which pages are due; absent if each client fetches one page after another.
    pub(super) schedule: Option<PageSchedule>,
}

impl WebTotals {
    pub(super) fn new(
        request: Vec<u8>,
        keep_alive: bool,
        clients: usize,
        measure_from: Nanoseconds,
    ) -> Self {
        Self {
            request: request.into(),
            keep_alive,
            measure_from,
            idle: (0..clients).collect(),
            pages: 0,
            hits: 0,
            errors: 0,
            bytes: 0,
            response: Latencies::default(),
            connect: Latencies::default(),
            timeline: Timeline::from(measure_from),
            in_requests: 0,
            schedule: None,
        }
    }

    /// The bytes of a request.
    pub(super) fn request(&self) -> Arc<[u8]> {
        Arc::clone(&self.request)
    }
}

/// One client's request in progress.
pub(super) struct WebClient {
    number: usize,
    /// When it began to connect.
    dialed: Nanoseconds,
    /// When its request was begun, or was due.
    begun: Nanoseconds,
    /// Whether it has a request; in an open loop it may wait for the next one.
    is_busy: bool,
    /// Its connection's index in the loop, in an open loop.
    index: usize,
    reader: ResponseReader,
    whole: bool,
    /// Whether its connection has brought a response already.
    has_served: bool,
}

impl WebClient {
    pub(super) fn new(number: usize, begun: Nanoseconds) -> Self {
        Self {
            number,
            dialed: begun,
            begun,
            is_busy: true,
            index: 0,
            reader: ResponseReader::default(),
            whole: false,
            has_served: false,
        }
    }

    /// Begins with a page that was due at this time.
    pub(super) fn fetch(&mut self, due: Nanoseconds) {
        self.begun = due;
        self.is_busy = true;
    }

    /// When its request was begun, if it has one.
    pub(super) fn waiting_since(&self) -> Option<Nanoseconds> {
        self.is_busy.then_some(self.begun)
    }

    /// Sets its index in the loop.
    pub(super) const fn keep_index(&mut self, index: usize) {
        self.index = index;
    }

    /// The time that it has spent in its request since the measurement began.
    pub(super) fn in_request(&self, now: Nanoseconds, shared: &WebTotals) -> Nanoseconds {
        if self.is_busy {
            now.saturating_sub(self.begun.max(shared.measure_from))
        } else {
            0
        }
    }

    /// Continues on a kept connection, with the next page if there is one.
    fn next_page(&mut self, now: Nanoseconds, shared: &mut WebTotals, outgoing: &mut Vec<u8>) {
        let due = match &mut shared.schedule {
            None => Some(now),
            Some(schedule) => schedule.waiting.pop_front(),
        };
        self.is_busy = due.is_some();
        if let Some(due) = due {
            self.begun = due;
            outgoing.extend_from_slice(&shared.request);
        } else if let Some(schedule) = &mut shared.schedule {
            schedule.free.push(self.index);
        }
    }

    fn count(&self, now: Nanoseconds, shared: &mut WebTotals) {
        shared.pages += u64::from(self.whole);
        let is_good = self.whole && (200..300).contains(&self.reader.status);
        // In an open loop, a response that came after the end belongs to the response times of the
        // pages that were due before, not to the rate.
        let (is_due, is_in_time) = match &mut shared.schedule {
            None => (now >= shared.measure_from, now >= shared.measure_from),
            Some(schedule) => {
                let is_due = schedule.is_measured(self.begun);
                schedule.ended += u64::from(is_due);
                (is_due, schedule.is_measured(now))
            }
        };
        if is_due && is_good {
            shared.response.record(now.saturating_sub(self.begun));
        } else if is_due {
            shared.errors += 1;
        }
        if is_in_time {
            shared.in_requests += self.in_request(now, shared);
        }
        if is_in_time && is_good {
            shared.hits += 1;
            shared.bytes += self.reader.bytes;
            shared.timeline.add(now, 1);
        }
    }
}

impl Conversation<WebTotals> for WebClient {
    fn connected(&mut self, shared: &mut WebTotals, outgoing: &mut Vec<u8>) {
        let now = clock::now();
        if now >= shared.measure_from {
            shared.connect.record(now - self.dialed);
        }
        outgoing.extend_from_slice(&shared.request);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut WebTotals,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        if !self.is_busy {
            // A response without a request.
            return ReceiveOutcome::Broken;
        }
        match self.reader.read(bytes) {
            ResponsePart::More(taken) => ReceiveOutcome::Taken(taken),
            ResponsePart::Malformed => ReceiveOutcome::Broken,
            ResponsePart::Whole(taken) => {
                self.whole = true;
                if !shared.keep_alive {
                    return ReceiveOutcome::Finished;
                }
                self.count(now, shared);
                self.whole = false;
                self.has_served = true;
                self.reader.reset();
                self.next_page(now, shared, outgoing);
                ReceiveOutcome::Taken(taken)
            }
        }
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut WebTotals) {
        self.whole |= reason == ConnectionClosed::ByServer && self.reader.ends_with_connection();
        // If the server closes a persistent connection between two responses, no request has
        // failed. If it closes one without any response, the request has.
        let between =
            self.has_served && reason == ConnectionClosed::ByServer && self.reader.bytes == 0;
        match &mut shared.schedule {
            Some(schedule) if !self.is_busy => schedule.free.retain(|free| *free != self.index),
            // Its page is still due.
            Some(schedule) if between => schedule.waiting.push_front(self.begun),
            _ if between => {}
            _ => self.count(clock::now(), shared),
        }
        shared.idle.push(self.number);
    }
}
