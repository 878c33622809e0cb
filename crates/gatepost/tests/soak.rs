//! Misbehaving clients: connects and disconnects, slow readers, half-open sockets, malformed
//! packets, round after round. A publisher and a subscriber beside them are not affected: no
//! message is lost or delayed indefinitely, and after the misbehaving clients are gone, the server
//! keeps nothing of them.
//!
//! A few rounds run with all tests; `GATEPOST_TEST_SOAK_ROUNDS=1000` takes hours.

mod support;

#[path = "crash/wire.rs"]
#[allow(dead_code)] // this test publishes at QoS 0 and 1 only
mod wire;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use support::{Gateway, PATIENCE, await_some, run, text_of};
use wire::{Connection, Packet, Publish, Version};

const ROUNDS: u64 = 120;
/// After this many rounds, the server has allocated the memory that it keeps.
const WARM_ROUNDS: u64 = 10;
const NEIGHBOURS: usize = 20;
const NEIGHBOUR_PAYLOAD_BYTES: usize = 100_000;
/// The variation of resident memory that is due to the allocator.
const SLACK_BYTES: u64 = 24 * 1024 * 1024;
/// No client may make others wait, so slow readers lose.
const SETTINGS: &str = "rules.paths = []\nbroker.slow_subscriber = \"drop-oldest\"\n\
                        listeners.mqtt.connect_timeout = \"2s\"\n";

#[test]
fn misbehaving_clients_leave_no_resources_in_use() {
    let rounds = std::env::var("GATEPOST_TEST_SOAK_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let gateway = Gateway::start(SETTINGS);
    let address = gateway.address("mqtt");
    let sockets_before = sockets(&gateway);
    let is_over = AtomicBool::new(false);
    let received = AtomicU64::new(0);
    thread::scope(|scope| {
        // However the rounds end, the pair ends too: the scope waits for it.
        let ends_the_pair = SetWhenDropped(&is_over);
        let steady = scope.spawn(|| steady_pair(address, &is_over, &received));
        let mut warm_bytes = 0;
        for round in 0..rounds {
            let before = received.load(Ordering::Acquire);
            neighbours(address, round);
            await_some("the steady pair goes on", || {
                assert!(!steady.is_finished(), "the steady pair ended");
                (received.load(Ordering::Acquire) > before).then_some(())
            });
            if round == WARM_ROUNDS {
                warm_bytes = resident_bytes(&gateway);
            }
        }
        // Only the well-behaved pair is left, and the memory is as before.
        await_some("all neighbours are gone", || {
            (metric(&gateway, "gatepost_sessions_connected") == 2).then_some(())
        });
        await_some("their descriptors are closed", || {
            (sockets(&gateway) <= sockets_before + 2).then_some(())
        });
        let now_bytes = resident_bytes(&gateway);
        println!("{rounds} rounds; memory {warm_bytes} bytes when warm, {now_bytes} at the end");
        assert!(
            rounds <= WARM_ROUNDS || now_bytes <= warm_bytes + warm_bytes / 4 + SLACK_BYTES,
            "memory grew from {warm_bytes} to {now_bytes} bytes"
        );
        drop(ends_the_pair);
        steady.join().expect("the steady pair saw every number");
    });
    assert_eq!(gateway.terminate(), Some(0));
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Publishes numbers and receives each, in order, until it is stopped.
fn steady_pair(address: SocketAddr, is_over: &AtomicBool, received: &AtomicU64) {
    let (mut subscriber, _) =
        Connection::open(address, Version::Mqtt311, "steady subscriber").expect("open");
    subscriber.put_subscribe("steady/#");
    subscriber.flush().expect("alive");
    while subscriber.receive().expect("alive") != Some(Packet::Suback) {}
    let (mut publisher, _) =
        Connection::open(address, Version::Mqtt5, "steady publisher").expect("open");
    let mut number = 0_u64;
    while !is_over.load(Ordering::Acquire) {
        publisher.put_publish(&Publish {
            topic: "steady/numbers".to_owned(),
            payload: number.to_string(),
            qos: 1,
            dup: false,
            packet_id: 1,
        });
        publisher.flush().expect("alive");
        let deadline = Instant::now() + PATIENCE;
        while publisher.receive().expect("alive") != Some(Packet::Puback(1)) {
            assert!(Instant::now() < deadline, "no PUBACK for {number}");
        }
        let publish = loop {
            match subscriber.receive().expect("alive") {
                Some(Packet::Publish(publish)) => break publish,
                Some(other) => panic!("unexpected {other:?}"),
                None => assert!(Instant::now() < deadline, "{number} does not come"),
            }
        };
        assert_eq!(publish.payload, number.to_string());
        subscriber.put_ack(0x40, publish.packet_id);
        subscriber.flush().expect("alive");
        number += 1;
        received.store(number, Ordering::Release);
    }
}

/// One round of all kinds of neighbours, who end when it does.
fn neighbours(address: SocketAddr, round: u64) {
    let connect = |name: &str| {
        let mut packet = vec![0x10, 0, 0, 4];
        packet.extend(b"MQTT\x04\x02\0\0\0");
        packet.push(name.len() as u8);
        packet.extend(name.as_bytes());
        packet[1] = (packet.len() - 2) as u8;
        packet
    };
    let subscribe = b"\x82\x06\0\x01\0\x01#\0".as_slice();
    let open = || TcpStream::connect(address).expect("the server listens");
    let mut kept = Vec::new();
    for number in 0..NEIGHBOURS {
        let mut stream = open();
        let name = format!("neighbour {number}");
        let bytes = match number % 5 {
            // A reader that never reads.
            0 => [&connect(&name), subscribe].concat(),
            // Half of a CONNECT, then silence.
            1 => connect(&name)[..8].to_vec(),
            // Rubbish, before and after the CONNECT.
            2 => noise(round * 31 + number as u64),
            3 => [connect(&name), noise(round * 17 + number as u64)].concat(),
            // Connects and disconnects.
            _ => [&connect(&name), subscribe, &[0xE0, 0]].concat(),
        };
        // A client that sends rubbish may have been cut off already.
        let _ = stream.write_all(&bytes);
        kept.push(stream);
    }
    // Something for the slow readers not to read.
    let mut publisher = open();
    let topic = b"\0\x05noise";
    let length = topic.len() + NEIGHBOUR_PAYLOAD_BYTES;
    let mut publish = vec![
        0x30,
        (length & 0x7F) as u8 | 0x80,
        (length >> 7 & 0x7F) as u8 | 0x80,
        (length >> 14) as u8,
    ];
    publish.extend(topic);
    publish.resize(4 + length, b'.');
    publisher.write_all(&connect("noisy")).expect("alive");
    for _ in 0..20 {
        publisher.write_all(&publish).expect("alive");
    }
    publisher.write_all(&[0xC0, 0]).expect("alive");
    publisher
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket");
    let mut answers = [0; 6];
    publisher
        .read_exact(&mut answers)
        .expect("CONNACK, PINGRESP");
    assert_eq!(answers, [0x20, 2, 0, 0, 0xD0, 0]);
    for (number, stream) in kept.iter().enumerate() {
        if number % 2 == 0 {
            // The others are closed with unread bytes, which resets them.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Bytes that are not packets, the same in every run.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..200).map(|_| byte()).collect()
}

fn resident_bytes(gateway: &Gateway) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("running");
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("a line");
    let kibibytes: u64 = line
        .split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("one");
    kibibytes * 1024
}

/// Sockets that the server has open, but for those that its workers open once: the listening ones
/// when they begin, which may be later than its first answer, and one each to the kernel (netlink)
/// when a client first logs in.
fn sockets(gateway: &Gateway) -> usize {
    let of_workers = sockets_of_workers(gateway);
    let others = open_sockets(gateway).difference(&of_workers).count();
    let kept = netlink_sockets(gateway)
        .intersection(&open_sockets(gateway))
        .count();
    let workers = thread::available_parallelism().expect("known").get();
    // The thread that starts the server has tried whether the kernel answers.
    assert!(kept <= workers + 1, "{kept} netlink sockets");
    others
}

/// The inodes of all sockets that the server has open.
fn open_sockets(gateway: &Gateway) -> HashSet<String> {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("running");
    folder
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| {
            let target = target.to_str()?.strip_prefix("socket:[")?;
            Some(target.strip_suffix(']')?.to_owned())
        })
        .collect()
}

/// The inodes of all listening sockets for TCP, and of all netlink sockets.
fn sockets_of_workers(gateway: &Gateway) -> HashSet<String> {
    let listening = |line: &str| {
        let mut fields = line.split_whitespace().skip(3);
        (fields.next()? == "0A").then(|| fields.nth(5).map(str::to_owned))?
    };
    let tcp = table_of_sockets(gateway, "tcp");
    let listening = tcp.lines().filter_map(listening);
    listening.chain(netlink_sockets(gateway)).collect()
}

/// The inodes of all netlink sockets.
fn netlink_sockets(gateway: &Gateway) -> HashSet<String> {
    let table = table_of_sockets(gateway, "netlink");
    let inode = |line: &str| line.split_whitespace().last().map(str::to_owned);
    table.lines().skip(1).filter_map(inode).collect()
}

fn table_of_sockets(gateway: &Gateway, name: &str) -> String {
    let path = format!("/proc/{}/net/{name}", gateway.pid());
    std::fs::read_to_string(path).expect("the table of sockets")
}

/// A value of `/metrics`.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let output = run("curl", &["-sf", &gateway.url("/metrics")], b"");
    let text = text_of(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line[name.len() + 1..].parse().expect("a number")
}
