//! The reasons why a connection ends, and the DISCONNECT for each: the one place where errors
//! become DISCONNECT.

use bytes::BytesMut;
use gatepost_broker::DisconnectCause;
use gatepost_mqtt::{DecodeError, PropertiesBuffer, Property, Reason, ReasonedPacket, Version};

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The client sent DISCONNECT, with or without its will, perhaps with another expiry.
    Client {
        with_will: bool,
        expiry_seconds: Option<u32>,
    },
    /// The connection was lost.
    Lost,
    /// The server ends it for this reason; the text is for people.
    Server(Reason, &'static str),
    /// A verdict refused a publication, and the settings demand the end of the connection.
    Refused(String),
}

impl From<DecodeError> for ConnectionEnd {
    fn from(error: DecodeError) -> Self {
        Self::Server(error.reason, error.what)
    }
}

impl From<DisconnectCause> for ConnectionEnd {
    fn from(ended: DisconnectCause) -> Self {
        let (reason, text) = match ended {
            DisconnectCause::TakenOver => (
                Reason::SESSION_TAKEN_OVER,
                "another connection uses this client id",
            ),
            DisconnectCause::KeepAliveTimeout => (
                Reason::KEEP_ALIVE_TIMEOUT,
                "no packet arrived for one and a half times the keep alive",
            ),
            DisconnectCause::TooSlow => (
                Reason::QUOTA_EXCEEDED,
                "the client reads or acknowledges too slowly",
            ),
            DisconnectCause::Administrative => {
                (Reason::ADMINISTRATIVE_ACTION, "ended by an operator")
            }
            DisconnectCause::UserRemoved => (Reason::NOT_AUTHORIZED, "the user was removed"),
            DisconnectCause::ShuttingDown => (
                Reason::SERVER_SHUTTING_DOWN,
                "the server shuts \
                down",
            ),
            DisconnectCause::Broken => return Self::Lost,
        };
        Self::Server(reason, text)
    }
}

impl ConnectionEnd {
    /// Whether the client violated the protocol.
    pub(super) fn is_protocol_fault(&self) -> bool {
        matches!(
            self,
            Self::Server(Reason::MALFORMED_PACKET | Reason::PROTOCOL_ERROR, _)
        )
    }

    /// The text for people; empty where there is none.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Server(_, text) => text,
            Self::Refused(text) => text,
            Self::Client { .. } | Self::Lost => "",
        }
    }

    /// Appends the DISCONNECT, if there is one. MQTT 3 servers send none.
    pub(super) fn encode(&self, version: Version, wants_reasons: bool, out: &mut BytesMut) {
        let (reason, text) = match self {
            Self::Server(reason, text) => (*reason, *text),
            Self::Refused(text) => (Reason::NOT_AUTHORIZED, text.as_str()),
            Self::Client { .. } | Self::Lost => return,
        };
        if !version.has_properties() {
            return;
        }
        let mut properties = PropertiesBuffer::new();
        if wants_reasons {
            // A text that is too long for a property is omitted.
            let _ = properties.push(&Property::ReasonString(text));
        }
        let outcome = ReasonedPacket::new(reason, properties.as_properties());
        let _ = outcome.encode_disconnect(version, out);
    }
}
