//! Rows of sessions as bytes, as a session that moves and the stream of a node contain them.
//!
//! Neither contains the number of the session or of the message: the caller knows them.

use bytes::{BufMut as _, BytesMut};
use gatepost_message::TopicFilter;
use gatepost_store::{DeliveryRow, SubscriptionRow};

use crate::encoding::{self, EncodingError, Input};

const NO_LOCAL: u8 = 1;
const RETAIN_AS_PUBLISHED: u8 = 1 << 1;
const RETAIN: u8 = 1;
const RELEASED: u8 = 1 << 1;

/// The bit if it is set, otherwise none.
const fn bit(bit: u8, is_set: bool) -> u8 {
    if is_set { bit } else { 0 }
}

/// Appends a subscription.
pub(crate) fn push_subscription(buffer: &mut BytesMut, row: &SubscriptionRow) {
    encoding::push_bytes(buffer, row.filter.as_str().as_bytes());
    buffer.put_u8(row.qos.level());
    let as_published = bit(RETAIN_AS_PUBLISHED, row.retain_as_published);
    buffer.put_u8(bit(NO_LOCAL, row.no_local) | as_published);
    buffer.put_u32(row.identifier.unwrap_or(0));
}

/// Reads a subscription of a session.
pub(crate) fn read_subscription(
    input: &mut Input,
    session: u64,
) -> Result<SubscriptionRow, EncodingError> {
    let filter = read_filter(input)?;
    let qos = input.qos()?;
    let flags = input.u8()?;
    let identifier = input.u32()?;
    Ok(SubscriptionRow {
        session,
        filter,
        qos,
        no_local: flags & NO_LOCAL != 0,
        retain_as_published: flags & RETAIN_AS_PUBLISHED != 0,
        // A subscription identifier is never 0 (MQTT 5, 3.8.2.1.2).
        identifier: (identifier != 0).then_some(identifier),
    })
}

/// Reads a filter.
pub(crate) fn read_filter(input: &mut Input) -> Result<TopicFilter, EncodingError> {
    TopicFilter::new(&input.text()?).map_err(|_| EncodingError::Malformed)
}

/// Appends a delivery.
pub(crate) fn push_delivery(buffer: &mut BytesMut, row: &DeliveryRow) {
    buffer.put_u64(row.sequence);
    buffer.put_u8(row.qos.level());
    buffer.put_u8(bit(RETAIN, row.retain) | bit(RELEASED, row.released));
    buffer.put_u32(row.identifiers.len() as u32);
    for &identifier in &row.identifiers {
        buffer.put_u32(identifier);
    }
}

/// Reads a delivery of a session. The caller sets the number of its message.
pub(crate) fn read_delivery(input: &mut Input, session: u64) -> Result<DeliveryRow, EncodingError> {
    let sequence = input.u64()?;
    let qos = input.qos()?;
    let flags = input.u8()?;
    let mut identifiers = Vec::new();
    for _ in 0..input.u32()? {
        identifiers.push(input.u32()?);
    }
    Ok(DeliveryRow {
        session,
        sequence,
        message: 0,
        qos,
        retain: flags & RETAIN != 0,
        released: flags & RELEASED != 0,
        identifiers,
    })
}
