//! Logins by SCRAM, in MQTT's enhanced authentication, and new logins of an open connection.

use gatepost_mqtt::{
    Connect, Packet, PacketProperties, PropertiesBuffer, Property, Reason, ReasonedPacket, Version,
};

use super::{expect_disconnect, logged_in, server};
use crate::scram::ScramClient;
use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const METHOD: &str = "SCRAM-SHA-256";

fn scram_properties<'a>(method: &'a str, data: &'a [u8]) -> PropertiesBuffer {
    let mut properties = PropertiesBuffer::new();
    for property in [
        Property::AuthenticationMethod(method),
        Property::AuthenticationData(data),
    ] {
        properties.push(&property).expect("short");
    }
    properties
}

fn send_auth(wire: &mut Wire, reason: Reason, method: &str, text: &str) {
    let properties = scram_properties(method, text.as_bytes());
    wire.send(&Packet::Auth(ReasonedPacket::new(
        reason,
        properties.as_properties(),
    )));
}

fn authentication(properties: PacketProperties<'_>) -> (String, Vec<u8>) {
    let method = properties.find(|property| match property {
        Property::AuthenticationMethod(method) => Some(method.to_owned()),
        _ => None,
    });
    let data = properties.find(|property| match property {
        Property::AuthenticationData(data) => Some(data.to_vec()),
        _ => None,
    });
    (method.expect("a method"), data.expect("data"))
}

fn expect_auth(wire: &mut Wire, reason: Reason) -> Vec<u8> {
    wire.expect(|packet| match packet {
        Packet::Auth(auth) => {
            assert_eq!(auth.reason, reason);
            let (method, data) = authentication(auth.properties);
            assert_eq!(method, METHOD);
            data
        }
        other => panic!("not an AUTH: {other:?}"),
    })
}

/// CONNECT with SCRAM up to the server's challenge.
fn begin_scram(server: &Server, scram: &ScramClient) -> (Wire, Vec<u8>) {
    let first = scram.first();
    let properties = scram_properties(METHOD, first.as_bytes());
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Connect(Connect {
        properties: properties.as_properties(),
        ..plain_connect(Version::Mqtt5, "scram")
    }));
    let challenge = expect_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION);
    (wire, challenge)
}

fn logged_in_by_scram(server: &Server) -> Wire {
    let mut scram = ScramClient::new("anna", "secret");
    let (mut wire, challenge) = begin_scram(server, &scram);
    let proof = scram.last(&challenge);
    send_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION, METHOD, &proof);
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => {
            assert_eq!(connack.reason, Reason::SUCCESS);
            let (method, data) = authentication(connack.properties);
            assert_eq!(method, METHOD, "[MQTT-4.12.0-5]");
            assert!(scram.is_proven(&data));
        }
        other => panic!("not a CONNACK: {other:?}"),
    });
    wire
}

#[test]
fn scram_proves_both_sides() {
    let server = server();
    let mut wire = logged_in_by_scram(&server);
    assert!(wire.is_alive());
    let mut wrong = ScramClient::new("anna", "wrong");
    let (mut wire, challenge) = begin_scram(&server, &wrong);
    let proof = wrong.last(&challenge);
    send_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION, METHOD, &proof);
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => {
            assert_eq!(connack.reason, Reason::BAD_USER_NAME_OR_PASSWORD);
        }
        other => panic!("not a CONNACK: {other:?}"),
    });
    assert!(wire.is_closed());
}

#[test]
fn only_auth_packets_precede_the_connack() {
    let server = server();
    let (mut wire, _) = begin_scram(&server, &ScramClient::new("anna", "secret"));
    wire.send(&Packet::Pingreq); // [MQTT-3.1.2-30]
    assert!(wire.is_closed());
}

#[test]
fn a_client_reauthenticates_without_interruption() {
    let server = server();
    let mut wire = logged_in_by_scram(&server);
    let mut scram = ScramClient::new("anna", "secret");
    send_auth(&mut wire, Reason::REAUTHENTICATE, METHOD, &scram.first());
    let challenge = expect_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION);
    assert!(
        wire.is_alive(),
        "[MQTT-4.12.1-2]: the old login still holds"
    );
    let proof = scram.last(&challenge);
    send_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION, METHOD, &proof);
    let last = expect_auth(&mut wire, Reason::SUCCESS);
    assert!(scram.is_proven(&last));
    assert!(wire.is_alive());

    let mut wrong = ScramClient::new("anna", "wrong");
    send_auth(&mut wire, Reason::REAUTHENTICATE, METHOD, &wrong.first());
    let challenge = expect_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION);
    let proof = wrong.last(&challenge);
    send_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION, METHOD, &proof);
    expect_disconnect(&mut wire, Reason::NOT_AUTHORIZED);
}

#[test]
fn unexpected_auth_ends_the_connection() {
    let server = server();
    for (reason, method) in [
        (Reason::CONTINUE_AUTHENTICATION, METHOD),
        (Reason::REAUTHENTICATE, "SCRAM-SHA-1"),
    ] {
        let mut wire = logged_in_by_scram(&server);
        send_auth(&mut wire, reason, method, "n,,n=anna,r=x");
        expect_disconnect(&mut wire, Reason::PROTOCOL_ERROR);
    }
    let mut plain = logged_in(&server, "plain", "anna");
    let first = ScramClient::new("anna", "secret").first();
    send_auth(&mut plain, Reason::REAUTHENTICATE, METHOD, &first);
    expect_disconnect(&mut plain, Reason::PROTOCOL_ERROR);
}

#[test]
fn a_session_is_not_handed_to_another_user_by_a_new_login() {
    let server = server();
    let mut wire = logged_in_by_scram(&server);
    let mut otto = ScramClient::new("otto", "secret");
    send_auth(&mut wire, Reason::REAUTHENTICATE, METHOD, &otto.first());
    let challenge = expect_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION);
    let proof = otto.last(&challenge);
    send_auth(&mut wire, Reason::CONTINUE_AUTHENTICATION, METHOD, &proof);
    expect_disconnect(&mut wire, Reason::NOT_AUTHORIZED);
}
