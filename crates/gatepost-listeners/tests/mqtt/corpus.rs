//! Packet sequences that the mosquitto project published for brokers.
//!
//! The sequences are in a folder that may be missing; one line of the output reports that.

use std::collections::HashMap;
use std::path::PathBuf;

use gatepost_message::Qos;
use gatepost_mqtt::{Packet, PropertiesBuffer, Property, Version};
use serde_json::Value;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const THREADS: usize = 16;

/// The cases in which we deviate, with the reason.
const DEVIATIONS: &[(&str, &str)] = &[
    (
        "CONNECT-0162",
        "flags in CONNECT's first byte, which 3.1 allowed, are refused before the version is known",
    ),
    (
        "CONNECT-0182",
        "an unknown level below 5 is answered as 3.1.1 does, with return code 1",
    ),
    (
        "OTHER-0670",
        "at QoS 2 a publication is delivered at its PUBLISH (section 4.3.3, method B), not at its \
         PUBREL",
    ),
    (
        "PUBLISH-0991",
        "a PUBLISH that is repeated is answered by PUBREC however often it is repeated",
    ),
    (
        "PUBLISH-1004",
        "publishing under $SYS is refused as not authorized (0x87)",
    ),
    (
        "SUBSCRIBE-1475",
        "one invalid filter is refused by the SUBACK (0x80), the connection goes on",
    ),
];

fn corpus() -> Option<String> {
    let folder = std::env::var_os("GATEPOST_TEST_CORPORA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
        PathBuf::from,
    );
    std::fs::read_to_string(folder.join("mqtt/wire-sequences.jsonl")).ok()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn connect(server: &Server, test: &Value, version: Version) -> Wire {
    let mut wire = Wire::open(server.address, version);
    let client_id = format!("{} {}", test["group"], test["name"]);
    let mut properties = PropertiesBuffer::new();
    properties
        .push(&Property::ReceiveMaximum(20))
        .expect("short");
    let mut connect = plain_connect(version, &client_id);
    if version == Version::Mqtt5 {
        connect.properties = properties.as_properties();
    }
    wire.send(&Packet::Connect(connect));
    let connack = wire.receive().expect("a CONNACK");
    assert_eq!(connack[3], 0, "refused");
    wire
}

fn publish_from_outside(server: &Server, publication: &Value) {
    let mut wire = Wire::connected(server.address, Version::Mqtt311, "outside");
    let text = |name: &str| publication[name].as_str().unwrap_or_default().to_owned();
    let qos = Qos::from_level(publication["qos"].as_u64().unwrap_or(0) as u8).expect("a level");
    let retain = publication["retain"].as_bool().unwrap_or(false)
        || publication["retain"].as_u64() == Some(1);
    wire.publish(&text("topic"), text("payload").as_bytes(), qos, retain);
    if qos != Qos::AtMostOnce {
        wire.receive();
    }
    assert!(wire.is_alive());
    let disconnect = gatepost_mqtt::ReasonedPacket::default();
    wire.send(&Packet::Disconnect(disconnect));
}

/// Equal, except where the standard leaves a choice: a CONNACK's properties; which of two codes
/// names a broken packet; and acknowledgements that report more than success, where the broker of
/// the sequences reports success only (0x10: no subscriber; 0x92: the identifier is not known).
fn is_as_expected(got: &[u8], expected: &[u8]) -> bool {
    let is_broken = |code: Option<&u8>| matches!(code, Some(0x81 | 0x82));
    if got.first() != expected.first() {
        return false;
    }
    match expected[0] {
        0x20 => {
            let same = got.get(2..4) == expected.get(2..4);
            same || (is_broken(got.get(3)) && is_broken(expected.get(3)))
        }
        0xE0 => {
            let same = got.get(2) == expected.get(2);
            same || (is_broken(got.get(2)) && is_broken(expected.get(2)))
        }
        0x40 | 0x50 | 0x62 | 0x70 if expected[1] == 2 && got.get(1) == Some(&3) => {
            got.get(2..4) == expected.get(2..4) && matches!(got.get(4), Some(0x10 | 0x92))
        }
        _ => got == expected,
    }
}

fn run(server: &Server, test: &Value) -> Result<(), String> {
    let version = match test["ver"].as_u64() {
        Some(3) => Version::Mqtt31,
        Some(4) => Version::Mqtt311,
        _ => Version::Mqtt5,
    };
    let mut wire = if test["default_connect"].as_bool() == Some(true) {
        connect(server, test, version)
    } else {
        Wire::open(server.address, version)
    };
    for step in test["steps"].as_array().into_iter().flatten() {
        if let Some(hex) = step["send"].as_str() {
            wire.send_bytes(&bytes(hex));
        }
        if let Some(hex) = step["recv"].as_str() {
            let expected = bytes(hex);
            match wire.try_receive() {
                Some(Some(got)) if is_as_expected(&got, &expected) => {}
                // A broker may close without a packet.
                Some(None) if expected[0] == 0xE0 => return Ok(()),
                got => return Err(format!("expected {expected:02x?}, got {got:02x?}")),
            }
        }
        if step["external_publish"].is_object() {
            publish_from_outside(server, &step["external_publish"]);
        }
    }
    if test["expect_disconnect"].as_bool() == Some(true) {
        loop {
            match wire.try_receive() {
                Some(None) => return Ok(()),
                Some(Some(packet)) if packet[0] == 0xE0 || packet[0] == 0x20 => {}
                Some(Some(packet)) => return Err(format!("not the end but {packet:02x?}")),
                None => return Err("the connection lives on".to_owned()),
            }
        }
    }
    wire.send(&Packet::Pingreq);
    match wire.try_receive() {
        Some(Some(packet)) if packet[0] == 0xD0 => Ok(()),
        got => Err(format!("no PINGRESP but {got:02x?}")),
    }
}

#[test]
fn published_sequences_are_answered_as_expected() {
    let Some(corpus) = corpus() else {
        println!("skipped: the corpus of packet sequences is not here");
        return;
    };
    let tests: Vec<Value> = corpus
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    // Most of the time is spent waiting for the end of connections.
    let chunk = tests.len().div_ceil(THREADS);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = tests
            .chunks(chunk)
            .map(|tests| scope.spawn(|| tests.iter().map(run_alone).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let deviations: HashMap<_, _> = DEVIATIONS.iter().copied().collect();
    let (mut passed, mut deviating, mut failures) = (0, 0, Vec::new());
    for (test, outcome) in tests.iter().zip(outcomes) {
        let id = test["id"].as_str().expect("an id");
        match (outcome, deviations.contains_key(id)) {
            (Ok(()), false) => passed += 1,
            (Err(_), true) => deviating += 1,
            (Ok(()), true) => failures.push(format!("{id}: listed as deviating, but passes")),
            (Err(error), false) => failures.push(format!(
                "{id} v{} {}: {error}; {}",
                test["ver"], test["name"], test["steps"]
            )),
        }
    }
    println!("{passed} sequences as expected, {deviating} deviate with a reason");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// With a server of its own: no test sees retained messages of another one.
fn run_alone(test: &Value) -> Result<(), String> {
    run(&Server::start(), test)
}
