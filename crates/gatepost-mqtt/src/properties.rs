//! A packet's list of properties: read where it lies, checked once, never copied.
//!
//! [`Properties`] is a slice of the packet that has passed all checks; looking one up walks the
//! list, which is shorter than building a structure of 27 fields that are mostly absent.

use bytes::BufMut;

use crate::property::{Property, PropertyId};
use crate::wire::{ByteReader, put_variable_integer, variable_integer_length};
use crate::{DecodeError, EncodeError};

/// The properties of one packet. Also what an encoder takes: see [`PropertiesBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    /// Without the length in front.
    raw: &'a [u8],
}

impl<'a> Properties<'a> {
    /// None at all.
    pub const EMPTY: Properties<'static> = Properties { raw: &[] };

    /// Reads the length and the list after it, for a packet of the set `packets`.
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

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// All of them, in the order of the packet.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut list = ByteReader::new(self.raw);
        // Checked when read: the walk ends where the list does.
        std::iter::from_fn(move || {
            (!list.is_empty())
                .then(|| Property::read(&mut list, u16::MAX).ok())
                .flatten()
        })
    }

    /// The first that `choose` takes: `find(|p| match p { Property::TopicAlias(a) => Some(a), _ =>
    /// None })`.
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

    /// The text for people that came with a reason code.
    pub fn reason_string(&self) -> Option<&'a str> {
        self.find(|property| match property {
            Property::ReasonString(text) => Some(text),
            _ => None,
        })
    }

    /// The bytes that [`Properties::write`] appends.
    pub(crate) const fn encoded_length(&self) -> usize {
        variable_integer_length(self.raw.len()) + self.raw.len()
    }

    /// Appends the length and the list.
    pub(crate) fn write(&self, out: &mut impl BufMut) {
        put_variable_integer(out, self.raw.len());
        out.put_slice(self.raw);
    }
}

/// Builds a list of properties for a packet to send.
///
/// Whether they may stand in that packet is the caller's knowledge; the peer's decoder checks.
#[derive(Debug, Clone, Default)]
pub struct PropertiesBuffer {
    raw: Vec<u8>,
}

impl PropertiesBuffer {
    /// An empty list.
    pub const fn new() -> Self {
        Self { raw: Vec::new() }
    }

    /// Appends one property. A value that is too long leaves the list as it was.
    pub fn push(&mut self, property: &Property<'_>) -> Result<&mut Self, EncodeError> {
        let length = self.raw.len();
        property
            .write(&mut self.raw)
            .inspect_err(|_| self.raw.truncate(length))?;
        Ok(self)
    }

    /// How many bytes the list has so far.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.raw.clear();
    }

    /// The list, for a packet.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties { raw: &self.raw }
    }
}
