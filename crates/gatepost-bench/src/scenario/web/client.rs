//! One client: a request and its response, then the next, each with its time.

use std::sync::Arc;

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
        }
    }
}

/// One client's request in progress.
pub(super) struct WebClient {
    number: usize,
    begun: Nanoseconds,
    reader: ResponseReader,
    whole: bool,
}

impl WebClient {
    pub(super) fn new(number: usize, begun: Nanoseconds) -> Self {
        Self {
            number,
            begun,
            reader: ResponseReader::default(),
            whole: false,
        }
    }

    /// The time that it has spent in its request since the measurement began.
    pub(super) fn in_request(&self, now: Nanoseconds, shared: &WebTotals) -> Nanoseconds {
        now.saturating_sub(self.begun.max(shared.measure_from))
    }

    fn count(&self, now: Nanoseconds, shared: &mut WebTotals) {
        shared.pages += u64::from(self.whole);
        if now < shared.measure_from {
            return;
        }
        shared.in_requests += self.in_request(now, shared);
        if self.whole && (200..300).contains(&self.reader.status) {
            shared.hits += 1;
            shared.bytes += self.reader.bytes;
            shared.response.record(now - self.begun);
            shared.timeline.add(now, 1);
        } else {
            shared.errors += 1;
        }
    }
}

impl Conversation<WebTotals> for WebClient {
    fn connected(&mut self, shared: &mut WebTotals, outgoing: &mut Vec<u8>) {
        let now = clock::now();
        if now >= shared.measure_from {
            shared.connect.record(now - self.begun);
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
                self.reader.reset();
                self.begun = now;
                outgoing.extend_from_slice(&shared.request);
                ReceiveOutcome::Taken(taken)
            }
        }
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut WebTotals) {
        self.whole |= reason == ConnectionClosed::ByServer && self.reader.ends_with_connection();
        // If the server closes a persistent connection between two responses, no request has
        // failed.
        let between =
            shared.keep_alive && reason == ConnectionClosed::ByServer && self.reader.bytes == 0;
        if !between {
            self.count(clock::now(), shared);
        }
        shared.idle.push(self.number);
    }
}
