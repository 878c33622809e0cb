//! A session as bytes, with the positions in the log up to which it has received publications.
//!
//! The bytes are stored as records of the node that released the session, in pieces of
//! [`PIECE_BYTES`], until the new owner has stored the session.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::{MovedDelivery, MovedSession, SessionName};
use gatepost_store::{Store, StoreChange, StoreError};

use super::ownership::SessionId;
use crate::encoding::{self, EncodingError, Input, VERSION};
use crate::log::position::LogPosition;
use crate::session_rows;

/// The key space of released sessions.
pub(crate) const RELEASED_SPACE: &str = "backbone.released";
/// The bytes of a piece; a NATS message has 1 MB at most by default.
const PIECE_BYTES: usize = 256 * 1024;
/// The bytes of the number of pieces, with which each piece begins.
const COUNT_BYTES: usize = 4;

/// A session that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionTransfer {
    pub(crate) session: MovedSession,
    /// By partition.
    pub(crate) positions: Vec<LogPosition>,
}

/// Appends the name of a session.
pub(crate) fn push_name(buffer: &mut BytesMut, name: &SessionName) {
    buffer.put_u8(u8::from(name.user.is_some()));
    encoding::push_bytes(buffer, name.user.as_deref().unwrap_or_default().as_bytes());
    encoding::push_bytes(buffer, name.client_id.as_bytes());
}

/// Reads the name of a session.
pub(crate) fn read_name(input: &mut Input) -> Result<SessionName, EncodingError> {
    let has_user = input.u8()? != 0;
    let user = input.text()?;
    Ok(SessionName {
        user: has_user.then(|| Arc::from(user)),
        client_id: Arc::from(input.text()?),
    })
}

impl SessionTransfer {
    pub(crate) fn bytes(&self) -> Bytes {
        let Self { session, positions } = self;
        let mut buffer = BytesMut::new();
        buffer.put_u8(VERSION);
        buffer.put_u64(session.number);
        push_name(&mut buffer, &session.name);
        encoding::push_bytes(&mut buffer, session.kind.as_bytes());
        buffer.put_u64(u64::try_from(session.expiry.as_millis()).unwrap_or(u64::MAX));
        buffer.put_u64(session.sent);
        buffer.put_u32(positions.len() as u32);
        for position in positions {
            position.push(&mut buffer);
        }
        buffer.put_u32(session.subscriptions.len() as u32);
        for row in &session.subscriptions {
            session_rows::push_subscription(&mut buffer, row);
        }
        buffer.put_u32(session.received.len() as u32);
        for &packet in &session.received {
            buffer.put_u16(packet);
        }
        buffer.put_u32(session.deliveries.len() as u32);
        for delivery in &session.deliveries {
            session_rows::push_delivery(&mut buffer, &delivery.row);
            encoding::push(&mut buffer, &delivery.publication);
        }
        buffer.freeze()
    }

    /// Reads a session.
    pub(crate) fn read(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Input::versioned(bytes)?;
        let number = input.u64()?;
        let name = read_name(&mut input)?;
        let kind = input.text()?;
        let expiry = Duration::from_millis(input.u64()?);
        let sent = input.u64()?;
        let mut positions = Vec::new();
        for _ in 0..input.u32()? {
            positions.push(LogPosition {
                stream: input.u64()?,
                sequence: input.u64()?,
                delivered: input.u32()?,
            });
        }
        let mut subscriptions = Vec::new();
        for _ in 0..input.u32()? {
            subscriptions.push(session_rows::read_subscription(&mut input, number)?);
        }
        let mut received = Vec::new();
        for _ in 0..input.u32()? {
            received.push(input.u16()?);
        }
        let mut deliveries = Vec::new();
        for _ in 0..input.u32()? {
            deliveries.push(read_delivery(&mut input, number)?);
        }
        if !input.is_empty() {
            return Err(EncodingError::Malformed);
        }
        Ok(Self {
            session: MovedSession {
                number,
                name,
                kind,
                expiry,
                sent,
                subscriptions,
                received,
                deliveries,
            },
            positions,
        })
    }

    /// The changes that keep the session until its new owner has it.
    pub(crate) fn put(&self, id: SessionId, claim: u64) -> Vec<StoreChange> {
        let bytes = self.bytes();
        let count = bytes.len().div_ceil(PIECE_BYTES);
        let pieces = (0..count).map(|index| {
            let from = index * PIECE_BYTES;
            let piece = &bytes[from..bytes.len().min(from + PIECE_BYTES)];
            let mut value = BytesMut::with_capacity(COUNT_BYTES + piece.len());
            value.put_u32(count as u32);
            value.put_slice(piece);
            StoreChange::PutRecord {
                space: RELEASED_SPACE,
                key: key(id, claim, index as u32),
                value: value.freeze(),
            }
        });
        pieces.collect()
    }
}

/// A piece of a released session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of pieces.
    pub(crate) count: u32,
    pub(crate) bytes: Bytes,
}

impl Piece {
    /// The piece in the form in which it is stored and sent.
    pub(crate) fn read(mut value: Bytes) -> Result<Self, EncodingError> {
        if value.len() < COUNT_BYTES {
            return Err(EncodingError::Truncated);
        }
        let bytes = value.split_off(COUNT_BYTES);
        Ok(Self {
            count: Input::new(value).u32()?,
            bytes,
        })
    }
}

/// A stored piece, as [`Piece::read`] reads it.
pub(crate) fn piece(
    store: &Store,
    id: SessionId,
    claim: u64,
    index: u32,
) -> Result<Option<Bytes>, StoreError> {
    store.record(RELEASED_SPACE, &key(id, claim, index))
}

/// The change that removes a released session.
pub(crate) fn remove(id: SessionId, claim: u64) -> StoreChange {
    StoreChange::DeleteRecords {
        space: RELEASED_SPACE,
        prefix: pieces_prefix(id, claim),
    }
}

/// The session of a record's key, and the claim.
pub(crate) fn session_of_key(key: &[u8]) -> Option<(SessionId, u64)> {
    let (id, rest) = key.split_first_chunk::<16>()?;
    let (claim, _) = rest.split_first_chunk::<8>()?;
    Some((SessionId(*id), u64::from_be_bytes(*claim)))
}

/// All sessions that this node has released and that are still kept, each with its claim.
pub(crate) fn kept(store: &Store) -> Result<Vec<(SessionId, u64)>, StoreError> {
    let mut all = Vec::new();
    store.each_record(RELEASED_SPACE, b"", |key, _| {
        all.extend(session_of_key(&key));
    })?;
    all.dedup();
    Ok(all)
}

/// The beginning of the keys of a released session's pieces.
pub(crate) fn pieces_prefix(id: SessionId, claim: u64) -> Bytes {
    key_start(id, claim).freeze()
}

fn key(id: SessionId, claim: u64, index: u32) -> Bytes {
    let mut key = key_start(id, claim);
    key.put_u32(index);
    key.freeze()
}

fn key_start(id: SessionId, claim: u64) -> BytesMut {
    let mut key = BytesMut::new();
    key.put_slice(&id.0);
    key.put_u64(claim);
    key
}

fn read_delivery(input: &mut Input, session: u64) -> Result<MovedDelivery, EncodingError> {
    let mut row = session_rows::read_delivery(input, session)?;
    let publication = Arc::new(input.publication()?);
    row.message = publication.id.number();
    Ok(MovedDelivery { row, publication })
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Publication, Qos, Topic, TopicFilter};
    use gatepost_store::{DeliveryRow, SubscriptionRow};
    use proptest::prelude::*;

    use super::*;

    fn transfer(payload: Vec<u8>, user: Option<&str>) -> SessionTransfer {
        let topic = Topic::new("a/b").expect("a topic");
        let publication = Arc::new(Publication::new(topic, payload));
        let delivery = |sequence, released: bool| MovedDelivery {
            row: DeliveryRow {
                session: 7,
                sequence,
                message: publication.id.number(),
                qos: Qos::ExactlyOnce,
                retain: !released,
                released,
                identifiers: vec![3, 4],
            },
            publication: publication.clone(),
        };
        SessionTransfer {
            session: MovedSession {
                number: 7,
                name: SessionName {
                    user: user.map(Arc::from),
                    client_id: Arc::from("meter"),
                },
                kind: "mqtt".to_owned(),
                expiry: Duration::from_hours(1),
                sent: 5,
                subscriptions: vec![SubscriptionRow {
                    session: 7,
                    filter: TopicFilter::new("$share/g/a/#").expect("a filter"),
                    qos: Qos::AtLeastOnce,
                    no_local: true,
                    retain_as_published: false,
                    identifier: Some(9),
                }],
                received: vec![1, 65_535],
                deliveries: vec![delivery(4, true), delivery(6, false)],
            },
            positions: vec![LogPosition::after(1, 2), LogPosition::after(1, 0)],
        }
    }

    proptest! {
        #[test]
        fn a_written_session_reads_back(payload: Vec<u8>, has_user: bool) {
            let written = transfer(payload, has_user.then_some("u"));
            prop_assert_eq!(SessionTransfer::read(written.bytes()), Ok(written));
        }

        #[test]
        fn damage_causes_no_panic(at: usize, to: u8, cut: usize) {
            let mut bytes = transfer(vec![1, 2, 3], None).bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = to;
            bytes.truncate(cut % bytes.len() + 1);
            let _ = SessionTransfer::read(bytes.into());
        }
    }

    #[tokio::test]
    async fn a_released_session_is_kept_in_pieces() {
        let store = Store::in_memory().expect("a store");
        let written = transfer(vec![7; 2 * PIECE_BYTES], None);
        let id = SessionId::of(&written.session.name);
        let stored = store.submit(written.put(id, 3)).expect("accepted");
        stored.committed().await.expect("stored");
        assert_eq!(kept(&store).expect("read"), [(id, 3)]);
        let mut bytes = BytesMut::new();
        let mut count = 1;
        let mut index = 0;
        while index < count {
            let value = piece(&store, id, 3, index).expect("read").expect("a piece");
            let piece = Piece::read(value).expect("a piece");
            bytes.put_slice(&piece.bytes);
            (count, index) = (piece.count, index + 1);
        }
        assert!(count > 2, "{count}");
        assert_eq!(SessionTransfer::read(bytes.freeze()), Ok(written));
        let removed = store.submit([remove(id, 3)]).expect("accepted");
        removed.committed().await.expect("stored");
        assert_eq!(kept(&store).expect("read"), []);
    }
}
