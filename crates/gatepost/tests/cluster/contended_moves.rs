//! Many sessions that are claimed at once, each by two nodes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::moves::next;
use super::nats::{self, Nats};
use super::support::{Gateway, await_some};
use super::wire::{Connection, Packet, Publish, Version};
use super::{await_joined, metric, node};

const SESSIONS: usize = 200;
/// Clients that connect at once to each of the two nodes.
const AT_ONCE: usize = 40;

fn name(number: usize) -> String {
    format!("contended{number}")
}

/// Connects; `None` if the session was taken over meanwhile, or the connection with it.
fn connect(address: SocketAddr, number: usize) -> Option<(Connection, bool)> {
    Connection::open(address, Version::Mqtt311, &name(number)).ok()
}

fn begin_session(address: SocketAddr, number: usize) {
    let (mut connection, _) = connect(address, number).expect("accepted");
    connection.put_subscribe(&format!("contended/{number}"));
    assert_eq!(next(&mut connection), Packet::Suback);
}

/// Publishes a message for each session, and waits until all are stored.
fn publish_all(address: SocketAddr) {
    let (mut connection, _) =
        Connection::open(address, Version::Mqtt311, "publisher").expect("accepted");
    for number in 0..SESSIONS {
        connection.put_publish(&Publish {
            topic: format!("contended/{number}"),
            payload: format!("for {number}"),
            qos: 1,
            dup: false,
            packet_id: 1,
        });
        assert_eq!(next(&mut connection), Packet::Puback(1));
    }
}

/// Nodes write their claims of several sessions together. If the key of one of them has been
/// changed by another node, the other claims of the batch are made nevertheless.
#[test]
fn of_two_nodes_that_claim_many_sessions_at_once_one_gets_each() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let nodes = [1, 2, 3].map(|number| node(&nats, number));
    for node in &nodes {
        await_joined(node, 2);
    }
    let [one, two, three] = nodes;
    for number in 0..SESSIONS {
        begin_session(one.address("mqtt"), number);
    }
    publish_all(one.address("mqtt"));

    let accepted = claim_all(&[two.address("mqtt"), three.address("mqtt")]);
    for (number, count) in accepted.into_iter().enumerate() {
        assert!(count >= 1, "{}", name(number));
    }
    let adopted = |node: &Gateway| metric(node, "gatepost_backbone_sessions_adopted_total");
    assert!(adopted(&two) + adopted(&three) >= SESSIONS as u64);

    // Each is whole, wherever its client connects next.
    assert_eq!(claim_all(&[one.address("mqtt")]), [1; SESSIONS]);
    for number in 0..SESSIONS {
        let (mut connection, is_present) = connect(one.address("mqtt"), number).expect("accepted");
        assert!(is_present, "{}", name(number));
        let Packet::Publish(publish) = next(&mut connection) else {
            panic!("{} lacks its message", name(number));
        };
        assert_eq!(publish.payload, format!("for {number}"));
    }
    // No key names a node any longer that its session has left.
    drop(two);
    await_joined(&three, 1);
    for number in 0..SESSIONS {
        await_some("the session moves without its earlier owners", || {
            connect(three.address("mqtt"), number).filter(|(_, is_present)| *is_present)
        });
    }
}

/// Connects the clients of all sessions to each of these nodes at once. Returns how often each was
/// accepted.
fn claim_all(claimants: &[SocketAddr]) -> [usize; SESSIONS] {
    let accepted = [const { AtomicUsize::new(0) }; SESSIONS];
    thread::scope(|scope| {
        for &claimant in claimants {
            for first in 0..AT_ONCE {
                let accepted = &accepted;
                scope.spawn(move || {
                    for number in (first..SESSIONS).step_by(AT_ONCE) {
                        if let Some((_, is_present)) = connect(claimant, number) {
                            assert!(is_present, "{}", name(number));
                            accepted[number].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        }
    });
    accepted.map(AtomicUsize::into_inner)
}
