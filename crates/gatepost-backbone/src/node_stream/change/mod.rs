//! Changes of the database that a node copies into its stream, as bytes.
//!
//! A change is a tag, which says what kind it is, and then its fields. Numbers are big-endian; an
//! optional field follows a flag. Times and durations have the precision of the database:
//! milliseconds and whole seconds.
//!
//! Invariants: no input causes a panic, nor memory beyond the input's own size. A change that was
//! read shares no memory with the input: a message may remain for long after the entry that it
//! came with.

#[cfg(test)]
pub(crate) mod tests;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_message::Qos;
use gatepost_store::{SessionChange, SessionRow, StoreChange, WillRow};

use crate::encoding::{self, EncodingError, Input};
use crate::log::division::rows::DIVISION_SPACE;
use crate::log::kept::KEPT_SPACE;
use crate::log::position::POSITION_SPACE;
use crate::moves::transfer::RELEASED_SPACE;
use crate::session_rows;

/// The key spaces of copied records; the place of each is its number in the stream.
pub(crate) const SPACES: [&str; 4] = [POSITION_SPACE, KEPT_SPACE, RELEASED_SPACE, DIVISION_SPACE];

const PUT: u8 = 1;
const END: u8 = 2;
const SUBSCRIBE: u8 = 3;
const UNSUBSCRIBE: u8 = 4;
const MESSAGE: u8 = 5;
const FORGET_MESSAGE: u8 = 6;
const ENQUEUE: u8 = 7;
const RELEASE: u8 = 8;
const DEQUEUE: u8 = 9;
const RECEIVE: u8 = 10;
const UNRECEIVE: u8 = 11;
const PUT_RECORD: u8 = 12;
const DELETE_RECORD: u8 = 13;
const DELETE_RECORDS: u8 = 14;
/// All tags.
pub(crate) const TAGS: RangeInclusive<u8> = PUT..=DELETE_RECORDS;

/// The key space of the change, if it is a change of records.
fn space(change: &StoreChange) -> Option<&'static str> {
    match change {
        StoreChange::AddRecord { space, .. }
        | StoreChange::PutRecord { space, .. }
        | StoreChange::DeleteRecord { space, .. }
        | StoreChange::DeleteRecords { space, .. } => Some(space),
        _ => None,
    }
}

/// Whether the stream of the node contains the change.
pub(crate) fn is_copied(change: &StoreChange) -> bool {
    matches!(change, StoreChange::Session(_))
        || space(change).is_some_and(|space| SPACES.contains(&space))
}

/// Whether something is acknowledged to others after the change, so that the stream must have it
/// before.
///
/// Losing one of the other copied changes only means that a delivery at QoS 1 is repeated: the
/// position in the log is copied together with the deliveries up to it.
pub(crate) fn is_awaited(change: &StoreChange) -> bool {
    match change {
        StoreChange::Session(change) => match change {
            SessionChange::Enqueue(row) => row.qos == Qos::ExactlyOnce,
            SessionChange::Dequeue { .. }
            | SessionChange::Message { .. }
            | SessionChange::ForgetMessage { .. } => false,
            SessionChange::Put(_)
            | SessionChange::End { .. }
            | SessionChange::Subscribe(_)
            | SessionChange::Unsubscribe { .. }
            | SessionChange::Release { .. }
            | SessionChange::Receive { .. }
            // After the PUBCOMP, the client may use the packet identifier for another publication.
            | SessionChange::Unreceive { .. } => true,
        },
        StoreChange::DeleteRecord { space, .. } | StoreChange::DeleteRecords { space, .. } => {
            *space == RELEASED_SPACE
        }
        StoreChange::AddRecord { space, .. } | StoreChange::PutRecord { space, .. } => {
            [KEPT_SPACE, RELEASED_SPACE].contains(space)
        }
        _ => false,
    }
}

/// The session that a change is about; `None` for messages, which several sessions may wait for.
pub(crate) const fn session_of(change: &SessionChange) -> Option<u64> {
    match change {
        SessionChange::Put(row) => Some(row.number),
        SessionChange::Subscribe(row) => Some(row.session),
        SessionChange::Enqueue(row) => Some(row.session),
        SessionChange::End { session }
        | SessionChange::Unsubscribe { session, .. }
        | SessionChange::Release { session, .. }
        | SessionChange::Dequeue { session, .. }
        | SessionChange::Receive { session, .. }
        | SessionChange::Unreceive { session, .. } => Some(*session),
        SessionChange::Message { .. } | SessionChange::ForgetMessage { .. } => None,
    }
}

/// Appends a change; nothing if it is not copied.
pub(crate) fn push(buffer: &mut BytesMut, change: &StoreChange) {
    if let StoreChange::Session(change) = change {
        return push_session_change(buffer, change);
    }
    let number = space(change).and_then(|space| SPACES.iter().position(|one| *one == space));
    let Some(number) = number else {
        return;
    };
    let mut begin = |tag, key: &Bytes| {
        buffer.put_u8(tag);
        buffer.put_u8(number as u8);
        encoding::push_bytes(buffer, key);
    };
    match change {
        StoreChange::AddRecord { key, value, .. } | StoreChange::PutRecord { key, value, .. } => {
            begin(PUT_RECORD, key);
            encoding::push_bytes(buffer, value);
        }
        StoreChange::DeleteRecord { key, .. } => begin(DELETE_RECORD, key),
        StoreChange::DeleteRecords { prefix, .. } => begin(DELETE_RECORDS, prefix),
        _ => {}
    }
}

fn push_session_change(buffer: &mut BytesMut, change: &SessionChange) {
    let mut begin = |tag, number: u64| {
        buffer.put_u8(tag);
        buffer.put_u64(number);
    };
    match change {
        SessionChange::Put(row) => {
            begin(PUT, row.number);
            push_session(buffer, row);
        }
        SessionChange::End { session } => begin(END, *session),
        SessionChange::Subscribe(row) => {
            begin(SUBSCRIBE, row.session);
            session_rows::push_subscription(buffer, row);
        }
        SessionChange::Unsubscribe { session, filter } => {
            begin(UNSUBSCRIBE, *session);
            encoding::push_bytes(buffer, filter.as_str().as_bytes());
        }
        SessionChange::Message {
            number,
            publication,
        } => {
            begin(MESSAGE, *number);
            encoding::push(buffer, publication);
        }
        SessionChange::ForgetMessage { number } => begin(FORGET_MESSAGE, *number),
        SessionChange::Enqueue(row) => {
            begin(ENQUEUE, row.session);
            buffer.put_u64(row.message);
            session_rows::push_delivery(buffer, row);
        }
        SessionChange::Release { session, sequence } => {
            begin(RELEASE, *session);
            buffer.put_u64(*sequence);
        }
        SessionChange::Dequeue { session, sequence } => {
            begin(DEQUEUE, *session);
            buffer.put_u64(*sequence);
        }
        SessionChange::Receive { session, packet } => {
            begin(RECEIVE, *session);
            buffer.put_u16(*packet);
        }
        SessionChange::Unreceive { session, packet } => {
            begin(UNRECEIVE, *session);
            buffer.put_u16(*packet);
        }
    }
}

/// Appends a session's own row after its number.
fn push_session(buffer: &mut BytesMut, row: &SessionRow) {
    encoding::push_bytes(buffer, row.client.as_bytes());
    encoding::push_optional(buffer, row.user.as_ref(), |buffer, user| {
        encoding::push_bytes(buffer, user.as_bytes());
    });
    encoding::push_bytes(buffer, row.kind.as_bytes());
    buffer.put_u64(row.expiry.as_secs());
    encoding::push_optional(buffer, row.ended, |buffer, ended| {
        let since = ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        buffer.put_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    });
    encoding::push_optional(buffer, row.sent, BytesMut::put_u64);
    encoding::push_optional(buffer, row.will, |buffer, will| {
        buffer.put_u64(will.message);
        buffer.put_u64(will.delay.as_secs());
    });
}

/// Reads a change.
pub(crate) fn read(input: &mut Input) -> Result<StoreChange, EncodingError> {
    let tag = input.u8()?;
    if !TAGS.contains(&tag) {
        return Err(EncodingError::Malformed);
    }
    if tag >= PUT_RECORD {
        return read_record_change(tag, input);
    }
    // Of the session, or of the message.
    let number = input.u64()?;
    Ok(StoreChange::Session(match tag {
        PUT => SessionChange::Put(Box::new(read_session(input, number)?)),
        END => SessionChange::End { session: number },
        SUBSCRIBE => {
            SessionChange::Subscribe(Box::new(session_rows::read_subscription(input, number)?))
        }
        UNSUBSCRIBE => SessionChange::Unsubscribe {
            session: number,
            filter: session_rows::read_filter(input)?,
        },
        MESSAGE => SessionChange::Message {
            number,
            publication: Arc::new(input.publication()?),
        },
        FORGET_MESSAGE => SessionChange::ForgetMessage { number },
        ENQUEUE => {
            let message = input.u64()?;
            let mut row = session_rows::read_delivery(input, number)?;
            row.message = message;
            SessionChange::Enqueue(Box::new(row))
        }
        RELEASE => SessionChange::Release {
            session: number,
            sequence: input.u64()?,
        },
        DEQUEUE => SessionChange::Dequeue {
            session: number,
            sequence: input.u64()?,
        },
        RECEIVE => SessionChange::Receive {
            session: number,
            packet: input.u16()?,
        },
        UNRECEIVE => SessionChange::Unreceive {
            session: number,
            packet: input.u16()?,
        },
        _ => return Err(EncodingError::Malformed),
    }))
}

fn read_record_change(tag: u8, input: &mut Input) -> Result<StoreChange, EncodingError> {
    let space = SPACES.get(usize::from(input.u8()?));
    let space = *space.ok_or(EncodingError::Malformed)?;
    let key = input.bytes()?;
    Ok(match tag {
        PUT_RECORD => StoreChange::PutRecord {
            space,
            key,
            value: input.bytes()?,
        },
        DELETE_RECORD => StoreChange::DeleteRecord { space, key },
        DELETE_RECORDS => StoreChange::DeleteRecords { space, prefix: key },
        _ => return Err(EncodingError::Malformed),
    })
}

fn read_session(input: &mut Input, number: u64) -> Result<SessionRow, EncodingError> {
    Ok(SessionRow {
        number,
        client: input.text()?,
        user: input.optional(Input::text)?,
        kind: input.text()?,
        expiry: read_duration(input)?,
        ended: input.optional(|input| {
            let since = Duration::from_millis(input.u64()?);
            let time = UNIX_EPOCH.checked_add(since);
            time.ok_or(EncodingError::Malformed)
        })?,
        sent: input.optional(Input::u64)?,
        will: input.optional(|input| {
            Ok(WillRow {
                message: input.u64()?,
                delay: read_duration(input)?,
            })
        })?,
    })
}

/// Longer durations than the database has mean no end.
fn read_duration(input: &mut Input) -> Result<Duration, EncodingError> {
    let seconds = input.u64()?;
    Ok(match i64::try_from(seconds) {
        Ok(seconds) if seconds < i64::MAX => Duration::from_secs(seconds.unsigned_abs()),
        _ => Duration::MAX,
    })
}
