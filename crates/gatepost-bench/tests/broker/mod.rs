//! A broker with known faults: what the generator says of it must be exactly what it does.

use bytes::BytesMut;
use gatepost_mqtt::{Connack, Packet, Properties, Publish, Reason, Suback, Version, decode_next};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the broker does wrong. Numbers count the deliveries of one subscriber, from 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Leaves out every n-th delivery.
    pub drop_every: Option<u64>,
    /// Sends every n-th delivery twice.
    pub double_every: Option<u64>,
    /// Sends every n-th delivery after the one that follows it.
    pub swap_every: Option<u64>,
    /// Stops all deliveries once, at the n-th message published, for so long.
    pub stall: Option<(u64, Duration)>,
    /// Refuses every n-th subscription.
    pub refuse_every: Option<u64>,
}

#[derive(Default)]
struct Topics {
    subscribers: HashMap<String, Vec<Subscriber>>,
    published: u64,
    subscriptions: u64,
}

struct Subscriber {
    stream: TcpStream,
    count: u64,
    held: Option<Vec<u8>>,
}

impl Subscriber {
    fn deliver(&mut self, packet: &[u8], faults: Faults) {
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
            let _ = self.stream.write_all(packet);
        }
        if let Some(held) = self.held.take() {
            let _ = self.stream.write_all(&held);
        }
    }
}

/// Starts the broker; it lives as long as the test.
pub(crate) fn start(faults: Faults) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let topics = Arc::new(Mutex::new(Topics::default()));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let topics = Arc::clone(&topics);
            thread::spawn(move || serve(stream, &topics, faults));
        }
    });
    address
}

fn serve(mut stream: TcpStream, topics: &Mutex<Topics>, faults: Faults) {
    let mut input = Vec::new();
    let mut buffer = [0; 16 * 1024];
    stream.set_nodelay(true).expect("an option");
    loop {
        let mut taken = 0;
        while let Ok(Some((packet, length))) =
            decode_next(Version::Mqtt311, &input[taken..], 1 << 20)
        {
            handle(&packet, &mut stream, topics, faults);
            taken += length;
        }
        input.drain(..taken);
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => input.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
}

fn handle(packet: &Packet<'_>, stream: &mut TcpStream, topics: &Mutex<Topics>, faults: Faults) {
    let mut topics = topics.lock().expect("no thread of the broker fails");
    match packet {
        Packet::Connect(_) => {
            let reason = Reason(0);
            let connack = Connack {
                session_present: false,
                reason,
                properties: Properties::EMPTY,
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
                    let subscriber = Subscriber {
                        stream,
                        count: 0,
                        held: None,
                    };
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
                properties: Properties::EMPTY,
                reasons: std::iter::once(reason).collect(),
            };
            send(stream, &Packet::Suback(suback));
        }
        Packet::Publish(publish) => {
            topics.published += 1;
            if let Some((at, span)) = faults.stall
                && topics.published == at
            {
                thread::sleep(span);
            }
            let bytes = encoded(&Packet::Publish(Publish {
                dup: false,
                ..*publish
            }));
            for subscriber in topics
                .subscribers
                .entry(publish.topic.to_owned())
                .or_default()
            {
                subscriber.deliver(&bytes, faults);
            }
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
