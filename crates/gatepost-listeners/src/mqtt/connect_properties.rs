//! Properties of CONNECT (section 3.1.2.11), and the reasons to refuse it.

use std::time::Duration;

use bytes::BytesMut;
use gatepost_mqtt::{Connack, Connect, PacketProperties, Property, Reason, Version};

/// Session Expiry Interval that never ends (section 3.1.2.11.2).
const EXPIRY_NEVER: u32 = u32::MAX;
const RECEIVE_MAX_DEFAULT: u16 = u16::MAX;

/// The reason why there is no session: the refusal to send, or `None` where no answer is possible.
pub(super) type NotOpened = Option<ConnectRefusal>;

/// A refused CONNECT: the reason for the CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectRefusal {
    pub(super) version: Version,
    pub(super) reason: Reason,
}

/// The properties of CONNECT.
pub(super) struct ConnectProperties<'a> {
    pub(super) expiry_seconds: u32,
    pub(super) receive_max: u16,
    pub(super) packet_bytes_max: Option<u32>,
    pub(super) alias_max: u16,
    pub(super) wants_reasons: bool,
    pub(super) authentication_method: Option<&'a str>,
    pub(super) authentication_data: Option<&'a [u8]>,
}

impl<'a> ConnectProperties<'a> {
    pub(super) fn new(connect: &Connect<'a>) -> Self {
        // [MQTT-3.1.2-23]: before MQTT 5 a session lasts exactly if it is not clean.
        let is_lasting = !connect.version.has_properties() && !connect.clean_start;
        let mut properties = Self {
            expiry_seconds: if is_lasting { EXPIRY_NEVER } else { 0 },
            receive_max: RECEIVE_MAX_DEFAULT,
            packet_bytes_max: None,
            alias_max: 0,
            wants_reasons: true,
            authentication_method: None,
            authentication_data: None,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => properties.expiry_seconds = seconds,
                Property::ReceiveMaximum(count) => properties.receive_max = count,
                Property::MaximumPacketSize(bytes) => properties.packet_bytes_max = Some(bytes),
                Property::TopicAliasMaximum(max) => properties.alias_max = max,
                Property::RequestProblemInformation(wanted) => properties.wants_reasons = wanted,
                Property::AuthenticationMethod(method) => {
                    properties.authentication_method = Some(method);
                }
                Property::AuthenticationData(data) => properties.authentication_data = Some(data),
                _ => {}
            }
        }
        properties
    }
}

/// A Session Expiry Interval as a time.
pub(super) const fn expiry(seconds: u32) -> Duration {
    if seconds == EXPIRY_NEVER {
        Duration::MAX
    } else {
        Duration::from_secs(seconds as u64)
    }
}

impl ConnectRefusal {
    /// Appends the CONNACK.
    pub(super) fn encode(self, out: &mut BytesMut) {
        let connack = Connack {
            session_present: false, // [MQTT-3.2.2-6]
            reason: self.reason,
            properties: PacketProperties::EMPTY,
        };
        // Without properties it always fits.
        let _ = connack.encode(self.version, out);
    }
}
