//! Any bytes are a packet or refused; a decoded packet can be encoded, and decodes to itself.
#![no_main]

use bytes::BytesMut;
use gatepost_mqtt::{Packet, Version, decode_next};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for version in [Version::Mqtt31, Version::Mqtt311, Version::Mqtt5] {
        let Ok(Some((packet, length))) = decode_next(version, bytes, 1 << 20) else {
            continue;
        };
        assert!(length <= bytes.len());
        let version = match &packet {
            Packet::Connect(connect) => connect.version,
            _ => version,
        };
        let mut out = BytesMut::new();
        packet.encode(version, &mut out).expect("what was read can be written");
        let again = decode_next(version, &out, 1 << 21).expect("valid").expect("whole");
        assert_eq!(format!("{packet:?}"), format!("{:?}", again.0));
    }
});
