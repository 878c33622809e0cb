//! The memory of a node for what other nodes have published.

use super::log::await_read;
use super::moves::next;
use super::nats::{self, Nats};
use super::support::{Gateway, await_some};
use super::two_nodes;
use super::wire::{Connection, Packet, Publish, Version};

/// Short messages, each on a topic of its own.
const SHORT: u32 = 500;
/// Long messages between two of them, on one topic, and the bytes of each.
const LONG: u16 = 12;
const LONG_BYTES: usize = 5_000;

/// The memory of a server without that of files, in kB.
fn own_memory_kb(gateway: &Gateway) -> u64 {
    let memory = gateway.process_status("RssAnon:");
    let number = memory.trim_end_matches("kB").trim().parse();
    number.expect("a number")
}

#[test]
fn a_short_message_keeps_no_long_ones_in_memory() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let opened = Connection::open(one.address("mqtt"), Version::Mqtt311, "swift");
    let (mut connection, _) = opened.expect("accepted");
    let before = own_memory_kb(&two);
    for number in 0..SHORT {
        let long = (1..=LONG).map(|packet_id| ("long".to_owned(), LONG_BYTES, packet_id));
        let short = (format!("short/{number}"), 10, LONG + 1);
        for (topic, bytes, packet_id) in long.chain([short]) {
            connection.put_publish(&Publish {
                topic,
                payload: "x".repeat(bytes),
                qos: 1,
                dup: false,
                packet_id,
            });
        }
        for packet_id in 1..=LONG + 1 {
            assert_eq!(next(&mut connection), Packet::Puback(packet_id));
        }
    }
    await_read(&two);
    let published = u64::from(SHORT) * u64::from(LONG) * LONG_BYTES as u64 / 1_024;
    // What still waits for the disk is in memory, too: with a busy disk that takes a while.
    let what = format!("less than half of {published} kB is kept");
    await_some(&what, || {
        let grown = own_memory_kb(&two).saturating_sub(before);
        (grown < published / 2).then_some(())
    });
}
