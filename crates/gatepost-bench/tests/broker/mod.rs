//! A broker with known faults, which the generator must report exactly.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Connack, Packet, PacketProperties, Publish, Reason, Suback, Version, decode_next,
};

/// The faults of the broker. Numbers count the deliveries of one subscriber, from 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Omits every n-th delivery.
    pub drop_every: Option<u64>,
    /// Sends every n-th delivery twice.
    pub double_every: Option<u64>,
    /// Sends every n-th delivery after the one that follows it.
    pub swap_every: Option<u64>,
    /// Stops all deliveries once, at the n-th published message, for this time.
    pub stall: Option<(u64, Duration)>,
    /// Delays every delivery by this time.
    pub late: Option<Duration>,
    /// Refuses every n-th subscription.
    pub refuse_every: Option<u64>,
    /// Does not acknowledge every n-th publication at QoS 1 and 2.
    pub unacknowledged_every: Option<u64>,
    /// Delays each acknowledgement by this time.
    pub late_acknowledgements: Option<Duration>,
    /// Takes this time for each login, one after the other.
    pub slow_logins: Option<Duration>,
}

#[derive(Default)]
struct Topics {
    subscribers: HashMap<String, Vec<Subscriber>>,
    published: Arc<AtomicU64>,
    subscriptions: u64,
}

impl Topics {
    fn deliver(&mut self, publish: &Publish<'_>, faults: Faults) {
        let dup = false;
        let bytes = encoded(&Packet::Publish(Publish { dup, ..*publish }));
        let subscribers = self
            .subscribers
            .entry(publish.topic.to_owned())
            .or_default();
        for subscriber in subscribers {
            subscriber.deliver(&bytes, publish.qos, faults);
        }
    }

    /// A subscriber has completed the exchange of a publication.
    fn completed(&mut self, client: SocketAddr, faults: Faults) {
        let subscribers = self.subscribers.values_mut().flatten();
        for subscriber in subscribers.filter(|subscriber| subscriber.client == client) {
            subscriber.waiting.pop_front();
            if let Some(next) = subscriber.waiting.front().cloned() {
                subscriber.send(&next, faults);
            }
        }
    }
}

struct Subscriber {
    stream: TcpStream,
    client: SocketAddr,
    /// Publications at QoS 1 and 2: the first one is under way, the others wait for the end of its
    /// exchange.
    waiting: VecDeque<Vec<u8>>,
    count: u64,
    held: Option<Vec<u8>>,
    /// The queue of delayed deliveries.
    late: Option<Sender<(Instant, Vec<u8>)>>,
}

impl Subscriber {
    fn new(stream: TcpStream, faults: Faults) -> Self {
        let late = faults.late.map(|_| {
            let (send, waiting) = mpsc::channel::<(Instant, Vec<u8>)>();
            let mut stream = stream.try_clone().expect("a handle");
            thread::spawn(move || {
                for (due, packet) in waiting {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let _ = stream.write_all(&packet);
                }
            });
            send
        });
        Self {
            client: stream.peer_addr().expect("a client"),
            waiting: VecDeque::new(),
            stream,
            count: 0,
            held: None,
            late,
        }
    }

    fn send(&mut self, packet: &[u8], faults: Faults) {
        match (&self.late, faults.late) {
            (Some(late), Some(span)) => {
                let _ = late.send((Instant::now() + span, packet.to_vec()));
            }
            _ => {
                let _ = self.stream.write_all(packet);
            }
        }
    }

    fn send_in_turn(&mut self, packet: &[u8], qos: Qos, faults: Faults) {
        if qos != Qos::AtMostOnce {
            self.waiting.push_back(packet.to_vec());
            if self.waiting.len() > 1 {
                return;
            }
        }
        self.send(packet, faults);
    }

    fn deliver(&mut self, packet: &[u8], qos: Qos, faults: Faults) {
        self.count += 1;
        let is_nth = |every: Option<u64>| every.is_some_and(|n| self.count.is_multiple_of(n));
        if is_nth(faults.drop_every) {
            return;
        }
        if is_nth(faults.swap_every) {
            self.held = Some(packet.to_vec());
            return;
        }
        let times = if is_nth(faults.double_every) { 2 } else { 1 };
        for _ in 0..times {
            self.send_in_turn(packet, qos, faults);
        }
        if let Some(held) = self.held.take() {
            self.send_in_turn(&held, qos, faults);
        }
    }
}

/// Starts the broker at an address of this machine, for the duration of the test. Returns its
/// address and the number of published messages.
pub(crate) fn start_counting(host: &str, faults: Faults) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind((host, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let topics = Arc::new(Mutex::new(Topics::default()));
    let published = Arc::clone(&topics.lock().expect("no other thread has it yet").published);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let topics = Arc::clone(&topics);
            thread::spawn(move || serve(stream, &topics, faults));
        }
    });
    (address, published)
}

/// Serves one client, and publishes its will when it disconnects.
fn serve(stream: TcpStream, topics: &Mutex<Topics>, faults: Faults) {
    if let Some((topic, payload)) = serve_until_gone(stream, topics, faults) {
        let publish = Publish {
            dup: false,
            qos: Qos::AtMostOnce,
            retain: false,
            topic: &topic,
            packet_id: None,
            properties: PacketProperties::EMPTY,
            payload: &payload,
        };
        let mut topics = topics.lock().expect("no thread of the broker fails");
        topics.deliver(&publish, faults);
    }
}

fn serve_until_gone(
    mut stream: TcpStream,
    topics: &Mutex<Topics>,
    faults: Faults,
) -> Option<(String, Vec<u8>)> {
    let mut will = None;
    let mut input = Vec::new();
    let mut buffer = [0; 16 * 1024];
    stream.set_nodelay(true).expect("an option");
    loop {
        let mut taken = 0;
        while let Ok(Some((packet, length))) =
            decode_next(Version::Mqtt311, &input[taken..], 1 << 20)
        {
            if let Packet::Connect(connect) = &packet {
                will = connect
                    .will
                    .map(|will| (will.topic.to_owned(), will.payload.to_vec()));
            }
            handle(&packet, &mut stream, topics, faults);
            taken += length;
        }
        input.drain(..taken);
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => input.extend_from_slice(&buffer[..count]),
            _ => return will,
        }
    }
}

fn handle(packet: &Packet<'_>, stream: &mut TcpStream, topics: &Mutex<Topics>, faults: Faults) {
    let mut topics = topics.lock().expect("no thread of the broker fails");
    match packet {
        Packet::Connect(_) => {
            thread::sleep(faults.slow_logins.unwrap_or_default());
            let reason = Reason(0);
            let connack = Connack {
                session_present: false,
                reason,
                properties: PacketProperties::EMPTY,
            };
            send(stream, &Packet::Connack(connack));
        }
        Packet::Subscribe(subscribe) => {
            topics.subscriptions += 1;
            let count = topics.subscriptions;
            let refused = faults.refuse_every.is_some_and(|n| count.is_multiple_of(n));
            if !refused {
                for filter in &subscribe.filters {
                    let stream = stream.try_clone().expect("a second handle");
                    let subscriber = Subscriber::new(stream, faults);
                    topics
                        .subscribers
                        .entry(filter.text.to_owned())
                        .or_default()
                        .push(subscriber);
                }
            }
            let reason = if refused { Reason(0x80) } else { Reason(0) };
            let suback = Suback {
                packet_id: subscribe.packet_id,
                properties: PacketProperties::EMPTY,
                reasons: std::iter::once(reason).collect(),
            };
            send(stream, &Packet::Suback(suback));
        }
        Packet::Publish(publish) => {
            let published = topics.published.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some((at, span)) = faults.stall
                && published == at
            {
                thread::sleep(span);
            }
            topics.deliver(publish, faults);
            let is_unacknowledged = faults
                .unacknowledged_every
                .is_some_and(|n| published.is_multiple_of(n));
            if let Some(packet_id) = publish.packet_id
                && !is_unacknowledged
            {
                // Other publishers must not wait for it.
                drop(topics);
                thread::sleep(faults.late_acknowledgements.unwrap_or_default());
                let ack = Ack::success(packet_id);
                send(
                    stream,
                    &if publish.qos == Qos::ExactlyOnce {
                        Packet::Pubrec(ack)
                    } else {
                        Packet::Puback(ack)
                    },
                );
            }
        }
        Packet::Pingreq => send(stream, &Packet::Pingresp),
        Packet::Pubrel(ack) => send(stream, &Packet::Pubcomp(Ack::success(ack.packet_id))),
        Packet::Pubrec(ack) => send(stream, &Packet::Pubrel(Ack::success(ack.packet_id))),
        Packet::Puback(_) | Packet::Pubcomp(_) => {
            topics.completed(stream.peer_addr().expect("a client"), faults);
        }
        _ => {}
    }
}

fn encoded(packet: &Packet<'_>) -> BytesMut {
    let mut bytes = BytesMut::new();
    packet
        .encode(Version::Mqtt311, &mut bytes)
        .expect("a packet");
    bytes
}

fn send(stream: &mut TcpStream, packet: &Packet<'_>) {
    let _ = stream.write_all(&encoded(packet));
}
