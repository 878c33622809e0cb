//! The subscribers: one thread's share of them on one loop.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use gatepost_mqtt::PacketId;

use super::measured::ReceiveTotals;
use super::settings::Plan;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::load::{self, ConnectionClosed, Conversation, Loop};
use crate::pubsub::{ClientName, MessageStamp, PacketEvent, PacketReader, Tracker};

/// Number of subscribers that connect at the same time, per thread.
const CONNECTING_MAX: usize = 100;
/// The interval at which a loop checks whether to end.
const CHECK_INTERVAL: Nanoseconds = clock::SECOND / 50;

/// State shared by the receiving threads and the conductor.
#[derive(Default)]
pub(crate) struct FanoutProgress {
    ready: AtomicUsize,
    received: AtomicU64,
    /// Messages overtaken by later ones that have not arrived yet.
    missing: AtomicI64,
    measure_from: AtomicU64,
    measure_to: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl FanoutProgress {
    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn missing(&self) -> i64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Set before the first message is sent, so that every receiver sees it in time.
    pub(crate) fn measure_between(&self, from: Nanoseconds, to: Nanoseconds) {
        self.measure_to.store(to, Ordering::Relaxed);
        self.measure_from.store(from, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The reason why a subscriber could not get ready.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().ok()?.clone()
    }

    pub(crate) fn describe(&self, span: Nanoseconds) -> String {
        let rate = self.received() as f64 / clock::seconds(span.max(1));
        format!("{rate:.0}/s, {} missing", self.missing())
    }

    fn fail(&self, reason: String) {
        // Poisoned only by a panic, which is reported separately.
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(reason);
        }
    }
}

/// One thread's counts.
pub(crate) struct Receivers<'plan> {
    plan: &'plan Plan,
    stage: &'plan FanoutProgress,
    connecting: usize,
    from: Nanoseconds,
    to: Nanoseconds,
    /// Deliveries since the last report to the stage.
    unreported: u64,
    unreported_missing: i64,
    result: ReceiveTotals,
}

impl<'plan> Receivers<'plan> {
    /// Connects this worker's subscribers and receives until the stage is stopped.
    pub(crate) fn run(
        plan: &'plan Plan,
        stage: &'plan FanoutProgress,
        worker: usize,
        workers: usize,
    ) -> Result<ReceiveTotals, BenchError> {
        let result = Self::receive(plan, stage, worker, workers);
        if let Err(error) = &result {
            stage.fail(error.to_string());
        }
        result
    }

    fn receive(
        plan: &'plan Plan,
        stage: &'plan FanoutProgress,
        worker: usize,
        workers: usize,
    ) -> Result<ReceiveTotals, BenchError> {
        let mut connections: Loop<FanoutSubscriber> = Loop::new()?;
        let mut dialer = plan.subscribe_at.dialer();
        let mut shared = Self {
            plan,
            stage,
            connecting: 0,
            from: 0,
            to: 0,
            unreported: 0,
            unreported_missing: 0,
            result: ReceiveTotals::default(),
        };
        let mut waiting = plan.subscriber_share.clone().skip(worker).step_by(workers);
        let mut more = true;
        while !stage.stop.load(Ordering::Relaxed) {
            while more && shared.connecting < CONNECTING_MAX {
                let Some(number) = waiting.next() else {
                    more = false;
                    break;
                };
                connections.add(dialer.dial()?, FanoutSubscriber::new(plan, number))?;
                shared.connecting += 1;
            }
            if shared.from == 0 {
                shared.from = stage.measure_from.load(Ordering::Acquire);
                shared.to = stage.measure_to.load(Ordering::Relaxed);
            }
            connections.turn(clock::now() + CHECK_INTERVAL, &mut shared)?;
            let unreported = std::mem::take(&mut shared.unreported);
            stage.received.fetch_add(unreported, Ordering::Relaxed);
            let missing = std::mem::take(&mut shared.unreported_missing);
            stage.missing.fetch_add(missing, Ordering::Relaxed);
        }
        let mut result = shared.result;
        let trackers = connections
            .into_conversations()
            .map(|one| (one.publisher, one.tracker));
        result.trackers.extend(trackers);
        Ok(result)
    }

    /// Before the run starts, a lost subscriber ends it; later it is a figure.
    fn lost_subscriber(&mut self, subscriber: &FanoutSubscriber, reason: String) {
        if subscriber.phase == SubscriberPhase::Receiving {
            self.result.disconnected.push(reason);
        } else {
            self.stage
                .fail(format!("subscriber {}: {reason}", subscriber.number));
        }
    }

    fn count(&mut self, stamp: MessageStamp, now: Nanoseconds) {
        self.unreported += 1;
        self.result.in_time += u64::from((self.from..self.to).contains(&now));
        let due = stamp
            .due
            .saturating_add_signed(self.plan.clock_shift(stamp.publisher));
        if (self.from..self.to).contains(&due) {
            self.result
                .count(due - self.from, now.saturating_sub(self.from));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriberPhase {
    LoggingIn,
    Subscribing,
    Receiving,
}

struct FanoutSubscriber {
    number: usize,
    publisher: u16,
    phase: SubscriberPhase,
    reader: PacketReader,
    tracker: Tracker,
}

impl FanoutSubscriber {
    fn new(plan: &Plan, number: usize) -> Self {
        Self {
            number,
            publisher: plan.publisher_of(number),
            phase: SubscriberPhase::LoggingIn,
            reader: plan.subscribe_at.reader(),
            tracker: Tracker::default(),
        }
    }

    fn client(&self, plan: &Plan) -> ClientName {
        ClientName {
            id: format!("bench-{:x}-s{}", plan.run, self.number),
            number: self.number,
        }
    }

    fn is_ready(&mut self, shared: &mut Receivers<'_>) {
        self.phase = SubscriberPhase::Receiving;
        shared.connecting -= 1;
        shared.stage.ready.fetch_add(1, Ordering::Relaxed);
    }

    fn handle(
        &mut self,
        event: PacketEvent<'_>,
        now: Nanoseconds,
        shared: &mut Receivers<'_>,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (plan, broker) = (shared.plan, &shared.plan.subscribe_at);
        match (event, self.phase) {
            (PacketEvent::Publication { payload, answer }, _) => {
                if let Some(ack) = answer {
                    broker.acknowledge(ack, outgoing);
                }
                match MessageStamp::read(payload).filter(|stamp| stamp.publisher == self.publisher)
                {
                    Some(stamp) => {
                        let duplicates = self.tracker.duplicates();
                        shared.unreported_missing += self.tracker.record(stamp.sequence);
                        // A server does not gain a delivery by sending a message twice.
                        if self.tracker.duplicates() == duplicates {
                            shared.count(stamp, now);
                        }
                    }
                    None => shared.result.foreign += 1,
                }
            }
            (PacketEvent::Greeting, SubscriberPhase::LoggingIn) => {
                broker.login(&self.client(plan), outgoing);
            }
            (
                PacketEvent::Ready | PacketEvent::Subscribed { granted: true },
                SubscriberPhase::LoggingIn,
            ) => {
                let topic = plan.topic(self.publisher);
                broker.subscribe(&topic, PacketId::MIN, plan.qos, outgoing);
                self.phase = SubscriberPhase::Subscribing;
            }
            (PacketEvent::Subscribed { granted: true }, SubscriberPhase::Subscribing)
            | (PacketEvent::Streaming, SubscriberPhase::LoggingIn) => self.is_ready(shared),
            (PacketEvent::Subscribed { granted: false }, _) => {
                return Err("subscription refused".into());
            }
            (PacketEvent::Refused(reason), _) => return Err(format!("login refused: {reason}")),
            (PacketEvent::Answer(ack), _) => broker.acknowledge(ack, outgoing),
            (PacketEvent::Ping, _) => broker.pong(outgoing),
            _ => {}
        }
        Ok(())
    }
}

impl Conversation<Receivers<'_>> for FanoutSubscriber {
    fn connected(&mut self, shared: &mut Receivers<'_>, outgoing: &mut Vec<u8>) {
        let plan = shared.plan;
        let topic = plan.topic(self.publisher);
        plan.subscribe_at.open(&self.client(plan), &topic, outgoing);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut Receivers<'_>,
        outgoing: &mut Vec<u8>,
    ) -> load::ReceiveOutcome {
        // Taken out while its events are handled, since they borrow from it.
        let mut reader = std::mem::take(&mut self.reader);
        let read = reader.read(bytes, |event| self.handle(event, now, shared, outgoing));
        self.reader = reader;
        match read {
            Ok(taken) => load::ReceiveOutcome::Taken(taken),
            Err(reason) => {
                shared.lost_subscriber(self, reason);
                load::ReceiveOutcome::Broken
            }
        }
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut Receivers<'_>) {
        if reason != ConnectionClosed::Broken {
            shared.lost_subscriber(self, format!("{reason:?}"));
        }
        // Messages that it received count, the others are lost.
        shared
            .result
            .trackers
            .push((self.publisher, std::mem::take(&mut self.tracker)));
    }
}
