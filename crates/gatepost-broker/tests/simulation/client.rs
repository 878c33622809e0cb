//! The state of an MQTT client that follows the protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gatepost_message::Qos;

use crate::connection::Connection;
use crate::schedule::Connect;
use crate::sessions::Existence;

/// Packet identifiers that a client uses in turn: few, so that they are used again soon.
pub(crate) const PACKET_IDS: u16 = 4;

/// A publication of the client whose exchange is not complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    /// 0 at QoS 0.
    pub(crate) packet: u16,
    pub(crate) number: u64,
    pub(crate) topic: usize,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// PUBREC was received: PUBREL is sent again, and PUBLISH no more.
    pub(crate) is_received: bool,
}

impl Outgoing {
    /// Whether it removes the retained message of its topic.
    pub(crate) const fn is_clearing(&self) -> bool {
        self.retain && self.number.is_multiple_of(4)
    }

    /// The number that its topic retains from then on.
    pub(crate) fn retained(&self) -> Option<u64> {
        let value = if self.is_clearing() { 0 } else { self.number };
        self.retain.then_some(value)
    }
}

/// A CONNECT whose CONNACK was not received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) connect: Connect,
    /// Whether there was a session before.
    pub(crate) before: Existence,
    /// The number of its will.
    pub(crate) will: Option<u64>,
}

/// An answer that the client owes the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Puback(u16),
    Pubrec(u16),
    Pubrel(u16),
    Pubcomp(u16),
}

/// SUBSCRIBE or UNSUBSCRIBE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscribing {
    pub(crate) filter: usize,
    /// `None` for UNSUBSCRIBE.
    pub(crate) level: Option<Qos>,
}

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) connection: Option<Connection>,
    pub(crate) pending: Option<Pending>,
    /// The will of the present connection.
    pub(crate) will: Option<Will>,
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// Packet identifiers of publications that the client has given up. The server may have kept
    /// the session, in which they are in use.
    given_up: BTreeSet<u16>,
    /// Packet identifiers of QoS 2 publications that the server has not released.
    pub(crate) incoming: BTreeSet<u16>,
    pub(crate) owed: Vec<Answer>,
    pub(crate) subscribing: BTreeMap<u16, Subscribing>,
    packet: u16,
}

/// A will that the server holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Will {
    pub(crate) number: u64,
    pub(crate) delay: std::time::Duration,
}

impl Client {
    /// A packet identifier that is not in use; `None` where all are.
    pub(crate) fn packet_id(&mut self) -> Option<u16> {
        for _ in 0..PACKET_IDS {
            self.packet = self.packet % PACKET_IDS + 1;
            let packet = self.packet;
            let is_used = self
                .outgoing
                .iter()
                .any(|outgoing| outgoing.packet == packet)
                || self.subscribing.contains_key(&packet)
                || self.given_up.contains(&packet);
            if !is_used {
                return Some(packet);
            }
        }
        None
    }

    /// The connection is lost, with all packets in transit.
    pub(crate) fn lose(&mut self) -> Option<Connection> {
        let pending = self.pending.take();
        if pending.is_some_and(|pending| pending.connect.expiry.is_zero()) {
            self.forget(); // its session may have begun, and ends here
        }
        self.owed.clear();
        self.subscribing.clear();
        self.connection.take()
    }

    /// The session is over, as far as the client knows.
    pub(crate) fn forget(&mut self) {
        let packets = self.outgoing.iter().map(|outgoing| outgoing.packet);
        self.given_up.extend(packets);
        self.outgoing.clear();
        self.incoming.clear();
    }

    /// The server has no session: the client discards its own.
    pub(crate) fn forget_all(&mut self) {
        self.forget();
        self.given_up.clear();
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some() && self.pending.is_none()
    }
}
