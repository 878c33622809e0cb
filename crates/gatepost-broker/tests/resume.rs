//! Readers that are cut off and resume, while publishers overtake each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gatepost_broker::{Broker, BrokerSettings, ReaderOptions, Since, StreamEvent};
use gatepost_message::{MessageId, Publication, Topic, TopicFilter};

const PUBLISHERS: usize = 6;
const MESSAGES: usize = 2_000;
const READERS: usize = 4;

/// A generator of pseudorandom numbers (xorshift64), the same in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Publishes messages that arrived in another order, as after judging for different times.
fn publish(broker: &Broker, publisher: usize) {
    let mut random = XorShift(publisher as u64 + 1);
    let mut publisher_handle = broker.publisher();
    let mut judged = Vec::new();
    for number in 0..MESSAGES {
        let topic = Topic::new(&format!("t/{}", random.below(5))).expect("a topic");
        let payload = format!("{publisher} {number}");
        judged.push(Publication::new(topic, payload));
        if random.below(3) > 0 && number + 1 < MESSAGES {
            continue;
        }
        while !judged.is_empty() {
            let next = judged.swap_remove(random.below(judged.len() as u64) as usize);
            publisher_handle.publish(next);
            if random.below(2) == 0 {
                let _ = publisher_handle.flush();
            }
        }
        thread::yield_now();
    }
    let _ = publisher_handle.flush();
}

/// Reads everything, with many interruptions; returns each message as it was received.
fn read(broker: &Broker, reader: usize, done: &AtomicBool, begun: &AtomicBool) -> Vec<String> {
    let mut random = XorShift(1_000 + reader as u64);
    let filters = [TopicFilter::new("t/+").expect("a filter")];
    let mut since = Since::Everything;
    let mut last: Option<MessageId> = None;
    let mut seen = Vec::new();
    loop {
        let was_done = done.load(Ordering::Acquire);
        let options = ReaderOptions {
            since,
            ..ReaderOptions::default()
        };
        let mut stream = broker.subscribe_stream(&filters, options);
        begun.store(true, Ordering::Release);
        let mut before_cut = random.below(300);
        while before_cut > 0 || was_done {
            match stream.try_next() {
                Some(StreamEvent::Publication(one)) => {
                    assert!(last < Some(one.position), "positions rise");
                    last = Some(one.position);
                    seen.push(String::from_utf8_lossy(&one.payload).into_owned());
                }
                Some(StreamEvent::Gap { missed }) => panic!("a gap of {missed:?}"),
                None if was_done => return seen,
                None => thread::yield_now(),
            }
            before_cut = before_cut.saturating_sub(1);
        }
        since = last.map_or(Since::Everything, Since::After);
    }
}

#[test]
fn every_reader_gets_every_message_once_despite_overtaking_and_disconnects() {
    let broker = Broker::new(BrokerSettings {
        recent_per_topic: PUBLISHERS * MESSAGES,
        stream_messages_max: PUBLISHERS * MESSAGES,
        ..BrokerSettings::default()
    });
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (broker, done) = (broker.clone(), done.clone());
            let begun = Arc::new(AtomicBool::new(false));
            let has_begun = begun.clone();
            let reading = thread::spawn(move || read(&broker, reader, &done, &begun));
            while !has_begun.load(Ordering::Acquire) {
                thread::yield_now();
            }
            reading
        })
        .collect();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let broker = broker.clone();
            thread::spawn(move || publish(&broker, publisher))
        })
        .collect();
    for publisher in publishers {
        publisher.join().expect("no panic");
    }
    done.store(true, Ordering::Release);
    let mut expected: Vec<_> = (0..PUBLISHERS)
        .flat_map(|publisher| (0..MESSAGES).map(move |number| format!("{publisher} {number}")))
        .collect();
    expected.sort();
    for reader in readers {
        let mut seen = reader.join().expect("no panic");
        seen.sort();
        assert_eq!(seen.len(), expected.len(), "lost or repeated");
        assert_eq!(seen, expected);
    }
}
