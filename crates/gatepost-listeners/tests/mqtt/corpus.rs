//! Packet sequences that the mosquitto project published for brokers.
//!
//! They lie in a folder that not everybody has; where it is missing, one line says so.

use std::collections::HashMap;
use std::path::PathBuf;

use gatepost_message::Qos;
use gatepost_mqtt::{Packet, Properties, PropertiesBuffer, Property, Version};
use serde_json::Value;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

/// Where we do otherwise, and why.
const DEVIATIONS: &[(&str, &str)] = &[];

fn corpus() -> Option<String> {
    let folder = std::env::var_os("GATEPOST_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    std::fs::read_to_string(folder.join("corpora/mqtt/wire-sequences.jsonl")).ok()
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
    let goodbye = gatepost_mqtt::Outcome::default();
    wire.send(&Packet::Disconnect(goodbye));
}

/// Equal, but for what the standard leaves open: a CONNACK's properties, and which of two codes
/// names a broken packet.
fn is_as_expected(got: &[u8], expected: &[u8]) -> bool {
    if got.first() != expected.first() {
        return false;
    }
    match expected[0] {
        0x20 => got.get(2..4) == expected.get(2..4),
        0xE0 => {
            let broken = |bytes: &[u8]| matches!(bytes.get(2), Some(0x81 | 0x82));
            got.get(2) == expected.get(2) || (broken(got) && broken(expected))
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
            match wire.receive() {
                Some(got) if is_as_expected(&got, &expected) => {}
                // A broker may close without a word.
                None if expected[0] == 0xE0 => return Ok(()),
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
    let _ = Properties::EMPTY;
    let deviations: HashMap<_, _> = DEVIATIONS.iter().copied().collect();
    let (mut passed, mut deviating, mut failures) = (0, 0, Vec::new());
    for line in corpus.lines() {
        let test: Value = serde_json::from_str(line).expect("JSON");
        let id = test["id"].as_str().expect("an id");
        // A server of its own: no test sees what another one retained.
        let server = Server::start();
        match (run(&server, &test), deviations.contains_key(id)) {
            (Ok(()), false) => passed += 1,
            (Err(_), true) => deviating += 1,
            (Ok(()), true) => failures.push(format!("{id}: listed as deviating, but passes")),
            (Err(error), false) => {
                failures.push(format!(
                    "{id} v{} {}: {error}; {}",
                    test["ver"], test["name"], test["steps"]
                ));
            }
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
