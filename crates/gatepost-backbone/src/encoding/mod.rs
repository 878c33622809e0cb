//! Publications as bytes between nodes, and the version of all that nodes write for each other.
//!
//! A bundle is a version, the node that it came from, that node's run and the bundle's number in
//! it, and then publications until its end. All numbers are big-endian; a length has 4 bytes.
//!
//! Invariants: no input causes a panic, nor memory beyond the input's own size. A node reads every
//! earlier version, and refuses later ones: it passes over nothing that the NATS servers store, but
//! stops there until it is upgraded. So a new kind, flag or field of something that is encoded
//! needs a new [`VERSION`]; `encoded_examples/` has the bytes of each.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use gatepost_message::{MessageId, Properties, Publication, Qos, Topic};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the encoding.
pub(crate) const VERSION: u8 = 1;
/// Version, node, run and number.
const HEAD_BYTES: usize = 18;
/// The fixed part of a publication: its id, and which optional parts it has.
const FIXED_BYTES: usize = 10;

/// The bits of a publication's first number besides the two of its quality of service.
const RETAIN: u16 = 1 << 2;
const HAS_PROPERTIES: u16 = 1 << 3;
const HAS_TEXT_FLAG: u16 = 1 << 4;
const IS_TEXT: u16 = 1 << 5;
const HAS_CONTENT_TYPE: u16 = 1 << 6;
const HAS_EXPIRY: u16 = 1 << 7;
const HAS_RESPONSE_TOPIC: u16 = 1 << 8;
const HAS_CORRELATION: u16 = 1 << 9;
const KNOWN: u16 = (1 << 10) - 1;

/// The origin of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BundleOrigin {
    /// The number of the node.
    pub(crate) node: u8,
    /// Its run: the time of its start. Only equality counts, as clocks may be set back.
    pub(crate) run: u64,
    /// The bundle's number in this run.
    pub(crate) number: u64,
}

/// The reason why a bundle cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodingError {
    #[error("it ends too early")]
    Truncated,
    #[error(
        "its encoding has the version {0}, and this server knows {VERSION}: update this server"
    )]
    Version(u32),
    #[error("a part of it is not valid")]
    Malformed,
}

/// Appends a publication's bytes to those of a bundle.
pub(crate) fn push(buffer: &mut BytesMut, publication: &Publication) {
    let properties = publication.properties.as_deref();
    let mut flags = u16::from(publication.qos.level());
    let mut set = |bit, is_set: bool| flags |= if is_set { bit } else { 0 };
    set(RETAIN, publication.retain);
    set(HAS_PROPERTIES, properties.is_some());
    if let Some(properties) = properties {
        set(HAS_TEXT_FLAG, properties.payload_is_text.is_some());
        set(IS_TEXT, properties.payload_is_text == Some(true));
        set(HAS_CONTENT_TYPE, properties.content_type.is_some());
        set(HAS_EXPIRY, properties.expiry_seconds.is_some());
        set(HAS_RESPONSE_TOPIC, properties.response_topic.is_some());
        set(HAS_CORRELATION, properties.correlation_data.is_some());
    }
    buffer.put_u64(publication.id.number());
    buffer.put_u16(flags);
    push_bytes(buffer, publication.topic.as_str().as_bytes());
    push_bytes(buffer, &publication.payload);
    if let Some(properties) = properties {
        push_properties(buffer, properties);
    }
}

fn push_properties(buffer: &mut BytesMut, properties: &Properties) {
    if let Some(text) = &properties.content_type {
        push_bytes(buffer, text.as_bytes());
    }
    if let Some(seconds) = properties.expiry_seconds {
        buffer.put_u32(seconds);
    }
    if let Some(text) = &properties.response_topic {
        push_bytes(buffer, text.as_bytes());
    }
    if let Some(data) = &properties.correlation_data {
        push_bytes(buffer, data);
    }
    buffer.put_u32(properties.user.len() as u32);
    for (name, value) in &properties.user {
        push_bytes(buffer, name.as_bytes());
        push_bytes(buffer, value.as_bytes());
    }
}

/// Appends a part after a flag that says whether it is there.
pub(crate) fn push_optional<T>(
    buffer: &mut BytesMut,
    part: Option<T>,
    push: impl FnOnce(&mut BytesMut, T),
) {
    buffer.put_u8(u8::from(part.is_some()));
    if let Some(part) = part {
        push(buffer, part);
    }
}

/// Appends bytes after their length.
pub(crate) fn push_bytes(buffer: &mut BytesMut, bytes: &[u8]) {
    buffer.put_u32(bytes.len() as u32);
    buffer.put_slice(bytes);
}

/// A value as JSON with the version, which an operator can read.
#[derive(Serialize, Deserialize)]
struct VersionedJson<T> {
    version: u32,
    #[serde(flatten)]
    value: T,
}

/// The part of such JSON that every version has.
#[derive(Deserialize)]
struct JsonVersion {
    version: u32,
}

/// A value as JSON with the version.
pub(crate) fn json<T: Serialize>(value: &T) -> Bytes {
    let versioned = VersionedJson {
        version: VERSION.into(),
        value,
    };
    // Records of numbers and texts can always be serialised.
    serde_json::to_vec(&versioned).unwrap_or_default().into()
}

/// Reads what [`json`] has written.
pub(crate) fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, EncodingError> {
    let malformed = |_| EncodingError::Malformed;
    let JsonVersion { version } = serde_json::from_slice(json).map_err(malformed)?;
    if version > VERSION.into() {
        return Err(EncodingError::Version(version));
    }
    let read: VersionedJson<T> = serde_json::from_slice(json).map_err(malformed)?;
    Ok(read.value)
}

/// The beginning of a bundle.
pub(crate) fn begin(origin: BundleOrigin) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(256);
    buffer.put_u8(VERSION);
    buffer.put_u8(origin.node);
    buffer.put_u64(origin.run);
    buffer.put_u64(origin.number);
    buffer
}

/// Reads a bundle.
pub(crate) fn read(bytes: Bytes) -> Result<(BundleOrigin, Vec<Publication>), EncodingError> {
    let mut input = Input::versioned(bytes)?;
    let origin = input.origin()?;
    let mut publications = Vec::new();
    while !input.is_empty() {
        publications.push(input.publication()?);
    }
    Ok((origin, publications))
}

/// The least number of bytes of a bundle with one publication.
pub(crate) fn bundle_bytes_min(publication: &Publication) -> usize {
    HEAD_BYTES + FIXED_BYTES + 8 + publication.topic.as_str().len() + publication.payload.len()
}

/// The rest of a bundle.
pub(crate) struct Input(Bytes);

impl Input {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The rest of bytes that begin with the version.
    pub(crate) fn versioned(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Self::new(bytes);
        match input.u8()? {
            VERSION => Ok(input),
            version if version > VERSION => Err(EncodingError::Version(version.into())),
            _ => Err(EncodingError::Malformed),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All remaining bytes.
    pub(crate) fn rest(self) -> Bytes {
        self.0
    }

    /// The rest of the head of a bundle.
    pub(crate) fn origin(&mut self) -> Result<BundleOrigin, EncodingError> {
        Ok(BundleOrigin {
            node: self.u8()?,
            run: self.u64()?,
            number: self.u64()?,
        })
    }

    fn need(&self, count: usize) -> Result<(), EncodingError> {
        if self.0.len() < count {
            return Err(EncodingError::Truncated);
        }
        Ok(())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, EncodingError> {
        self.need(1)?;
        Ok(self.0.get_u8())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, EncodingError> {
        self.need(2)?;
        Ok(self.0.get_u16())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EncodingError> {
        self.need(4)?;
        Ok(self.0.get_u32())
    }

    pub(crate) fn u64(&mut self) -> Result<u64, EncodingError> {
        self.need(8)?;
        Ok(self.0.get_u64())
    }

    /// A flag; its byte is 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, EncodingError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(EncodingError::Malformed),
        }
    }

    /// A part that follows its flag, or is absent.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, EncodingError>,
    ) -> Result<Option<T>, EncodingError> {
        self.flag()?.then(|| read(self)).transpose()
    }

    pub(crate) fn qos(&mut self) -> Result<Qos, EncodingError> {
        Qos::from_level(self.u8()?).ok_or(EncodingError::Malformed)
    }

    /// Reads bytes after their length.
    fn after_length<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, EncodingError>,
    ) -> Result<T, EncodingError> {
        let length = self.u32()? as usize;
        let bytes = self.0.get(..length).ok_or(EncodingError::Truncated)?;
        let value = read(bytes)?;
        self.0.advance(length);
        Ok(value)
    }

    /// Bytes after their length. They are copied, since they may be kept for long: a part of the
    /// input would keep all of it, and the buffer of the connection that received it.
    pub(crate) fn bytes(&mut self) -> Result<Bytes, EncodingError> {
        self.after_length(|bytes| Ok(Bytes::copy_from_slice(bytes)))
    }

    pub(crate) fn text(&mut self) -> Result<String, EncodingError> {
        self.after_length(|bytes| Ok(text_of(bytes)?.to_owned()))
    }

    fn topic(&mut self) -> Result<Topic, EncodingError> {
        self.after_length(|bytes| Topic::new(text_of(bytes)?).map_err(|_| EncodingError::Malformed))
    }

    pub(crate) fn publication(&mut self) -> Result<Publication, EncodingError> {
        let id = MessageId::from_number(self.u64()?);
        let flags = self.u16()?;
        let qos = Qos::from_level((flags & 3) as u8).ok_or(EncodingError::Malformed)?;
        if flags & !KNOWN != 0 {
            return Err(EncodingError::Malformed);
        }
        let topic = self.topic()?;
        let payload = self.bytes()?;
        let properties = (flags & HAS_PROPERTIES != 0)
            .then(|| self.properties(flags).map(Box::new))
            .transpose()?;
        Ok(Publication {
            id,
            topic,
            payload,
            qos,
            retain: flags & RETAIN != 0,
            properties,
        })
    }

    fn properties(&mut self, flags: u16) -> Result<Properties, EncodingError> {
        let has = |bit| flags & bit != 0;
        let mut properties = Properties {
            payload_is_text: has(HAS_TEXT_FLAG).then_some(has(IS_TEXT)),
            ..Properties::default()
        };
        if has(HAS_CONTENT_TYPE) {
            properties.content_type = Some(self.text()?);
        }
        if has(HAS_EXPIRY) {
            properties.expiry_seconds = Some(self.u32()?);
        }
        if has(HAS_RESPONSE_TOPIC) {
            properties.response_topic = Some(self.text()?);
        }
        if has(HAS_CORRELATION) {
            properties.correlation_data = Some(self.bytes()?);
        }
        for _ in 0..self.u32()? {
            let name = self.text()?;
            properties.user.push((name, self.text()?));
        }
        Ok(properties)
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, EncodingError> {
    std::str::from_utf8(bytes).map_err(|_| EncodingError::Malformed)
}

impl fmt::Display for BundleOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {}", self.node)
    }
}

#[cfg(test)]
pub(crate) mod tests;
