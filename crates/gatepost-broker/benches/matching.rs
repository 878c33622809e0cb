//! 10,000 topics against 100,000 subscriptions with wildcards: the cost of an uncached and of a
//! cached match.
//!
//! `cargo bench -p gatepost-broker --bench matching`

mod common;

use std::time::{Duration, Instant};

use gatepost_broker::{Broker, BrokerSettings, Publisher};
use gatepost_message::{Publication, Qos, Topic};

const SESSIONS: usize = 1_000;
const SITES: usize = 100;
const ROOMS: usize = 100;
const ROUNDS: usize = 9;

/// 100 for each session. Of a site's sessions one asks for a whole room, one for one kind of value
/// in each room, and so on; a few ask for a level at the very beginning.
fn filters(session: usize) -> impl Iterator<Item = String> {
    (0..100).map(move |number| {
        let (site, room) = (session % SITES, number);
        match session / SITES {
            0 => format!("site/{site}/room/{room}/#"),
            1 => format!("site/{site}/+/{room}/temperature"),
            2 => format!("site/+/room/{room}/alarm/{site}"),
            3 => format!("site/{site}/room/+/sensor/{number}"),
            4 => format!("+/{site}/room/{room}/humidity"),
            5 => format!("site/{site}/+/+/valve/{number}"),
            6 => format!("plant/{site}/line/{room}/+"),
            7 => format!("plant/{site}/+/{room}/#"),
            8 => format!("store/+/{site}/{room}"),
            _ => format!("store/{site}/{room}/#"),
        }
    })
}

/// The median of several rounds, each over all of `names`, for one name.
fn median(names: &[String], mut round: impl FnMut(&[String])) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round(names);
            start.elapsed() / names.len() as u32
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn publish(publisher: &mut Publisher, topics: &[Topic]) -> usize {
    let receivers = topics
        .iter()
        .map(|topic| {
            publisher
                .publish(Publication::new(topic.clone(), "x"))
                .receivers
        })
        .sum();
    // Nothing waits for the disk here.
    let _ = publisher.flush();
    receivers
}

fn main() {
    let broker = Broker::new(BrokerSettings::default());
    let start = Instant::now();
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let attachment = common::connect(&broker, &format!("client-{number}"), Duration::ZERO);
            for filter in filters(number) {
                common::subscribe(&attachment, &filter, Qos::AtMostOnce);
            }
            attachment
        })
        .collect();
    let subscriptions = broker.stats(0, 0).subscriptions;
    println!(
        "{subscriptions} subscriptions with wildcards in {:?}",
        start.elapsed()
    );

    let names: Vec<String> = (0..SITES * ROOMS)
        .map(|number| {
            format!(
                "site/{}/room/{}/temperature",
                number / ROOMS,
                number % ROOMS
            )
        })
        .collect();
    let mut publisher = broker.publisher();
    let receivers: usize = names
        .iter()
        .map(|name| {
            let topic = Topic::new(name).expect("a topic");
            publisher.publish(Publication::new(topic, "x")).receivers
        })
        .sum();
    let _ = publisher.flush();
    println!(
        "{} topics, {} receivers each",
        names.len(),
        receivers / names.len()
    );

    // A new publisher remembers nothing; it has room for 1,024 topics.
    let found = median(&names, |names| {
        let mut publisher = broker.publisher();
        for name in names {
            publisher.enter(name).expect("a topic");
        }
    });
    println!("a match that is looked up: {found:?}");
    let few: Vec<String> = names.iter().take(1_000).cloned().collect();
    let topics: Vec<Topic> = few
        .iter()
        .map(|name| Topic::new(name).expect("a topic"))
        .collect();
    publish(&mut publisher, &topics);
    let entered = median(&few, |names| {
        for name in names {
            publisher.enter(name).expect("a topic");
        }
    });
    println!("a match that is remembered: {entered:?}");
    let published = median(&few, |_| {
        publish(&mut publisher, &topics);
    });
    println!("published and delivered to all its receivers: {published:?}");
    drop(sessions);
}
