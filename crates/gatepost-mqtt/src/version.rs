//! The versions of the protocol, by the level byte of CONNECT.

use std::fmt;

/// A protocol version. All versions share one framing; they differ in properties and reason codes,
/// which only [`Version::Mqtt5`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// MQTT 3.1, `MQIsdp`, before standardisation; still used by old devices.
    Mqtt31 = 3,
    /// MQTT 3.1.1.
    Mqtt311 = 4,
    /// MQTT 5.0.
    Mqtt5 = 5,
}

impl Version {
    /// The version of this name and level byte (\[MQTT-3.1.2-1\], \[MQTT-3.1.2-2\]).
    pub fn from_name_and_level(name: &[u8], level: u8) -> Option<Self> {
        match (name, level) {
            (b"MQIsdp", 3) => Some(Self::Mqtt31),
            (b"MQTT", 4) => Some(Self::Mqtt311),
            (b"MQTT", 5) => Some(Self::Mqtt5),
            _ => None,
        }
    }

    /// The protocol name in CONNECT.
    pub const fn protocol_name(self) -> &'static str {
        match self {
            Self::Mqtt31 => "MQIsdp",
            Self::Mqtt311 | Self::Mqtt5 => "MQTT",
        }
    }

    /// The level byte in CONNECT.
    pub const fn level(self) -> u8 {
        self as u8
    }

    /// Whether packets carry properties and reason codes.
    pub const fn has_properties(self) -> bool {
        matches!(self, Self::Mqtt5)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Mqtt31 => "3.1",
            Self::Mqtt311 => "3.1.1",
            Self::Mqtt5 => "5",
        })
    }
}
