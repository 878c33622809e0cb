//! The subscribers: one thread's share of them on one loop.

use super::{Plan, Received};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::load::{self, Closed, Conversation, Dialer, Loop};
use crate::pubsub::{Event, Stamp, Tracker};
use gatepost_mqtt::PacketId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Subscribers that are being connected at the same time, per thread.
const CONNECTING_MAX: usize = 100;
/// A loop looks at least this often whether it should end.
const LOOK: Nanoseconds = clock::SECOND / 50;

/// What the receiving threads and the conductor tell each other.
#[derive(Default)]
pub(super) struct Stage {
    ready: AtomicUsize,
    received: AtomicU64,
    measure_from: AtomicU64,
    measure_to: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Stage {
    pub(super) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Set before the first message is sent, so that every receiver sees it in time.
    pub(super) fn measure_between(&self, from: Nanoseconds, to: Nanoseconds) {
        self.measure_to.store(to, Ordering::Relaxed);
        self.measure_from.store(from, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Why a subscriber could not get ready.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().ok()?.clone()
    }

    pub(super) fn describe(&self, span: Nanoseconds) -> String {
        let received = self.received();
        format!(
            "{received} received, {:.0}/s",
            received as f64 / clock::seconds(span.max(1))
        )
    }

    fn fail(&self, reason: String) {
        // Poisoned only by a panic, which is reported in its own right.
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(reason);
        }
    }
}

/// One thread's counts.
pub(super) struct Receivers<'plan> {
    plan: &'plan Plan,
    stage: &'plan Stage,
    connecting: usize,
    from: Nanoseconds,
    to: Nanoseconds,
    /// Since the last time that it was told to the stage.
    untold: u64,
    result: Received,
}

impl<'plan> Receivers<'plan> {
    /// Connects this worker's subscribers, and receives until the stage says stop.
    pub(super) fn run(
        plan: &'plan Plan,
        stage: &'plan Stage,
        worker: usize,
        workers: usize,
    ) -> Result<Received, BenchError> {
        let result = Self::receive(plan, stage, worker, workers);
        if let Err(error) = &result {
            stage.fail(error.to_string());
        }
        result
    }

    fn receive(
        plan: &'plan Plan,
        stage: &'plan Stage,
        worker: usize,
        workers: usize,
    ) -> Result<Received, BenchError> {
        let mut connections: Loop<Subscriber> = Loop::new()?;
        let mut dialer = Dialer::new(plan.address);
        let mut shared = Self {
            plan,
            stage,
            connecting: 0,
            from: 0,
            to: 0,
            untold: 0,
            result: Received {
                latencies: Latencies::default(),
                ..Received::default()
            },
        };
        let mut waiting = (worker..plan.subscribers).step_by(workers);
        let mut more = true;
        while !stage.stop.load(Ordering::Relaxed) {
            while more && shared.connecting < CONNECTING_MAX {
                let Some(number) = waiting.next() else {
                    more = false;
                    break;
                };
                connections.add(dialer.dial()?, Subscriber::new(plan, number))?;
                shared.connecting += 1;
            }
            if shared.from == 0 {
                shared.from = stage.measure_from.load(Ordering::Acquire);
                shared.to = stage.measure_to.load(Ordering::Relaxed);
            }
            connections.turn(clock::now() + LOOK, &mut shared)?;
            let untold = std::mem::take(&mut shared.untold);
            stage.received.fetch_add(untold, Ordering::Relaxed);
        }
        let mut result = shared.result;
        let trackers = connections
            .into_conversations()
            .map(|one| (one.publisher, one.tracker));
        result.trackers.extend(trackers);
        Ok(result)
    }

    /// Before it was ready that ends the run; later it is a figure.
    fn lost_subscriber(&mut self, subscriber: &Subscriber, reason: String) {
        if subscriber.phase == Phase::Receiving {
            self.result.disconnected.push(reason);
        } else {
            self.stage
                .fail(format!("subscriber {}: {reason}", subscriber.number));
        }
    }

    fn count(&mut self, due: Nanoseconds, now: Nanoseconds) {
        self.untold += 1;
        self.result.in_time += u64::from((self.from..self.to).contains(&now));
        if due < self.from || due >= self.to {
            return;
        }
        self.result.latencies.record(now.saturating_sub(due));
        let second = ((now - self.from) / clock::SECOND) as usize;
        if second >= self.result.by_second.len() {
            self.result.by_second.resize(second + 1, 0);
        }
        self.result.by_second[second] += 1;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    LoggingIn,
    Subscribing,
    Receiving,
}

struct Subscriber {
    number: usize,
    publisher: u16,
    phase: Phase,
    tracker: Tracker,
}

impl Subscriber {
    fn new(plan: &Plan, number: usize) -> Self {
        Self {
            number,
            publisher: plan.publisher_of(number),
            phase: Phase::LoggingIn,
            tracker: Tracker::default(),
        }
    }

    fn log_in(&self, shared: &Receivers<'_>, outgoing: &mut Vec<u8>) {
        let client_id = format!("bench-{:x}-s{}", shared.plan.run, self.number);
        shared.plan.dialect.login(&client_id, outgoing);
    }

    fn handle(
        &mut self,
        event: Event<'_>,
        now: Nanoseconds,
        shared: &mut Receivers<'_>,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), String> {
        let plan = shared.plan;
        match (event, self.phase) {
            (Event::Publication { payload, packet_id }, _) => {
                if let Some(packet_id) = packet_id {
                    plan.dialect.acknowledge(packet_id, outgoing);
                }
                match Stamp::read(payload).filter(|stamp| stamp.publisher == self.publisher) {
                    Some(stamp) => {
                        self.tracker.see(stamp.sequence);
                        shared.count(stamp.due, now);
                    }
                    None => shared.result.foreign += 1,
                }
            }
            (Event::Greeting, Phase::LoggingIn) => self.log_in(shared, outgoing),
            (Event::Ready | Event::Subscribed { granted: true }, Phase::LoggingIn) => {
                let topic = plan.topic(self.publisher);
                plan.dialect
                    .subscribe(&topic, PacketId::MIN, plan.qos, outgoing);
                self.phase = Phase::Subscribing;
            }
            (Event::Subscribed { granted: true }, Phase::Subscribing) => {
                self.phase = Phase::Receiving;
                shared.connecting -= 1;
                shared.stage.ready.fetch_add(1, Ordering::Relaxed);
            }
            (Event::Subscribed { granted: false }, _) => return Err("subscription refused".into()),
            (Event::Refused(reason), _) => return Err(format!("login refused: {reason}")),
            (Event::Ping, _) => plan.dialect.pong(outgoing),
            _ => {}
        }
        Ok(())
    }
}

impl Conversation<Receivers<'_>> for Subscriber {
    fn connected(&mut self, shared: &mut Receivers<'_>, outgoing: &mut Vec<u8>) {
        if shared.plan.dialect.client_begins() {
            self.log_in(shared, outgoing);
        }
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut Receivers<'_>,
        outgoing: &mut Vec<u8>,
    ) -> load::Received {
        let mut taken = 0;
        loop {
            let (event, length) = match shared.plan.dialect.next(&bytes[taken..]) {
                Ok(Some(next)) => next,
                Ok(None) => return load::Received::Taken(taken),
                Err(reason) => {
                    shared.lost_subscriber(self, reason);
                    return load::Received::Broken;
                }
            };
            taken += length;
            if let Err(reason) = self.handle(event, now, shared, outgoing) {
                shared.lost_subscriber(self, reason);
                return load::Received::Broken;
            }
        }
    }

    fn closed(&mut self, reason: Closed, shared: &mut Receivers<'_>) {
        if reason != Closed::Broken {
            shared.lost_subscriber(self, format!("{reason:?}"));
        }
        // What it did receive counts, and what it did not is lost.
        shared
            .result
            .trackers
            .push((self.publisher, std::mem::take(&mut self.tracker)));
    }
}
