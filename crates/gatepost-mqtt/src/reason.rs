//! Reason codes (MQTT 5 section 2.4), and the return codes of MQTT 3.1.1 that they map to.

use std::fmt;

/// A reason code. Codes from 0x80 are failures.
///
/// One value has several names, depending on the packet that contains it (0x00 is success, a normal
/// disconnection, or granted QoS 0); the constants follow the table of section 2.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reason(pub u8);

/// Generates the constants and the names from one table.
macro_rules! reasons {
    ($($constant:ident = $code:literal, $text:literal;)*) => {
        #[allow(missing_docs)] // the names are the standard's
        impl Reason {
            $(pub const $constant: Self = Self($code);)*

            /// The standard's name of the code.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "Unknown reason",
                }
            }

            /// Whether the standard defines the code.
            pub const fn is_known(self) -> bool {
                matches!(self.0, $($code)|*)
            }
        }
    };
}

reasons! {
    SUCCESS = 0x00, "Success";
    GRANTED_QOS_1 = 0x01, "Granted QoS 1";
    GRANTED_QOS_2 = 0x02, "Granted QoS 2";
    DISCONNECT_WITH_WILL = 0x04, "Disconnect with Will Message";
    NO_MATCHING_SUBSCRIBERS = 0x10, "No matching subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "No subscription existed";
    CONTINUE_AUTHENTICATION = 0x18, "Continue authentication";
    REAUTHENTICATE = 0x19, "Re-authenticate";
    UNSPECIFIED_ERROR = 0x80, "Unspecified error";
    MALFORMED_PACKET = 0x81, "Malformed Packet";
    PROTOCOL_ERROR = 0x82, "Protocol Error";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83, "Implementation specific error";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84, "Unsupported Protocol Version";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85, "Client Identifier not valid";
    BAD_USER_NAME_OR_PASSWORD = 0x86, "Bad User Name or Password";
    NOT_AUTHORIZED = 0x87, "Not authorized";
    SERVER_UNAVAILABLE = 0x88, "Server unavailable";
    SERVER_BUSY = 0x89, "Server busy";
    BANNED = 0x8A, "Banned";
    SERVER_SHUTTING_DOWN = 0x8B, "Server shutting down";
    BAD_AUTHENTICATION_METHOD = 0x8C, "Bad authentication method";
    KEEP_ALIVE_TIMEOUT = 0x8D, "Keep Alive timeout";
    SESSION_TAKEN_OVER = 0x8E, "Session taken over";
    TOPIC_FILTER_INVALID = 0x8F, "Topic Filter invalid";
    TOPIC_NAME_INVALID = 0x90, "Topic Name invalid";
    PACKET_IDENTIFIER_IN_USE = 0x91, "Packet Identifier in use";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92, "Packet Identifier not found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "Receive Maximum exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "Topic Alias invalid";
    PACKET_TOO_LARGE = 0x95, "Packet too large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "Message rate too high";
    QUOTA_EXCEEDED = 0x97, "Quota exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "Administrative action";
    PAYLOAD_FORMAT_INVALID = 0x99, "Payload format invalid";
    RETAIN_NOT_SUPPORTED = 0x9A, "Retain not supported";
    QOS_NOT_SUPPORTED = 0x9B, "QoS not supported";
    USE_ANOTHER_SERVER = 0x9C, "Use another server";
    SERVER_MOVED = 0x9D, "Server moved";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E, "Shared Subscriptions not supported";
    CONNECTION_RATE_EXCEEDED = 0x9F, "Connection rate exceeded";
    MAXIMUM_CONNECT_TIME = 0xA0, "Maximum connect time";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1, "Subscription Identifiers not supported";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2, "Wildcard Subscriptions not supported";
}

impl Reason {
    /// Whether it is a failure.
    pub const fn is_error(self) -> bool {
        self.0 >= 0x80
    }

    /// The closest return code of a 3.1.1 CONNACK (MQTT 3.1.1 section 3.2.2.3).
    pub const fn connack_return_code(self) -> u8 {
        match self {
            Self::SUCCESS => 0,
            Self::UNSUPPORTED_PROTOCOL_VERSION => 1,
            Self::CLIENT_IDENTIFIER_NOT_VALID => 2,
            Self::BAD_USER_NAME_OR_PASSWORD => 4,
            Self::NOT_AUTHORIZED | Self::BANNED | Self::BAD_AUTHENTICATION_METHOD => 5,
            _ => 3,
        }
    }

    /// The reason that corresponds to a 3.1.1 return code; `None` for reserved codes.
    pub const fn from_connack_return_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::SUCCESS,
            1 => Self::UNSUPPORTED_PROTOCOL_VERSION,
            2 => Self::CLIENT_IDENTIFIER_NOT_VALID,
            3 => Self::SERVER_UNAVAILABLE,
            4 => Self::BAD_USER_NAME_OR_PASSWORD,
            5 => Self::NOT_AUTHORIZED,
            _ => return None,
        })
    }

    /// The code in a 3.1.1 SUBACK: the granted level, or 0x80 for any failure \[MQTT-3.9.3-2\].
    pub const fn suback_return_code(self) -> u8 {
        if self.is_error() { 0x80 } else { self.0 }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0x{:02X} {}", self.0, self.name())
    }
}
