//! The publishers: an open-loop schedule on a thread of its own.

use super::Plan;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{Closed, Conversation, Dialer, Loop, Received};
use crate::pubsub::{Event, Stamp};
use gatepost_message::Qos;
use gatepost_mqtt::PacketId;
use std::num::NonZeroU64;

/// How long the publishers may take to be ready.
const READY_SECONDS: u64 = 30;
/// The kernel may wake us this much late, in nanoseconds: as little as it can.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// Publishers that are logged in.
pub(super) struct Publishers<'plan> {
    plan: &'plan Plan,
    connections: Loop<Publisher>,
    shared: Shared<'plan>,
    /// The connection of each publisher.
    indices: Vec<usize>,
}

/// What was published.
pub(super) struct Published<'plan> {
    publishers: Publishers<'plan>,
    /// Messages sent by each publisher.
    sent: Vec<u32>,
    /// How late messages were sent.
    pub(super) slip: Latencies,
}

struct Shared<'plan> {
    plan: &'plan Plan,
    ready: usize,
    acknowledged: u64,
    failure: Option<String>,
}

struct Publisher {
    number: u16,
    ready: bool,
}

impl Publisher {
    fn log_in(&self, shared: &Shared<'_>, outgoing: &mut Vec<u8>) {
        let client_id = format!("bench-{:x}-p{}", shared.plan.run, self.number);
        shared.plan.dialect.login(&client_id, outgoing);
    }
}

impl Conversation<Shared<'_>> for Publisher {
    fn connected(&mut self, shared: &mut Shared<'_>, outgoing: &mut Vec<u8>) {
        if shared.plan.dialect.client_begins() {
            self.log_in(shared, outgoing);
        }
    }

    fn received(
        &mut self,
        bytes: &[u8],
        _now: Nanoseconds,
        shared: &mut Shared<'_>,
        outgoing: &mut Vec<u8>,
    ) -> Received {
        let mut taken = 0;
        loop {
            let (event, length) = match shared.plan.dialect.next(&bytes[taken..]) {
                Ok(Some(next)) => next,
                Ok(None) => return Received::Taken(taken),
                Err(reason) => {
                    shared.failure.get_or_insert(reason);
                    return Received::Broken;
                }
            };
            taken += length;
            match event {
                Event::Greeting => self.log_in(shared, outgoing),
                Event::Ready | Event::Subscribed { .. } if !self.ready => {
                    self.ready = true;
                    shared.ready += 1;
                }
                Event::Acknowledged => shared.acknowledged += 1,
                Event::Ping => shared.plan.dialect.pong(outgoing),
                Event::Refused(reason) => {
                    shared.failure.get_or_insert(reason);
                    return Received::Broken;
                }
                _ => {}
            }
        }
    }

    fn closed(&mut self, reason: Closed, shared: &mut Shared<'_>) {
        let number = self.number;
        shared
            .failure
            .get_or_insert_with(|| format!("publisher {number}: {reason:?}"));
    }
}

impl<'plan> Publishers<'plan> {
    /// Connects and logs in all of them.
    pub(super) fn connect(plan: &'plan Plan) -> Result<Self, BenchError> {
        let mut connections = Loop::new()?;
        let mut dialer = Dialer::new(plan.address);
        let mut indices = Vec::new();
        for number in 0..plan.publishers {
            let publisher = Publisher {
                number,
                ready: false,
            };
            indices.push(connections.add(dialer.dial()?, publisher)?);
        }
        let shared = Shared {
            plan,
            ready: 0,
            acknowledged: 0,
            failure: None,
        };
        let mut publishers = Self {
            plan,
            connections,
            shared,
            indices,
        };
        let deadline = clock::now() + READY_SECONDS * clock::SECOND;
        while publishers.shared.ready < usize::from(plan.publishers) {
            let soon = clock::now() + clock::SECOND / 10;
            publishers.connections.turn(soon, &mut publishers.shared)?;
            if let Some(reason) = publishers.shared.failure.take() {
                return Err(BenchError::server(&plan.address, reason));
            }
            if clock::now() > deadline {
                return Err(BenchError::server(
                    &plan.address,
                    "the publishers cannot log in",
                ));
            }
        }
        Ok(publishers)
    }

    /// Publishes from `begin` to `end`, each message when it is due or as soon after as can be.
    pub(super) fn play(
        mut self,
        begin: Nanoseconds,
        end: Nanoseconds,
    ) -> Result<Published<'plan>, BenchError> {
        // Where it is refused, the schedule's own figures show what came of it.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
        let publishers = u64::from(self.plan.publishers);
        // Publishers take turns, evenly over each period.
        let interval = clock::SECOND as f64 / (self.plan.rate * publishers as f64);
        let mut sent = vec![0_u32; self.plan.publishers.into()];
        let mut slip = Latencies::default();
        let mut payload = vec![b'.'; self.plan.size];
        let mut packet = Vec::new();
        let topics: Vec<String> = (0..self.plan.publishers)
            .map(|n| self.plan.topic(n))
            .collect();
        for turn in 0_u64.. {
            let due = begin + (turn as f64 * interval) as u64;
            if due >= end || interrupted() || self.shared.failure.is_some() {
                break;
            }
            self.wait_until(due)?;
            let publisher = (turn % publishers) as u16;
            let sequence = sent[usize::from(publisher)];
            Stamp {
                publisher,
                sequence,
                due,
            }
            .write(&mut payload);
            packet.clear();
            let topic = &topics[usize::from(publisher)];
            self.plan
                .dialect
                .publish(topic, &payload, self.packet_id(sequence), &mut packet);
            slip.record(clock::now() - due);
            let connection = self.indices[usize::from(publisher)];
            self.connections.send(connection, &packet, &mut self.shared);
            sent[usize::from(publisher)] += 1;
        }
        if let Some(reason) = self.shared.failure.take() {
            return Err(BenchError::server(&self.plan.address, reason));
        }
        Ok(Published {
            publishers: self,
            sent,
            slip,
        })
    }

    /// Reads acknowledgements until then.
    fn wait_until(&mut self, due: Nanoseconds) -> Result<(), BenchError> {
        while clock::now() < due {
            self.connections.turn(due, &mut self.shared)?;
        }
        Ok(())
    }

    /// Identifiers go round; 65,535 unacknowledged messages of one publisher would be a fault of
    /// the server's that shows by other figures.
    fn packet_id(&self, sequence: u32) -> Option<PacketId> {
        if self.plan.qos == Qos::AtMostOnce {
            return None;
        }
        PacketId::new((sequence % u32::from(u16::MAX)) as u16 + 1)
    }
}

impl Published<'_> {
    pub(super) fn sent_by(&self, publisher: u16) -> u32 {
        self.sent.get(usize::from(publisher)).copied().unwrap_or(0)
    }

    /// How many deliveries there should be, warm-up included.
    pub(super) fn expected_deliveries(&self, plan: &Plan) -> u64 {
        let of_publisher = |(publisher, sent): (usize, &u32)| {
            u64::from(*sent) * plan.subscribers_of(publisher as u16) as u64
        };
        self.sent.iter().enumerate().map(of_publisher).sum()
    }

    /// Looks for acknowledgements that are still coming.
    pub(super) fn collect_acknowledgements(&mut self) {
        let publishers = &mut self.publishers;
        // An error shows as acknowledgements that are missing.
        let _ = publishers
            .connections
            .turn(clock::now(), &mut publishers.shared);
    }

    /// Publications without an acknowledgement, where there should be one.
    pub(super) fn unacknowledged(&self) -> u64 {
        if self.publishers.plan.qos == Qos::AtMostOnce {
            return 0;
        }
        let sent: u64 = self.sent.iter().map(|&sent| u64::from(sent)).sum();
        sent.saturating_sub(self.publishers.shared.acknowledged)
    }
}
