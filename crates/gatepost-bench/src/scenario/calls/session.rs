//! One connection: calls in flight, and their responses in the same order.

use std::collections::VecDeque;

use memchr::memmem;

use super::CallsArguments;
use crate::clock::{self, Nanoseconds};
use crate::load::{ConnectionClosed, Conversation, ReceiveOutcome};
use crate::scenario::tally::{MeasurementCounts, Names};

/// The maximum length of a response.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
const NAMES: Names = Names {
    one: "call",
    several: "calls",
    refused: "failed",
};

/// Totals of all connections.
pub(super) struct CallTotals {
    request: Vec<u8>,
    /// The number of initial calls of a new connection; 0 if calls are due at fixed times.
    at_once: usize,
    end_of_answer: memmem::Finder<'static>,
    /// Calls of an open loop that were due in the measured time, and those that were answered.
    due: u64,
    answered: u64,
    pub(super) tally: MeasurementCounts,
}

impl CallTotals {
    pub(super) fn new(
        arguments: &CallsArguments,
        measure_from: Nanoseconds,
        measure_to: Nanoseconds,
    ) -> Self {
        let CallsArguments {
            procedure, size, ..
        } = arguments;
        let is_open = arguments.rate.get() > 0.0;
        Self {
            request: format!("CALL/1 {procedure}\nsize: {size}\n\n").into_bytes(),
            at_once: if is_open {
                0
            } else {
                arguments.in_flight.get()
            },
            end_of_answer: memmem::Finder::new(b"\n\n"),
            due: 0,
            answered: 0,
            tally: if is_open {
                MeasurementCounts::of_schedule(NAMES, measure_from, measure_to)
            } else {
                MeasurementCounts::new(NAMES, measure_from)
            },
        }
    }

    /// Calls of an open loop that were due in the measured time and have no answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.due - self.answered
    }

    fn count(&mut self, answer: &[u8], begun: Nanoseconds, now: Nanoseconds) {
        let is_done = answer.starts_with(b"DONE ");
        if !is_done {
            self.tally
                .failed(|| String::from_utf8_lossy(answer).into_owned());
        }
        if self.at_once == 0 && self.tally.is_measured(begun) {
            self.answered += 1;
        }
        self.tally.count(is_done, begun, now);
    }
}

/// A connection.
#[derive(Default)]
pub(super) struct CallerConnection {
    /// The time at which each call in flight was made, or due.
    begun: VecDeque<Nanoseconds>,
    /// The number of the latest of them that are not sent yet.
    unsent: usize,
}

impl CallerConnection {
    /// Adds a call that is due at this time.
    pub(super) fn call_at(&mut self, due: Nanoseconds, shared: &mut CallTotals) {
        self.begun.push_back(due);
        self.unsent += 1;
        shared.due += u64::from(shared.tally.is_measured(due));
    }

    /// When the oldest call in flight was made, or due.
    pub(super) fn oldest(&self) -> Option<Nanoseconds> {
        self.begun.front().copied()
    }

    /// The requests of the calls that are due.
    pub(super) fn take_due(&mut self, shared: &CallTotals) -> Vec<u8> {
        shared.request.repeat(std::mem::take(&mut self.unsent))
    }
}

impl Conversation<CallTotals> for CallerConnection {
    fn connected(&mut self, shared: &mut CallTotals, outgoing: &mut Vec<u8>) {
        let now = clock::now();
        for _ in 0..shared.at_once {
            self.begun.push_back(now);
            outgoing.extend_from_slice(&shared.request);
        }
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut CallTotals,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let mut taken = 0;
        while let Some(end) = shared.end_of_answer.find(&bytes[taken..]) {
            let answer = &bytes[taken..taken + end];
            taken += end + 2;
            let Some(begun) = self.begun.pop_front() else {
                return ReceiveOutcome::Broken;
            };
            shared.count(answer, begun, now);
            if shared.at_once > 0 {
                self.begun.push_back(now);
                outgoing.extend_from_slice(&shared.request);
            }
        }
        if bytes.len() - taken > ANSWER_MAX_BYTES {
            return ReceiveOutcome::Broken;
        }
        ReceiveOutcome::Taken(taken)
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut CallTotals) {
        shared.tally.count_broken();
        shared
            .tally
            .failed(|| format!("{reason:?}, {} calls under way", self.begun.len()));
    }
}
