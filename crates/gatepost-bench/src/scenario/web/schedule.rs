//! The open loop: pages that are due at fixed times, whatever the server does.
//!
//! A page whose time has come is fetched by the next client that is free, and its response time
//! counts from when it was due. So a server that stalls delays every page that was due meanwhile.

use std::collections::VecDeque;

use crate::clock::{self, Nanoseconds};
use crate::latency::Latencies;

/// Pages that are added before responses are read again, if more are due.
const ADDED_IN_TURN: u64 = 10_000;

/// The pages that are due.
pub(super) struct PageSchedule {
    start: Nanoseconds,
    measured: std::ops::Range<Nanoseconds>,
    rate: f64,
    /// Pages that were due so far, and when each of those that no client has begun was due.
    made: u64,
    pub(super) waiting: VecDeque<Nanoseconds>,
    /// The connections that are kept and have no request, by their index in the loop.
    pub(super) free: Vec<usize>,
    /// Pages that were due in the measured time, and those of them that ended.
    due: u64,
    pub(super) ended: u64,
    /// The time from when a page was due until the generator noticed.
    pub(super) slip: Latencies,
}

impl PageSchedule {
    /// A schedule at this rate, of which only the pages that are due in `measured` count.
    pub(super) fn new(
        start: Nanoseconds,
        measured: std::ops::Range<Nanoseconds>,
        rate: f64,
    ) -> Self {
        Self {
            start,
            measured,
            rate,
            made: 0,
            waiting: VecDeque::new(),
            free: Vec::new(),
            due: 0,
            ended: 0,
            slip: Latencies::default(),
        }
    }

    /// Pages per second.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether this is within the measured time.
    pub(super) fn is_measured(&self, moment: Nanoseconds) -> bool {
        self.measured.contains(&moment)
    }

    /// Adds the pages of the measured time that a late generator has not noticed yet.
    pub(super) fn advance_to_end(&mut self) {
        self.advance(self.measured.end.saturating_sub(1));
    }

    /// Pages that were due in the measured time and did not end.
    pub(super) fn unanswered(&self) -> u64 {
        self.due - self.ended
    }

    fn next_due(&self) -> Nanoseconds {
        let since = clock::from_seconds(self.made as f64 / self.rate);
        self.start.saturating_add(since)
    }

    /// Adds the pages whose time has come; returns when the next one is due.
    pub(super) fn advance(&mut self, now: Nanoseconds) -> Nanoseconds {
        let last = self.made + ADDED_IN_TURN;
        while self.made < last && self.next_due() <= now {
            let due = self.next_due();
            self.waiting.push_back(due);
            self.slip.record(clock::now().saturating_sub(due));
            self.due += u64::from(self.measured.contains(&due));
            self.made += 1;
        }
        self.next_due()
    }
}
