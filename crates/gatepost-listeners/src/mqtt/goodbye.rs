//! Why a connection ends, and what its client is told: the one place where errors become
//! DISCONNECT.

use bytes::BytesMut;
use gatepost_broker::Ended;
use gatepost_mqtt::{DecodeError, Outcome, PropertiesBuffer, Property, Reason, Version};

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goodbye {
    /// The client said goodbye, with or without its will, perhaps with another expiry.
    Client {
        with_will: bool,
        expiry_seconds: Option<u32>,
    },
    /// The client is gone.
    Lost,
    /// The server ends it for this reason; the text is for people.
    Server(Reason, &'static str),
    /// A verdict refused a publication, and the settings want the connection to end with it.
    Refused(String),
}

impl From<DecodeError> for Goodbye {
    fn from(error: DecodeError) -> Self {
        Self::Server(error.reason, error.what)
    }
}

impl From<Ended> for Goodbye {
    fn from(ended: Ended) -> Self {
        let (reason, text) = match ended {
            Ended::TakenOver => (
                Reason::SESSION_TAKEN_OVER,
                "another connection uses this client id",
            ),
            Ended::KeepAliveTimeout => (
                Reason::KEEP_ALIVE_TIMEOUT,
                "nothing was heard for one and a half times the keep alive",
            ),
            Ended::TooSlow => (
                Reason::QUOTA_EXCEEDED,
                "more is published than this connection takes",
            ),
            Ended::Administrative => (Reason::ADMINISTRATIVE_ACTION, "ended by an operator"),
            Ended::ShuttingDown => (Reason::SERVER_SHUTTING_DOWN, "the server goes down"),
            Ended::Broken => return Self::Lost,
        };
        Self::Server(reason, text)
    }
}

impl Goodbye {
    /// The text for people; empty where there is none.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Server(_, text) => text,
            Self::Refused(text) => text,
            Self::Client { .. } | Self::Lost => "",
        }
    }

    /// Appends what the client is told, if anything. Before MQTT 5 a server cannot say why.
    pub(super) fn encode(&self, version: Version, tell_why: bool, out: &mut BytesMut) {
        let (reason, text) = match self {
            Self::Server(reason, text) => (*reason, *text),
            Self::Refused(text) => (Reason::NOT_AUTHORIZED, text.as_str()),
            Self::Client { .. } | Self::Lost => return,
        };
        if !version.has_properties() {
            return;
        }
        let mut properties = PropertiesBuffer::new();
        if tell_why {
            // A text that is too long for a property stays away.
            let _ = properties.push(&Property::ReasonString(text));
        }
        let outcome = Outcome::new(reason, properties.as_properties());
        let _ = outcome.encode_disconnect(version, out);
    }
}
