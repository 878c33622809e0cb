//! The memory that connections, subscriptions and deliveries take from the allocator.
//!
//! Resident memory is the figure that users see, but it depends on the process's earlier work.
//! The memory requested from the allocator does not. It is counted over all threads, so the tests
//! of this program run one after the other, and other tests are in other programs. Clients are bare
//! sockets without memory of their own on the heap.
#![allow(unsafe_code)] // an allocator that counts, and calls the system's

#[path = "mqtt/server.rs"]
#[allow(dead_code)] // not all of it is needed here
mod server;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_users::{AccessSettings, JwtAlgorithm, JwtSettings};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use server::Server;

struct Counting;

/// Bytes that are held now.
static HELD: AtomicIsize = AtomicIsize::new(0);
/// Calls that requested memory.
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's, with the arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test that counts.
static ALONE: Mutex<()> = Mutex::new(());

/// Connections of each kind; each takes two of the process's descriptors.
const CONNECTIONS: usize = 200;
const SUBSCRIPTIONS_EACH: usize = 1_000;
const PUBLICATIONS: usize = 50;

/// The memory of the test itself that is counted too: readings are off by this much at most.
const READING_ERROR_BYTES: usize = 64 * 1024;

fn held() -> usize {
    HELD.load(Ordering::Relaxed).try_into().unwrap_or(0)
}

fn open(server: &Server, number: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    let patience = Some(Duration::from_mins(1));
    stream.set_read_timeout(patience).expect("a timeout");
    let mut connect = *b"\x10\x12\0\x04MQTT\x04\x02\0\0\0\x06000000";
    write!(&mut connect[14..], "{number:06}").expect("six digits");
    stream.write_all(&connect).expect("the server reads");
    expect(&mut stream, &[0x20, 2, 0, 0]);
    stream
}

/// Reads exactly these bytes, without help of the heap.
fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = [0; 64];
    let got = &mut got[..expected.len()];
    stream.read_exact(got).expect("an answer in time");
    assert_eq!(got, expected);
}

/// Subscribes to `topic` at QoS 0, by a packet on the stack.
fn subscribe(stream: &mut TcpStream, topic: &[u8]) {
    let mut packet = [0; 64];
    let length = 7 + topic.len();
    packet[..6].copy_from_slice(&[0x82, (5 + topic.len()) as u8, 0, 7, 0, topic.len() as u8]);
    packet[6..length - 1].copy_from_slice(topic);
    stream
        .write_all(&packet[..length])
        .expect("the server reads");
    expect(stream, &[0x90, 3, 0, 7, 0]);
}

/// A PINGREQ that is answered: everything before it is done.
fn settle(stream: &mut TcpStream) {
    stream.write_all(&[0xC0, 0]).expect("the server reads");
    expect(stream, &[0xD0, 0]);
}

#[test]
fn connections_subscriptions_and_deliveries_stay_within_their_budgets() {
    let _alone = ALONE.lock();
    let server = Server::start();
    let mut streams = Vec::with_capacity(2 * CONNECTIONS + 2);
    // Memory that is allocated only once does not belong to a connection.
    streams.push(open(&server, 0));

    let before = held();
    for number in 1..=CONNECTIONS {
        streams.push(open(&server, number));
    }
    streams.iter_mut().for_each(settle);
    let idle = held().saturating_sub(before + READING_ERROR_BYTES) / CONNECTIONS;

    let before = held();
    for stream in &mut streams[1..=CONNECTIONS] {
        subscribe(stream, b"news");
    }
    streams.iter_mut().for_each(settle);
    let first = held().saturating_sub(before) / CONNECTIONS;

    let mut publisher = open(&server, 999_999);
    let publication = b"\x30\x0a\0\x04newshello";
    let publication = &[&publication[..1], &[0x0b], &publication[2..]].concat()[..];
    let mut publish = |streams: &mut Vec<TcpStream>| {
        publisher.write_all(publication).expect("the server reads");
        for stream in &mut streams[1..=CONNECTIONS] {
            expect(stream, publication);
        }
    };
    publish(&mut streams); // finds the route
    let before = CALLS.load(Ordering::Relaxed);
    for _ in 0..PUBLICATIONS {
        publish(&mut streams);
    }
    let calls = (CALLS.load(Ordering::Relaxed) - before) / PUBLICATIONS;

    let before = held();
    let mut topic = *b"sensor/000/value/0000";
    for (user, stream) in streams[1..=CONNECTIONS / 10].iter_mut().enumerate() {
        for number in 0..SUBSCRIPTIONS_EACH {
            write!(&mut topic[7..], "{user:03}/value/{number:04}").expect("room");
            subscribe(stream, &topic);
        }
    }
    streams.iter_mut().for_each(settle);
    let subscriptions = CONNECTIONS / 10 * SUBSCRIPTIONS_EACH;
    let subscription = held().saturating_sub(before) / subscriptions;

    let figures = format!(
        "bytes of an idle connection {idle}, with its first subscription {first} more, of a \
         further subscription {subscription}; calls of the allocator for a publication to \
         {CONNECTIONS} subscribers {calls}"
    );
    println!("{figures}");
    assert!(idle <= 3_000, "{figures}");
    assert!(first <= 400, "{figures}");
    assert!(subscription <= 160, "{figures}");
    // A delivery takes nothing; the rest is the publication's own memory.
    assert!(calls <= 30, "{figures}");
}

/// Users of an issuer that each connect once, before and while it is counted.
const NAMES_BEFORE: usize = 500;
const NAMES_COUNTED: usize = 2_000;
/// The growth of the server's tables that is permitted for each of them. A format that is not freed
/// takes more than 130 bytes.
const BYTES_OF_A_NAME_MAX: usize = 40;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A token of the issuer for this user.
fn token(user: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let expires = now.expect("after 1970").as_secs() + 3_600;
    let claims = format!("{{\"sub\":\"{user}\",\"exp\":{expires},\"subscribe\":[\"{user}/#\"]}}");
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let text = format!(
        "{}.{}",
        part("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"),
        part(&claims)
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("any length");
    mac.update(text.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{text}.{signature}")
}

/// Connects by MQTT 3.1.1 with a user name and a password, and without a client id.
fn log_in(server: &Server, user: &str, password: &str) -> TcpStream {
    let mut body = b"\0\x04MQTT\x04\xC2\0\0\0\0".to_vec();
    for text in [user, password] {
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text.as_bytes());
    }
    // A remaining length of two bytes.
    let mut packet = vec![
        0x10,
        (body.len() % 128) as u8 | 0x80,
        (body.len() / 128) as u8,
    ];
    packet.extend(body);
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    let patience = Some(Duration::from_mins(1));
    stream.set_read_timeout(patience).expect("a timeout");
    stream.write_all(&packet).expect("the server reads");
    expect(&mut stream, &[0x20, 2, 0, 0]);
    stream
}

/// An issuer may name any number of new users, each with a prefix: none of them leaves anything in
/// memory.
#[test]
fn names_of_an_issuer_that_come_and_go_leave_nothing_behind() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("secret");
    std::fs::write(&key, SECRET).expect("written");
    let access = AccessSettings {
        mount: "%u/".to_owned(),
        jwt: vec![JwtSettings {
            algorithm: JwtAlgorithm::Hs256,
            key,
            ..JwtSettings::default()
        }],
        ..AccessSettings::default()
    };
    let server = Server::with_access(&access, MqttSettings::default());
    // From the first user on, logins are checked.
    server.change(server.users.add("root", "secret of root".into(), true));
    let visit = |number: usize| {
        let user = format!("device-{number:06}");
        let mut stream = log_in(&server, &user, &token(&user));
        subscribe(&mut stream, b"news");
        stream.write_all(&[0xE0, 0]).expect("the server reads");
        // The server closes once the connection is over.
        assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    };
    (0..NAMES_BEFORE).for_each(visit);
    let before = held();
    (NAMES_BEFORE..NAMES_BEFORE + NAMES_COUNTED).for_each(visit);
    let left = held().saturating_sub(before + READING_ERROR_BYTES) / NAMES_COUNTED;
    println!("bytes that each name leaves: {left}");
    assert!(left <= BYTES_OF_A_NAME_MAX, "{left} bytes for each name");
}
