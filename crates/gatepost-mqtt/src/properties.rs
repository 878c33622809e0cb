//! A packet's list of properties: read in place, checked once, never copied.
//!
//! [`PacketProperties`] is a slice of the packet that has passed all checks. A lookup walks the
//! list, which is cheaper than building a structure of 27 mostly absent fields.

use bytes::{BufMut, Bytes};
use gatepost_message::Properties;

use crate::property::{Property, PropertyId};
use crate::wire::{ByteReader, put_variable_integer, variable_integer_length};
use crate::{DecodeError, EncodeError};

/// The properties of one packet. Also the argument of an encoder: see [`PropertiesBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketProperties<'a> {
    /// Without the preceding length.
    raw: &'a [u8],
}

impl<'a> PacketProperties<'a> {
    /// An empty list.
    pub const EMPTY: PacketProperties<'static> = PacketProperties { raw: &[] };

    /// Reads the length and the following list, for a packet of the set `packets`.
    pub(crate) fn read(
        reader: &mut ByteReader<'a>,
        packets: u16,
        identifiers_repeat: bool,
    ) -> Result<Self, DecodeError> {
        let length = reader.variable_integer()? as usize;
        let raw = reader.take(length)?;
        let mut list = ByteReader::new(raw);
        let mut seen = 0_u64;
        while !list.is_empty() {
            let id = Property::read(&mut list, packets)?.id();
            let may_repeat = match id {
                PropertyId::UserProperty => true,
                PropertyId::SubscriptionIdentifier => identifiers_repeat,
                _ => false,
            };
            let bit = 1 << (id as u8);
            if seen & bit != 0 && !may_repeat {
                return Err(DecodeError::protocol(
                    "a property stands more than once [section 2.2.2.2]",
                ));
            }
            seen |= bit;
        }
        Ok(Self { raw })
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// All properties, in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut list = ByteReader::new(self.raw);
        // Already checked: the walk ends where the list does.
        std::iter::from_fn(move || {
            (!list.is_empty())
                .then(|| Property::read(&mut list, u16::MAX).ok())
                .flatten()
        })
    }

    /// The first property that `choose` accepts: `find(|p| match p { Property::TopicAlias(a) =>
    /// Some(a), _ => None })`.
    pub fn find<T>(&self, choose: impl FnMut(Property<'a>) -> Option<T>) -> Option<T> {
        if self.raw.is_empty() {
            return None;
        }
        self.iter().find_map(choose)
    }

    /// The user properties, in order.
    pub fn user_properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::UserProperty(pair) => Some(pair),
            _ => None,
        })
    }

    /// The human-readable text of a reason code.
    pub fn reason_string(&self) -> Option<&'a str> {
        self.find(|property| match property {
            Property::ReasonString(text) => Some(text),
            _ => None,
        })
    }

    /// The number of bytes that [`PacketProperties::write`] appends.
    pub(crate) const fn encoded_length(&self) -> usize {
        variable_integer_length(self.raw.len()) + self.raw.len()
    }

    /// Appends the length and the list.
    pub(crate) fn write(&self, out: &mut impl BufMut) {
        put_variable_integer(out, self.raw.len());
        out.put_slice(self.raw);
    }

    /// The properties that a publication carries, its expiry too; `None` if there are none.
    pub fn carried(self) -> Option<Box<Properties>> {
        if self.is_empty() {
            return None;
        }
        let mut carried = Properties::default();
        for property in self.iter() {
            match property {
                Property::PayloadFormatIndicator(is_text) => {
                    carried.payload_is_text = Some(is_text);
                }
                Property::MessageExpiryInterval(seconds) => carried.expiry_seconds = Some(seconds),
                Property::ContentType(text) => carried.content_type = Some(text.to_owned()),
                Property::ResponseTopic(topic) => carried.response_topic = Some(topic.to_owned()),
                Property::CorrelationData(data) => {
                    carried.correlation_data = Some(Bytes::copy_from_slice(data));
                }
                Property::UserProperty((name, value)) => {
                    carried.user.push((name.to_owned(), value.to_owned()));
                }
                _ => {}
            }
        }
        (!carried.is_empty()).then(|| Box::new(carried))
    }
}

/// A builder for the properties of a packet to send.
///
/// The caller is responsible for choosing properties that are permitted in that packet; the peer's
/// decoder checks this.
#[derive(Debug, Clone, Default)]
pub struct PropertiesBuffer {
    raw: Vec<u8>,
}

impl PropertiesBuffer {
    /// An empty list.
    pub const fn new() -> Self {
        Self { raw: Vec::new() }
    }

    /// Appends one property. A value that is too long leaves the list unchanged.
    pub fn push(&mut self, property: &Property<'_>) -> Result<&mut Self, EncodeError> {
        let length = self.raw.len();
        property
            .write(&mut self.raw)
            .inspect_err(|_| self.raw.truncate(length))?;
        Ok(self)
    }

    /// The length of the list in bytes.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.raw.clear();
    }

    /// The list, for a packet.
    pub fn as_properties(&self) -> PacketProperties<'_> {
        PacketProperties { raw: &self.raw }
    }

    /// Appends the properties of a publication, except its expiry: the remaining time changes with
    /// each delivery.
    pub fn push_carried(&mut self, carried: &Properties) -> Result<(), EncodeError> {
        if let Some(is_text) = carried.payload_is_text {
            self.push(&Property::PayloadFormatIndicator(is_text))?;
        }
        if let Some(content_type) = &carried.content_type {
            self.push(&Property::ContentType(content_type))?;
        }
        if let Some(response_topic) = &carried.response_topic {
            self.push(&Property::ResponseTopic(response_topic))?; // [MQTT-3.3.2-15]
        }
        if let Some(correlation_data) = &carried.correlation_data {
            self.push(&Property::CorrelationData(correlation_data))?; // [MQTT-3.3.2-16]
        }
        for (name, value) in &carried.user {
            self.push(&Property::UserProperty((name, value)))?; // [MQTT-3.3.2-17]
        }
        Ok(())
    }
}
