//! The open loop: pages that are due at fixed times, whatever the server does.
//!
//! A page whose time has come is fetched by the next client that is free, and its response time
//! counts from when it was due. So a server that stalls delays every page that was due meanwhile.

use std::collections::VecDeque;

use super::client::{WebClient, WebTotals};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{Dialer, Loop};

/// Pages that are added before responses are read again, if more are due.
const ADDED_IN_TURN: u64 = 10_000;
/// The time without a response after which the pages that wait for one are counted as unanswered.
const PATIENCE: Nanoseconds = 2 * clock::SECOND;

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

    /// Pages that were due in the measured time and did not end.
    pub(super) fn unanswered(&self) -> u64 {
        self.due - self.ended
    }

    fn next_due(&self) -> Nanoseconds {
        self.start + clock::from_seconds(self.made as f64 / self.rate)
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

/// Lets free clients fetch the pages that wait.
pub(super) fn dispatch(
    clients: &mut Loop<WebClient>,
    dialer: &mut Dialer,
    shared: &mut WebTotals,
) -> Result<(), BenchError> {
    while let Some(schedule) = &mut shared.schedule {
        let Some(&due) = schedule.waiting.front() else {
            break;
        };
        if let Some(index) = schedule.free.pop() {
            schedule.waiting.pop_front();
            if let Some(client) = clients.conversation(index) {
                client.fetch(due);
            }
            let request = shared.request();
            clients.send(index, &request, shared);
            continue;
        }
        let Some(number) = shared.idle.pop() else {
            break;
        };
        let dialed = clock::now();
        let Ok(socket) = dialer.dial() else {
            shared.errors += 1;
            shared.idle.push(number);
            break;
        };
        schedule.waiting.pop_front();
        let index = clients.add(socket, WebClient::new(number, dialed))?;
        if let Some(client) = clients.conversation(index) {
            client.fetch(due);
            client.keep_index(index);
        }
    }
    Ok(())
}

/// Fetches the pages that are still due after the end, until nothing has come for a while: the
/// slowest ones would otherwise be missing from the response times.
pub(super) fn finish(
    clients: &mut Loop<WebClient>,
    dialer: &mut Dialer,
    shared: &mut WebTotals,
) -> Result<(), BenchError> {
    if interrupted() {
        return Ok(());
    }
    let unanswered = |shared: &WebTotals| {
        let schedule = shared.schedule.as_ref();
        schedule.map_or(0, PageSchedule::unanswered)
    };
    if let Some(schedule) = &mut shared.schedule {
        // A generator that was late may not have noticed the last ones.
        schedule.advance(schedule.measured.end.saturating_sub(1));
    }
    let (mut last, mut changed) = (unanswered(shared), clock::now());
    while last > 0 && clock::now() - changed < PATIENCE && !interrupted() {
        dispatch(clients, dialer, shared)?;
        clients.turn(clock::now() + clock::SECOND / 50, shared)?;
        if unanswered(shared) != last {
            (last, changed) = (unanswered(shared), clock::now());
        }
    }
    Ok(())
}
