//! The properties of MQTT 5 (section 2.2.2): their names, types, and the packets that may contain
//! them.

use bytes::BufMut;

use crate::frame::PacketType as P;
use crate::wire::{ByteReader, put_binary, put_string, put_variable_integer};
use crate::{DecodeError, EncodeError, Reason};

/// The properties of a Will form a separate set, represented by a bit that no packet type uses.
pub(crate) const WILL: u16 = 1;

const fn packets<const N: usize>(types: [P; N]) -> u16 {
    let mut set = 0;
    let mut index = 0;
    while index < N {
        set |= types[index].bit();
        index += 1;
    }
    set
}

/// Generates the identifiers, the values, and the code that reads and writes both from one table.
macro_rules! properties {
    ($($name:ident = $id:literal, $kind:ident, $packets:expr, $text:literal;)*) => {
        /// The identifier of a property.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PropertyId { $(#[doc = $text] $name = $id,)* }

        /// A property with its value, borrowed from the packet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Property<'a> { $(#[doc = $text] $name(properties!(@type $kind 'a)),)* }

        impl PropertyId {
            const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($id => Some(Self::$name),)* _ => None }
            }

            /// The set of packets that may contain it.
            pub(crate) const fn packets(self) -> u16 {
                match self { $(Self::$name => $packets,)* }
            }
        }

        impl<'a> Property<'a> {
            /// The identifier of the property.
            pub const fn id(&self) -> PropertyId {
                match self { $(Self::$name(_) => PropertyId::$name,)* }
            }

            fn read_value(
                id: PropertyId,
                reader: &mut ByteReader<'a>,
            ) -> Result<Self, DecodeError> {
                Ok(match id {
                    $(PropertyId::$name => Self::$name(properties!(@read $kind reader)),)*
                })
            }

            fn write_value(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
                match *self { $(Self::$name(value) => properties!(@write $kind value out),)* }
                Ok(())
            }
        }
    };
    (@type boolean $a:lifetime) => { bool };
    (@type byte $a:lifetime) => { u8 };
    (@type two $a:lifetime) => { u16 };
    (@type four $a:lifetime) => { u32 };
    (@type variable $a:lifetime) => { u32 };
    (@type string $a:lifetime) => { &$a str };
    (@type binary $a:lifetime) => { &$a [u8] };
    (@type pair $a:lifetime) => { (&$a str, &$a str) };
    (@read boolean $reader:ident) => { read_boolean($reader)? };
    (@read byte $reader:ident) => { $reader.byte()? };
    (@read two $reader:ident) => { $reader.two_bytes()? };
    (@read four $reader:ident) => { $reader.four_bytes()? };
    (@read variable $reader:ident) => { $reader.variable_integer()? };
    (@read string $reader:ident) => { $reader.string()? };
    (@read binary $reader:ident) => { $reader.binary()? };
    (@read pair $reader:ident) => { ($reader.string()?, $reader.string()?) };
    (@write boolean $value:ident $out:ident) => { $out.put_u8(u8::from($value)) };
    (@write byte $value:ident $out:ident) => { $out.put_u8($value) };
    (@write two $value:ident $out:ident) => { $out.put_u16($value) };
    (@write four $value:ident $out:ident) => { $out.put_u32($value) };
    (@write variable $value:ident $out:ident) => { put_variable_integer($out, $value as usize) };
    (@write string $value:ident $out:ident) => { put_string($out, $value)? };
    (@write binary $value:ident $out:ident) => { put_binary($out, $value)? };
    (@write pair $value:ident $out:ident) => {{
        put_string($out, $value.0)?;
        put_string($out, $value.1)?;
    }};
}

properties! {
    PayloadFormatIndicator = 0x01, boolean, packets([P::Publish]) | WILL, "Whether the payload is \
        UTF-8 text.";
    MessageExpiryInterval = 0x02, four, packets([P::Publish]) | WILL, "The time for which the \
        message is worth delivering, in seconds.";
    ContentType = 0x03, string, packets([P::Publish]) | WILL, "The payload's MIME type.";
    ResponseTopic = 0x08, string, packets([P::Publish]) | WILL, "The topic on which an answer is \
        expected.";
    CorrelationData = 0x09, binary, packets([P::Publish]) | WILL, "The data that the answer must \
        repeat.";
    SubscriptionIdentifier = 0x0B, variable, packets([P::Publish, P::Subscribe]), "A number that \
        the subscriber gave to its subscription.";
    SessionExpiryInterval = 0x11, four, packets([P::Connect, P::Connack, P::Disconnect]), "The \
        time for which the session outlives the connection, in seconds.";
    AssignedClientIdentifier = 0x12, string, packets([P::Connack]), "The client id that the server \
        chose.";
    ServerKeepAlive = 0x13, two, packets([P::Connack]), "The keep alive that the server uses \
        instead, in seconds.";
    AuthenticationMethod = 0x15, string, packets([P::Connect, P::Connack, P::Auth]), "The name of \
        the enhanced authentication.";
    AuthenticationData = 0x16, binary, packets([P::Connect, P::Connack, P::Auth]), "The data of \
        the enhanced authentication.";
    RequestProblemInformation = 0x17, boolean, packets([P::Connect]), "Whether reason strings and \
        user properties may accompany failures.";
    WillDelayInterval = 0x18, four, WILL, "The delay of the Will after the connection's end, in \
        seconds.";
    RequestResponseInformation = 0x19, boolean, packets([P::Connect]), "Whether the client \
        requests response information.";
    ResponseInformation = 0x1A, string, packets([P::Connack]), "The basis for response topics.";
    ServerReference = 0x1C, string, packets([P::Connack, P::Disconnect]), "Another server to use.";
    ReasonString = 0x1F, string, REASONED, "What happened, for people.";
    ReceiveMaximum = 0x21, two, packets([P::Connect, P::Connack]), "The number of QoS 1 and 2 \
        publications that may be unacknowledged at once.";
    TopicAliasMaximum = 0x22, two, packets([P::Connect, P::Connack]), "The highest topic alias \
        that is accepted.";
    TopicAlias = 0x23, two, packets([P::Publish]), "A number that stands for the topic.";
    MaximumQos = 0x24, boolean, packets([P::Connack]), "Whether the highest QoS is 1 (true) or 0; \
        absent, it is 2.";
    RetainAvailable = 0x25, boolean, packets([P::Connack]), "Whether retained messages are \
        supported.";
    UserProperty = 0x26, pair,
        REASONED | packets([P::Connect, P::Publish, P::Subscribe, P::Unsubscribe]) | WILL,
        "A name and a value defined by the application.";
    MaximumPacketSize = 0x27, four, packets([P::Connect, P::Connack]), "The largest packet that is \
        accepted, in bytes.";
    WildcardSubscriptionAvailable = 0x28, boolean, packets([P::Connack]), "Whether wildcards are \
        supported.";
    SubscriptionIdentifierAvailable = 0x29, boolean, packets([P::Connack]), "Whether subscription \
        identifiers are supported.";
    SharedSubscriptionAvailable = 0x2A, boolean, packets([P::Connack]), "Whether shared \
        subscriptions are supported.";
}

/// The packets that carry a reason code.
const REASONED: u16 = packets([
    P::Connack,
    P::Puback,
    P::Pubrec,
    P::Pubrel,
    P::Pubcomp,
    P::Suback,
    P::Unsuback,
    P::Disconnect,
    P::Auth,
]);

fn read_boolean(reader: &mut ByteReader<'_>) -> Result<bool, DecodeError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::protocol(
            "a property that is 0 or 1 has another value",
        )),
    }
}

impl<'a> Property<'a> {
    /// Reads one property that is permitted in a packet of the set `packets`.
    pub(crate) fn read(reader: &mut ByteReader<'a>, packets: u16) -> Result<Self, DecodeError> {
        // Identifiers are variable byte integers, but all known ones have a single byte.
        let id = u8::try_from(reader.variable_integer()?)
            .ok()
            .and_then(PropertyId::from_byte)
            .ok_or(DecodeError::malformed(
                "an unknown property [section 2.2.2.2]",
            ))?;
        if id.packets() & packets == 0 {
            return Err(DecodeError::malformed(
                "a property that does not belong into this packet [section 2.2.2.2]",
            ));
        }
        let property = Self::read_value(id, reader)?;
        property.check()?;
        Ok(property)
    }

    /// The values that the standard forbids.
    fn check(&self) -> Result<(), DecodeError> {
        match *self {
            Self::ReceiveMaximum(0) => Err(DecodeError::protocol(
                "Receive Maximum is not 0 [section 3.1.2.11.3]",
            )),
            Self::MaximumPacketSize(0) => Err(DecodeError::protocol(
                "Maximum Packet Size is not 0 [section 3.1.2.11.4]",
            )),
            Self::SubscriptionIdentifier(0) => Err(DecodeError::protocol(
                "a Subscription Identifier is not 0 [section 3.8.2.1.2]",
            )),
            Self::TopicAlias(0) => Err(DecodeError::new(
                Reason::TOPIC_ALIAS_INVALID,
                "a Topic Alias is not 0 [MQTT-3.3.2-8]",
            )),
            Self::ResponseTopic(topic)
                if topic.is_empty() || memchr::memchr2(b'+', b'#', topic.as_bytes()).is_some() =>
            {
                Err(DecodeError::protocol(
                    "a Response Topic must not contain a wildcard [MQTT-3.3.2-14]",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Appends the property.
    pub(crate) fn write(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
        out.put_u8(self.id() as u8);
        self.write_value(out)
    }
}
