//! A publisher and a subscriber that follow the protocol over every loss of their server: they
//! remember the state that a careful client would have on disk.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::wire::{Connection, Packet, Publish, Version};

/// Publications of one publisher that may be unacknowledged.
const WINDOW: usize = 32;
/// The pause of a publisher that is slow.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest wait for an answer at the end.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

/// The state that the rounds' threads share.
#[derive(Default)]
pub(crate) struct Signals {
    /// No new publications; complete those that have begun.
    pub(crate) finish: AtomicBool,
    /// One publication at a time, with a pause before each.
    pub(crate) is_slow: AtomicBool,
    /// Publications that were acknowledged, of all publishers.
    pub(crate) acknowledged: AtomicU64,
}

struct Begun {
    publish: Publish,
    was_received: bool,
}

/// Publishes the numbers from 0 on under a topic of its own.
pub(crate) struct Publisher {
    pub(crate) client_id: String,
    pub(crate) version: Version,
    pub(crate) topic: String,
    pub(crate) qos: u8,
    next: u64,
    packet_id: u16,
    begun: VecDeque<Begun>,
    /// In the order in which the server acknowledged them.
    pub(crate) acknowledged: Vec<u64>,
    /// The number of these, for another thread.
    pub(crate) count: Arc<AtomicU64>,
}

impl Publisher {
    pub(crate) fn new(qos: u8, number: usize) -> Self {
        Self {
            client_id: format!("publisher-{qos}-{number}"),
            version: if number.is_multiple_of(2) {
                Version::Mqtt311
            } else {
                Version::Mqtt5
            },
            topic: format!("crash/{qos}/{number}"),
            qos,
            next: 0,
            packet_id: 0,
            begun: VecDeque::new(),
            acknowledged: Vec::new(),
            count: Arc::default(),
        }
    }

    /// Publishes until the connection is lost, or everything is finished.
    pub(crate) fn run(&mut self, address: SocketAddr, signals: &Signals) -> io::Result<()> {
        let (mut connection, session_present) =
            Connection::open(address, self.version, &self.client_id)?;
        assert!(
            session_present || self.acknowledged.is_empty(),
            "{}: a session with an acknowledged publication is there",
            self.client_id
        );
        for begun in &mut self.begun {
            if begun.was_received {
                connection.put_ack(0x62, begun.publish.packet_id);
            } else {
                begun.publish.dup = true;
                connection.put_publish(&begun.publish);
            }
        }
        let mut answered = Instant::now();
        loop {
            let is_finishing = signals.finish.load(Ordering::Acquire);
            let is_slow = signals.is_slow.load(Ordering::Acquire);
            let window = if is_slow { 1 } else { WINDOW };
            if is_slow && self.begun.is_empty() {
                thread::sleep(PAUSE);
            }
            while !is_finishing && self.begun.len() < window {
                let publish = self.next_publish();
                connection.put_publish(&publish);
                self.begun.push_back(Begun {
                    publish,
                    was_received: false,
                });
            }
            connection.flush()?;
            if is_finishing && self.begun.is_empty() {
                return Ok(());
            }
            match connection.receive()? {
                // Published again over the next connection, as in MQTT 3.1.1.
                Some(Packet::Refused) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(packet) => {
                    self.take(&mut connection, &packet, signals);
                    answered = Instant::now();
                }
                None if is_finishing && answered.elapsed() > ANSWERED_WITHIN => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => {}
            }
        }
    }

    fn next_publish(&mut self) -> Publish {
        loop {
            self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
            let packet_id = self.packet_id;
            if !self
                .begun
                .iter()
                .any(|begun| begun.publish.packet_id == packet_id)
            {
                break;
            }
        }
        let number = self.next;
        self.next += 1;
        Publish {
            topic: self.topic.clone(),
            payload: number.to_string(),
            qos: self.qos,
            dup: false,
            packet_id: self.packet_id,
        }
    }

    fn take(&mut self, connection: &mut Connection, packet: &Packet, signals: &Signals) {
        let (packet_id, is_over) = match *packet {
            Packet::Puback(packet_id) | Packet::Pubcomp(packet_id) => (packet_id, true),
            Packet::Pubrec(packet_id) => (packet_id, false),
            ref other => panic!("{}: unexpected {other:?}", self.client_id),
        };
        let at = self
            .begun
            .iter()
            .position(|begun| begun.publish.packet_id == packet_id);
        if !is_over {
            connection.put_ack(0x62, packet_id);
        }
        let Some(at) = at else {
            return; // A repetition.
        };
        // PUBACK and PUBREC are the promise.
        if !self.begun[at].was_received {
            let number = self.begun[at].publish.payload.parse().expect("a number");
            self.acknowledged.push(number);
            signals.acknowledged.fetch_add(1, Ordering::Release);
            self.count.fetch_add(1, Ordering::Release);
        }
        self.begun[at].was_received = true;
        if is_over {
            self.begun.remove(at);
        }
    }
}

/// Subscribes to everything and records the messages that it receives.
pub(crate) struct Subscriber {
    pub(crate) client_id: String,
    is_subscribed: bool,
    /// Packet identifiers of exactly-once publications that are not released.
    held: HashSet<u16>,
    /// By topic, in order of arrival.
    pub(crate) got: BTreeMap<String, Vec<u64>>,
    /// Acknowledged publications that have not arrived, by topic and number.
    awaited: HashSet<(String, u64)>,
}

impl Subscriber {
    pub(crate) fn new(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            is_subscribed: false,
            held: HashSet::new(),
            got: BTreeMap::new(),
            awaited: HashSet::new(),
        }
    }

    /// Takes note of those `acknowledged` publications of a topic that have not arrived.
    pub(crate) fn expect(&mut self, topic: &str, acknowledged: &[u64]) {
        let got: HashSet<u64> = self.got.get(topic).into_iter().flatten().copied().collect();
        let missing = acknowledged.iter().filter(|number| !got.contains(number));
        self.awaited
            .extend(missing.map(|&number| (topic.to_owned(), number)));
    }

    /// Checks that every acknowledged publication arrived, in order, and at QoS 2 once.
    pub(crate) fn check(&self, name: &str, publishers: &[Publisher]) {
        let nothing = Vec::new();
        for publisher in publishers {
            let topic = &publisher.topic;
            let got = self.got.get(topic).unwrap_or(&nothing);
            let mut seen = vec![0_u32; publisher.acknowledged.len()];
            let mut last_new = None;
            for (place, &number) in got.iter().enumerate() {
                let count = seen
                    .get_mut(number as usize)
                    .expect("a number that was published");
                *count += 1;
                if *count == 1 {
                    // A publication that MQTT 5 refused comes after those that followed it.
                    assert!(
                        Some(number) > last_new || publisher.version == Version::Mqtt5,
                        "{name}, {topic}: {number} came after {last_new:?}, in {:?}",
                        &got[place.saturating_sub(100)..got.len().min(place + 20)]
                    );
                    last_new = Some(number);
                } else {
                    assert_eq!(
                        publisher.qos,
                        1,
                        "{name}, {topic}: {number} came twice, the second time in {:?}",
                        &got[place.saturating_sub(100)..got.len().min(place + 20)]
                    );
                }
            }
            let lost: Vec<usize> = (0..seen.len())
                .filter(|&number| seen[number] == 0)
                .collect();
            assert!(
                lost.is_empty(),
                "{name}, {topic}: lost {lost:?} of {}",
                seen.len()
            );
        }
    }

    /// Whether every publication that was expected has arrived.
    pub(crate) fn has_everything(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Receives until the connection is lost or `is_enough` returns true.
    pub(crate) fn run(
        &mut self,
        address: SocketAddr,
        is_enough: impl Fn(&Self) -> bool,
    ) -> io::Result<()> {
        let (mut connection, session_present) =
            Connection::open(address, Version::Mqtt311, &self.client_id)?;
        assert!(
            session_present || !self.is_subscribed,
            "{}: a session whose subscription was acknowledged is there",
            self.client_id
        );
        if !self.is_subscribed {
            connection.put_subscribe("crash/#");
        }
        while !is_enough(self) {
            connection.flush()?;
            if let Some(packet) = connection.receive()? {
                self.take(&mut connection, packet);
            }
        }
        connection.flush()
    }

    pub(crate) const fn is_subscribed(&self) -> bool {
        self.is_subscribed
    }

    fn take(&mut self, connection: &mut Connection, packet: Packet) {
        match packet {
            Packet::Suback => self.is_subscribed = true,
            Packet::Pubrel(packet_id) => {
                self.held.remove(&packet_id);
                connection.put_ack(0x70, packet_id);
            }
            Packet::Publish(publish) => {
                let is_new = match publish.qos {
                    2 => self.held.insert(publish.packet_id),
                    _ => true,
                };
                if is_new {
                    let number = publish.payload.parse().expect("a number");
                    self.awaited.remove(&(publish.topic.clone(), number));
                    self.got.entry(publish.topic).or_default().push(number);
                }
                let first = if publish.qos == 2 { 0x50 } else { 0x40 };
                connection.put_ack(first, publish.packet_id);
            }
            other => panic!("{}: unexpected {other:?}", self.client_id),
        }
    }
}
