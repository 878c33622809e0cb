//! The history of what was published through the log.

use std::ops::Range;

use super::nats::{self, Nats};
use super::support::{Gateway, await_some, run, text_of};
use super::wire::{Connection, Packet, Publish, Version};
use super::{PLAIN, publish, readyz, two_nodes};

#[test]
fn every_node_remembers_what_was_published_durably() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    for number in 0..5 {
        publish(&one, "h/x", &format!("n{number}"), &["-q", "1"]);
    }
    await_some("the other node has the history", || {
        let answer = text_of(&run("curl", &["-s", &two.url("/topics/h/x")], b""));
        let found = (0..5).filter(|number| answer.contains(&format!("\"n{number}\"")));
        (found.count() == 5).then_some(())
    });
}

/// The numbers of the messages `n0`, `n1` and so on in the history of a topic, in its order.
fn remembered(gateway: &Gateway, topic: &str) -> Vec<u32> {
    let url = gateway.url(&format!("/topics/{topic}"));
    let answer = text_of(&run("curl", &["-s", &url], b""));
    let parts = answer.split("\"n").skip(1);
    let numbers = parts.filter_map(|part| part.split_once('"')?.0.parse().ok());
    numbers.collect()
}

fn connect(gateway: &Gateway) -> Connection {
    let opened = Connection::open(gateway.address("mqtt"), Version::Mqtt311, "swift");
    opened.expect("accepted").0
}

/// Publishes `n0`, `n1` and so on at once; returns those that were acknowledged.
fn publish_swiftly(mut connection: Connection, numbers: Range<u32>) -> Vec<u32> {
    let first = numbers.start;
    let packet_id = |number: u32| 1 + (number - first) as u16;
    for number in numbers.clone() {
        connection.put_publish(&Publish {
            topic: "h/x".to_owned(),
            payload: format!("n{number}"),
            qos: 1,
            dup: false,
            packet_id: packet_id(number),
        });
    }
    let _ = connection.flush();
    let is_acknowledged = |number: &u32| {
        let packet = await_some("an acknowledgement", || match connection.receive() {
            Ok(packet) => packet.map(Some),
            Err(_) => Some(None),
        });
        packet == Some(Packet::Puback(packet_id(*number)))
    };
    numbers.take_while(is_acknowledged).collect()
}

/// The database of the publishers' node gets the history after the acknowledgement.
#[test]
fn a_node_that_is_killed_at_once_remembers_what_it_has_acknowledged() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{PLAIN}", nats.settings(1));
    let mut published = Vec::new();
    for round in 0..3 {
        let one = Gateway::start_in(folder.path(), &settings);
        await_some("the history is complete", || {
            (remembered(&one, "h/x") == published).then_some(())
        });
        let numbers = round * 20..(round + 1) * 20;
        let acknowledged = publish_swiftly(connect(&one), numbers.clone());
        assert!(acknowledged.iter().copied().eq(numbers));
        published.extend(acknowledged);
        one.kill();
    }
    // Also from the database alone.
    let one = Gateway::start_in(folder.path(), &settings);
    await_some("the history is complete", || {
        (remembered(&one, "h/x") == published).then_some(())
    });
    assert_eq!(one.terminate(), Some(0));
    let one = Gateway::start_in(folder.path(), PLAIN);
    assert_eq!(remembered(&one, "h/x"), published);
}

/// The commit with the history fails after the acknowledgement, which came from the log.
#[test]
fn a_node_whose_disk_fails_for_a_moment_remembers_what_it_has_acknowledged() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{PLAIN}", nats.settings(1));
    // No file grows beyond a length while the disk "fails".
    let one = Gateway::start_after("trap '' XFSZ", folder.path(), &settings);
    let set_length_max = |length: &str| {
        let pid = format!("--pid={}", one.pid());
        let set = run("prlimit", &[&pid, &format!("--fsize={length}:")], b"");
        assert!(set.status.success(), "{}", text_of(&set));
    };
    let has_failed = || !readyz(&one).contains(" 200 ");
    let mut published = Vec::new();
    for round in 0..3 {
        let connection = connect(&one);
        set_length_max("4096");
        published.extend(publish_swiftly(connection, round * 20..(round + 1) * 20));
        await_some("the disk fails", || has_failed().then_some(()));
        set_length_max("unlimited");
        await_some("the disk works", || (!has_failed()).then_some(()));
    }
    assert!(!published.is_empty(), "none was acknowledged");
    assert_eq!(one.terminate(), Some(0));
    let recalled = |gateway: &Gateway| {
        let mut recalled = remembered(gateway, "h/x");
        recalled.retain(|number| published.contains(number));
        recalled
    };
    let one = Gateway::start_in(folder.path(), &settings);
    await_some("the history is complete", || {
        (recalled(&one) == published).then_some(())
    });
    // Also from the database alone.
    assert_eq!(one.terminate(), Some(0));
    let one = Gateway::start_in(folder.path(), PLAIN);
    assert_eq!(recalled(&one), published);
}
