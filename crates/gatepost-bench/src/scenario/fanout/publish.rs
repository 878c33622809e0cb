//! The publishers: an open-loop schedule on a separate thread.

use std::num::NonZeroU64;

use gatepost_message::Qos;

use super::pending::{PendingAcknowledgements, packet_id};
use super::settings::Plan;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{ConnectionClosed, Conversation, Loop, ReceiveOutcome};
use crate::pubsub::{ClientName, MessageStamp, PacketEvent, PacketReader};

/// The time within which the publishers must be ready.
const READY_SECONDS: u64 = 30;
/// The permitted delay of wake-ups by the kernel, in nanoseconds: the minimum.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;
/// The usual delay of waking a sleeping thread, in nanoseconds; so the thread wakes this much
/// earlier, and polls the clock from then on.
const WAKE_EARLY: Nanoseconds = 150_000;
/// The maximum share of the time between messages that is spent polling.
const WATCHED_PART: f64 = 0.125;
/// The time after the end at which messages that are still not sent are given up. Without it, a
/// rate of ten times the capacity would make a run ten times as long.
const LATE_MAX: Nanoseconds = clock::SECOND;
/// While messages are late, acknowledgements are processed once in this number of messages.
const SENT_IN_TURN: u64 = 64;
/// Bytes of one publisher that wait for the server to read them; then the schedule waits too.
const UNSENT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The interval at which a schedule that waits looks again.
const LOOK_AGAIN: Nanoseconds = clock::SECOND / 1_000;

/// Publishers that are logged in.
pub(crate) struct Publishers<'plan> {
    plan: &'plan Plan,
    connections: Loop<LoadPublisher>,
    shared: PublisherTotals<'plan>,
    /// The connection of each publisher on this host.
    indices: Vec<usize>,
}

/// The publication.
pub(crate) struct PublishedRun<'plan> {
    publishers: Publishers<'plan>,
    /// Messages sent by each publisher.
    pub(crate) sent: Vec<u32>,
    /// Messages that were due but so late that they were given up.
    pub(crate) given_up: u64,
    /// The schedule slippage of messages.
    pub(crate) slip: Latencies,
}

struct PublisherTotals<'plan> {
    plan: &'plan Plan,
    ready: usize,
    acknowledged: u64,
    /// From when a publication was due until it was acknowledged, of the measured time.
    acknowledgements: Latencies,
    measured_from: Nanoseconds,
    failure: Option<String>,
}

impl PublisherTotals<'_> {
    fn count_acknowledged(&mut self, due: Nanoseconds, now: Nanoseconds) {
        self.acknowledged += 1;
        if due >= self.measured_from {
            self.acknowledgements.record(now.saturating_sub(due));
        }
    }
}

struct LoadPublisher {
    number: u16,
    ready: bool,
    reader: PacketReader,
    pending: PendingAcknowledgements,
}

impl LoadPublisher {
    fn client(&self, plan: &Plan) -> ClientName {
        ClientName {
            id: format!("bench-{:x}-p{}", plan.run, self.number),
            number: self.number.into(),
        }
    }

    fn is_ready(&mut self, shared: &mut PublisherTotals<'_>) {
        self.ready = true;
        shared.ready += 1;
    }

    fn handle(
        &mut self,
        event: PacketEvent<'_>,
        now: Nanoseconds,
        shared: &mut PublisherTotals<'_>,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), String> {
        let broker = &shared.plan.publish_at;
        match event {
            PacketEvent::Greeting => broker.login(&self.client(shared.plan), outgoing),
            PacketEvent::Ready | PacketEvent::Subscribed { .. } if !self.ready => {
                self.is_ready(shared);
            }
            PacketEvent::Acknowledged { packet_id } => {
                if let Some(due) = self.pending.acknowledged(packet_id) {
                    shared.count_acknowledged(due, now);
                }
            }
            PacketEvent::Answer(ack) => broker.acknowledge(ack, outgoing),
            PacketEvent::Ping => broker.pong(outgoing),
            PacketEvent::Refused(reason) => return Err(reason),
            _ => {}
        }
        Ok(())
    }
}

impl Conversation<PublisherTotals<'_>> for LoadPublisher {
    fn connected(&mut self, shared: &mut PublisherTotals<'_>, outgoing: &mut Vec<u8>) {
        let plan = shared.plan;
        plan.publish_at
            .open(&self.client(plan), &plan.topic(self.number), outgoing);
        if plan.publish_at.needs_no_login() {
            self.is_ready(shared);
        }
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut PublisherTotals<'_>,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let mut reader = std::mem::take(&mut self.reader);
        let read = reader.read(bytes, |event| self.handle(event, now, shared, outgoing));
        self.reader = reader;
        ReceiveOutcome::of_read(read, &mut shared.failure)
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut PublisherTotals<'_>) {
        let number = self.number;
        shared
            .failure
            .get_or_insert_with(|| format!("publisher {number}: {reason:?}"));
    }
}

impl<'plan> Publishers<'plan> {
    /// Connects and logs in all publishers.
    pub(crate) fn connect(plan: &'plan Plan) -> Result<Self, BenchError> {
        let mut connections = Loop::new()?;
        let mut dialer = plan.publish_at.dialer();
        let mut indices = Vec::new();
        for number in plan.publisher_share.clone() {
            let publisher = LoadPublisher {
                number,
                ready: false,
                reader: plan.publish_at.reader(),
                pending: PendingAcknowledgements::default(),
            };
            indices.push(connections.add(dialer.dial()?, publisher)?);
        }
        let shared = PublisherTotals {
            plan,
            ready: 0,
            acknowledged: 0,
            acknowledgements: Latencies::default(),
            measured_from: 0,
            failure: None,
        };
        let mut publishers = Self {
            plan,
            connections,
            shared,
            indices,
        };
        let deadline = clock::now() + READY_SECONDS * clock::SECOND;
        while publishers.shared.ready < plan.publisher_share.len() {
            let soon = clock::now() + clock::SECOND / 10;
            publishers.connections.turn(soon, &mut publishers.shared)?;
            if let Some(reason) = publishers.shared.failure.take() {
                return Err(BenchError::server(&plan.publish_at.address, reason));
            }
            if clock::now() > deadline {
                return Err(BenchError::server(
                    &plan.publish_at.address,
                    "the publishers cannot log in",
                ));
            }
        }
        Ok(publishers)
    }

    /// Publishes from `begin` to `end`, each message when it is due or as soon as possible
    /// afterwards, unless the run is abandoned; acknowledgements are measured of those that are due
    /// from `measure` on.
    pub(crate) fn play(
        mut self,
        begin: Nanoseconds,
        measure: Nanoseconds,
        end: Nanoseconds,
        is_abandoned: impl Fn() -> bool,
    ) -> Result<PublishedRun<'plan>, BenchError> {
        // If this is refused, the schedule's own figures show the effect.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
        self.shared.measured_from = measure;
        let publishers = u64::from(self.plan.publishers);
        // Publishers take turns, evenly over each period.
        let interval = clock::SECOND as f64 / (self.plan.rate * publishers as f64);
        let watched = WAKE_EARLY.min((interval * WATCHED_PART) as Nanoseconds);
        let mut sent = vec![0_u32; self.plan.publishers.into()];
        let (mut slip, mut given_up) = (Latencies::default(), 0);
        let mut payload = vec![b'.'; self.plan.size];
        let mut packet = Vec::new();
        let topics: Vec<String> = (0..self.plan.publishers)
            .map(|n| self.plan.topic(n))
            .collect();
        for turn in 0_u64.. {
            let due = begin + (turn as f64 * interval) as u64;
            if due >= end || interrupted() || is_abandoned() || self.shared.failure.is_some() {
                break;
            }
            if clock::now() >= end + LATE_MAX {
                given_up = self.own_turns(turn, ((end - begin) as f64 / interval).ceil() as u64);
                break;
            }
            let publisher = (turn % publishers) as u16;
            // Publishers on other hosts take their turns there.
            let Some(&connection) = self.connection_of(publisher) else {
                continue;
            };
            self.wait_until(due, watched, turn)?;
            self.wait_for_room(connection, end + LATE_MAX)?;
            let sequence = sent[usize::from(publisher)];
            MessageStamp {
                publisher,
                sequence,
                due,
            }
            .write(&mut payload);
            packet.clear();
            let topic = &topics[usize::from(publisher)];
            self.append_publication(topic, &payload, sequence, &mut packet);
            slip.record(clock::now() - due);
            if self.plan.expects_acknowledgements()
                && let Some(publisher) = self.connections.conversation(connection)
            {
                publisher.pending.sent(sequence, due);
            }
            self.connections.send(connection, &packet, &mut self.shared);
            sent[usize::from(publisher)] += 1;
        }
        if let Some(reason) = self.shared.failure.take() {
            return Err(BenchError::server(&self.plan.publish_at.address, reason));
        }
        Ok(PublishedRun {
            publishers: self,
            sent,
            given_up,
            slip,
        })
    }

    fn connection_of(&self, publisher: u16) -> Option<&usize> {
        let at = publisher.checked_sub(self.plan.publisher_share.start)?;
        self.indices.get(usize::from(at))
    }

    /// The number of these turns that belong to publishers of this host.
    fn own_turns(&self, from: u64, to: u64) -> u64 {
        let (all, own) = (u64::from(self.plan.publishers), self.indices.len() as u64);
        to.saturating_sub(from) * own / all
    }

    /// Waits until the server has read most of what this connection has sent, so that a server that
    /// does not read cannot fill the memory of the generator.
    fn wait_for_room(&mut self, index: usize, until: Nanoseconds) -> Result<(), BenchError> {
        while self.connections.unsent(index) > UNSENT_MAX_BYTES
            && clock::now() < until
            && !interrupted()
        {
            let soon = clock::now() + LOOK_AGAIN;
            self.connections.turn_until(soon, &mut self.shared)?;
        }
        Ok(())
    }

    /// Processes acknowledgements until then; in the last moments it only polls the clock.
    fn wait_until(
        &mut self,
        due: Nanoseconds,
        watched: Nanoseconds,
        turn: u64,
    ) -> Result<(), BenchError> {
        let wake = due.saturating_sub(watched);
        if clock::now() >= wake && turn.is_multiple_of(SENT_IN_TURN) {
            self.connections.turn(0, &mut self.shared)?;
        }
        while clock::now() < wake {
            self.connections.turn_until(wake, &mut self.shared)?;
        }
        while clock::now() < due {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn append_publication(&self, topic: &str, payload: &[u8], sequence: u32, out: &mut Vec<u8>) {
        let qos = self.plan.qos;
        let packet_id = (qos != Qos::AtMostOnce).then(|| packet_id(sequence));
        self.plan
            .publish_at
            .publish(topic, payload, (qos, packet_id), out);
    }
}

impl PublishedRun<'_> {
    /// The expected number of deliveries, warm-up included.
    pub(crate) fn expected_deliveries(&self, plan: &Plan) -> u64 {
        let of_publisher = |(publisher, sent): (usize, &u32)| {
            let subscribers = plan.subscribers_among(&plan.subscriber_share, publisher as u16);
            u64::from(*sent) * subscribers as u64
        };
        self.sent.iter().enumerate().map(of_publisher).sum()
    }

    /// Processes acknowledgements that are still arriving.
    pub(crate) fn collect_acknowledgements(&mut self) {
        let publishers = &mut self.publishers;
        // An error results in missing acknowledgements.
        let _ = publishers
            .connections
            .turn(clock::now(), &mut publishers.shared);
    }

    /// The times from when publications were due until they were acknowledged.
    pub(crate) const fn acknowledgements(&self) -> &Latencies {
        &self.publishers.shared.acknowledgements
    }

    /// Publications that should have an acknowledgement and have none.
    pub(crate) fn unacknowledged(&self) -> u64 {
        let plan = self.publishers.plan;
        if !plan.expects_acknowledgements() {
            return 0;
        }
        let sent: u64 = self.sent.iter().map(|&sent| u64::from(sent)).sum();
        sent.saturating_sub(self.publishers.shared.acknowledged)
    }
}
