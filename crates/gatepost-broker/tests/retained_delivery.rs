//! Retained messages of a new subscription: more than the session has space for, and together with
//! live messages of their topics.

mod support;

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_broker::{
    Attachment, Broker, BrokerSettings, ConnectOptions, ConnectionClose, Encoder, FrameOptions,
    RequestedFilter, RetainedOfSubscription, SlowSubscriber, SubscribeOptions, SubscriberSocket,
    Unencodable, WireFormat,
};
use gatepost_message::{Publication, Qos, Topic};
use gatepost_settings::ByteSize;
use parking_lot::Mutex;

use support::connect_options;

/// Lines: the packet identifier or 0, the retain flag, the topic, and the payload.
struct Lines;

impl Encoder for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let (id, flag) = (options.packet_id.map_or(0, NonZeroU16::get), options.retain);
        let begin = format!("{id} {flag} {} ", publication.topic);
        out.extend_from_slice(begin.as_bytes());
        out.extend_from_slice(&publication.payload);
        out.extend_from_slice(b"\n");
        Ok(0)
    }

    fn encode_release(&self, _packet_id: NonZeroU16, _out: &mut BytesMut) {}
}

/// A socket that accepts as many bytes as it has room for.
struct LimitedSocket {
    room: AtomicUsize,
    taken: Mutex<Vec<u8>>,
}

impl SubscriberSocket for LimitedSocket {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = 0;
        for slice in slices {
            let room = self.room.load(Ordering::Relaxed);
            let count = slice.len().min(room);
            self.taken.lock().extend_from_slice(&slice[..count]);
            self.room.store(room - count, Ordering::Relaxed);
            written += count;
        }
        if written == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(written)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    packet_id: u16,
    is_retained: bool,
    topic: String,
    payload: String,
}

struct Client {
    attachment: Attachment,
    socket: Arc<LimitedSocket>,
}

impl Client {
    fn connect(broker: &Broker) -> Self {
        let socket = Arc::new(LimitedSocket {
            room: AtomicUsize::new(usize::MAX),
            taken: Mutex::default(),
        });
        let options = ConnectOptions {
            expiry: Duration::from_hours(1),
            receive_max: 50,
            format: WireFormat::Static(&Lines),
            socket: socket.clone(),
            ..connect_options()
        };
        let mut attachment = broker
            .connect(options, |_, _| {})
            .expect("a session")
            .attachment;
        attachment.begin();
        attachment.flush();
        Self { attachment, socket }
    }

    fn request(&self, filter: &str, qos: Qos) -> RetainedOfSubscription {
        let requested = RequestedFilter::new(filter).expect("a filter");
        let options = SubscribeOptions::at(qos);
        let retained = self.attachment.subscribe(&requested, &options);
        retained.expect("within limits")
    }

    fn subscribe(&self, filter: &str, qos: Qos) {
        let retained = self.request(filter, qos);
        self.attachment.deliver_retained(retained);
    }

    fn set_room(&self, bytes: usize) {
        self.socket.room.store(bytes, Ordering::Relaxed);
    }

    /// Does what the connection's task does when it is woken; returns what has been written.
    fn poll(&self) -> Vec<Line> {
        let mut context = Context::from_waker(Waker::noop());
        let room = &self.socket.room;
        let ended = self.attachment.poll_ended(&mut context, |_| {
            if room.load(Ordering::Relaxed) > 0 {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        });
        assert!(ended.is_pending(), "{ended:?}");
        let taken = std::mem::take(&mut *self.socket.taken.lock());
        let text = String::from_utf8(taken).expect("lines");
        text.lines().map(line).collect()
    }

    /// Reads and acknowledges until nothing more comes.
    fn read_all(&self) -> Vec<Line> {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            let lines = self.poll();
            if lines.is_empty() && self.attachment.retained_waiting() == 0 {
                break;
            }
            for line in &lines {
                if let Some(packet_id) = NonZeroU16::new(line.packet_id) {
                    self.attachment.acknowledge(packet_id).expect("in flight");
                }
            }
            self.attachment.flush();
            all.extend(lines);
        }
        all
    }
}

fn line(text: &str) -> Line {
    let mut parts = text.splitn(4, ' ');
    let mut next = || parts.next().expect("four parts").to_owned();
    Line {
        packet_id: next().parse().expect("a number"),
        is_retained: next() == "true",
        topic: next(),
        payload: next(),
    }
}

fn topics(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.topic.as_str()).collect()
}

fn publish(broker: &Broker, topic: &str, payload: impl Into<String>) {
    let (outcome, _) = broker.publish_now(Publication {
        qos: Qos::AtLeastOnce,
        retain: true,
        ..Publication::new(Topic::new(topic).expect("a topic"), payload.into())
    });
    assert_eq!(outcome.refused, None);
}

/// Retained messages under `all/`, and their topics.
fn retain(broker: &Broker, count: usize, bytes: usize) -> Vec<String> {
    let topics: Vec<String> = (0..count)
        .map(|number| format!("all/{number:05}"))
        .collect();
    for topic in &topics {
        publish(broker, topic, "x".repeat(bytes));
    }
    topics
}

#[test]
fn mqtt_3_3_1_9_a_client_that_reads_receives_more_than_the_outbox_contains() {
    for policy in [
        SlowSubscriber::SlowPublisher,
        SlowSubscriber::DropOldest,
        SlowSubscriber::DropNewest,
        SlowSubscriber::NewestOnly,
        SlowSubscriber::Disconnect,
    ] {
        let broker = Broker::new(BrokerSettings {
            slow_subscriber: policy,
            ..BrokerSettings::default()
        });
        let expected = retain(&broker, 3_000, 700);
        let client = Client::connect(&broker);
        client.subscribe("#", Qos::AtMostOnce);
        let lines = client.read_all();
        assert_eq!(topics(&lines), expected, "{policy:?}");
        assert!(lines.iter().all(|line| line.is_retained));
    }
}

#[test]
fn mqtt_3_3_1_9_a_client_that_acknowledges_receives_more_than_the_queue_contains() {
    let broker = Broker::new(BrokerSettings {
        queue_messages_max: 10,
        slow_subscriber: SlowSubscriber::Disconnect,
        ..BrokerSettings::default()
    });
    let expected = retain(&broker, 200, 10);
    let client = Client::connect(&broker);
    client.subscribe("#", Qos::AtLeastOnce);
    assert_eq!(topics(&client.read_all()), expected);
}

#[test]
fn messages_larger_than_half_the_space_come_one_by_one() {
    let broker = Broker::new(BrokerSettings {
        outbox_max: ByteSize(1_000),
        queue_bytes_max: ByteSize(1_000),
        slow_subscriber: SlowSubscriber::Disconnect,
        ..BrokerSettings::default()
    });
    let expected = retain(&broker, 10, 900);
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        let client = Client::connect(&broker);
        client.subscribe("#", qos);
        assert_eq!(topics(&client.read_all()), expected, "{qos:?}");
    }
}

#[test]
fn a_client_that_does_not_read_keeps_half_of_its_outbox_for_live_messages() {
    let broker = Broker::new(BrokerSettings {
        slow_subscriber: SlowSubscriber::Disconnect,
        ..BrokerSettings::default()
    });
    let expected = retain(&broker, 1_000, 1_000);
    let client = Client::connect(&broker);
    client.set_room(0);
    client.subscribe("all/+", Qos::AtMostOnce);
    client.subscribe("live", Qos::AtMostOnce);
    assert!(client.poll().is_empty());
    let waiting = client.attachment.retained_waiting();
    assert!((870..900).contains(&waiting), "{waiting}");
    for _ in 0..100 {
        publish(&broker, "live", "x".repeat(1_000));
    }
    client.set_room(usize::MAX);
    let lines = client.read_all();
    let (live, retained): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.topic == "live");
    assert_eq!(live.len(), 100);
    assert!(live.iter().all(|line| !line.is_retained));
    let retained: Vec<_> = retained.iter().map(|line| line.topic.as_str()).collect();
    assert_eq!(retained, expected);
}

#[test]
fn mqtt_4_6_0_5_no_retained_message_follows_a_later_one_of_its_topic() {
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        let broker = Broker::new(BrokerSettings::default());
        for topic in ["replaced", "cleared", "kept"] {
            publish(&broker, topic, "early");
        }
        let client = Client::connect(&broker);
        // The SUBACK waits for its commit meanwhile.
        let retained = client.request("#", qos);
        publish(&broker, "replaced", "late");
        publish(&broker, "cleared", "");
        client.attachment.deliver_retained(retained);
        let lines = client.read_all();
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (line.topic.as_str(), line.payload.as_str(), line.is_retained))
            .collect();
        let expected = [
            ("replaced", "late", false),
            ("cleared", "", false),
            ("kept", "early", true),
        ];
        assert_eq!(seen, expected, "{qos:?}");
    }
}

#[test]
fn mqtt_3_10_4_2_unsubscribe_ends_the_delivery() {
    let broker = Broker::new(BrokerSettings::default());
    retain(&broker, 1_000, 1_000);
    let client = Client::connect(&broker);
    let filter = RequestedFilter::new("#").expect("a filter").text;
    client.set_room(0);
    client.subscribe("#", Qos::AtMostOnce);
    assert!(client.attachment.retained_waiting() > 0);
    assert!(client.attachment.unsubscribe(&filter));
    assert_eq!(client.attachment.retained_waiting(), 0);
    client.set_room(usize::MAX);
    assert!(client.read_all().len() < 200, "only what was written");
    // UNSUBSCRIBE may arrive before the SUBACK is due, too.
    let retained = client.request("#", Qos::AtMostOnce);
    client.attachment.unsubscribe(&filter);
    client.attachment.deliver_retained(retained);
    assert!(client.read_all().is_empty());
}

#[test]
fn a_session_keeps_what_its_client_did_not_receive_before_it_disconnected() {
    let broker = Broker::new(BrokerSettings {
        queue_messages_max: 1_000,
        ..BrokerSettings::default()
    });
    let expected = retain(&broker, 900, 10);
    let client = Client::connect(&broker);
    client.subscribe("#", Qos::AtLeastOnce);
    assert!(client.attachment.retained_waiting() > 300);
    client.attachment.close(&ConnectionClose::default());
    assert_eq!(topics(&Client::connect(&broker).read_all()), expected);
}

#[test]
fn the_next_connection_of_a_client_receives_what_its_last_one_did_not() {
    let broker = Broker::new(BrokerSettings::default());
    let expected = retain(&broker, 9_000, 10);
    let first = Client::connect(&broker);
    first.subscribe("#", Qos::AtLeastOnce);
    let second = Client::connect(&broker);
    first.attachment.close(&ConnectionClose::default());
    assert_eq!(topics(&second.read_all()), expected);
}
