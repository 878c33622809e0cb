//! The message that procedures judge.

use bytes::Bytes;

use crate::{Envelope, MessageId, Properties, Publication, Qos, Topic};

/// The structure of a message's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The body is a whole RFC 5322 message: header fields, blank line, content.
    Mail,
    /// The body is a payload without structure known to Gatepost.
    Payload,
}

/// A message from any listener, before it is delivered.
///
/// The body is as it arrived (SMTP's dot-stuffing undone, nothing else). Views of it, such as
/// header fields or rendered text, are created on demand by the crate that needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message's id, which contains its time of arrival.
    pub id: MessageId,
    /// Peer, sender, recipients and listener.
    pub envelope: Envelope,
    /// The topic it will be published to; `None` for a message that is only judged (spamd, call).
    pub topic: Option<Topic>,
    /// The structure of the body.
    pub format: Format,
    /// The bytes as they arrived.
    pub body: Bytes,
    /// The size in bytes of the whole message. Differs from `body.len()` only where a caller
    /// declared the size and omitted the body, because no procedure needs it.
    pub size: u64,
    /// The quality of service at which it was published.
    pub qos: Qos,
    /// Whether its topic retains it.
    pub retain: bool,
    /// Boxed because most messages have none.
    pub properties: Option<Box<Properties>>,
}

impl Message {
    /// A message with a new id.
    pub fn new(envelope: Envelope, topic: Option<Topic>, format: Format, body: Bytes) -> Self {
        Self {
            id: MessageId::next(),
            envelope,
            topic,
            format,
            size: body.len() as u64,
            body,
            qos: Qos::AtMostOnce,
            retain: false,
            properties: None,
        }
    }

    /// The publication that the broker delivers for this message, with the body as payload; `None`
    /// without a topic.
    pub fn publication(&self) -> Option<Publication> {
        Some(Publication {
            id: self.id,
            topic: self.topic.clone()?,
            payload: self.body.clone(),
            qos: self.qos,
            retain: self.retain,
            properties: self.properties.clone(),
        })
    }
}
