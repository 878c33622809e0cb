//! The division of a partition in the database, and as bytes between nodes.
//!
//! The record of a share has the partition, the node and the shared subscription as its key. The
//! record of the last epoch of a node that was adopted has the partition and the node. One record
//! per partition says of which stream the division is known; its key is the partition alone.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gatepost_message::TopicFilter;
use gatepost_store::{Store, StoreChange, StoreError};

use super::{DivisionChange, GroupDivision, NodeShare};
use crate::encoding::{EncodingError, Input};
use crate::log::group_entry::{push_group, push_members, read_group, read_members};
use crate::node_epoch::NodeStreamId;

/// The key space of these records.
pub(crate) const DIVISION_SPACE: &str = "backbone.division";
/// The partition and the node of a key.
const KEY_PREFIX_BYTES: usize = 3;
/// The number of the stream in the value of the record of a partition.
const STREAM_BYTES: usize = 8;
/// The epoch in the value of the record of a node.
const EPOCH_BYTES: usize = 8;
/// The kinds of changes between nodes.
const SHARE: u8 = 1;
const ADOPTED: u8 = 2;

/// A division that was stored.
#[derive(Default)]
pub(crate) struct StoredDivision {
    pub(crate) division: GroupDivision,
    /// The stream of which it is known; `None` if it has gaps.
    pub(crate) stream: Option<u64>,
}

impl StoredDivision {
    /// Adds a record of the partition.
    pub(crate) fn add(&mut self, key: &Bytes, mut value: Bytes) {
        if key.len() < KEY_PREFIX_BYTES {
            self.stream = (value.len() == STREAM_BYTES).then(|| value.get_u64());
            return;
        }
        let (node, group) = (key[KEY_PREFIX_BYTES - 1], &key[KEY_PREFIX_BYTES..]);
        if group.is_empty() {
            if value.len() == EPOCH_BYTES {
                let epoch = value.get_u64();
                let adopted = DivisionChange::Adopted(NodeStreamId { node, epoch });
                self.division.change(&adopted);
            }
            return;
        }
        let group = std::str::from_utf8(group).ok();
        let group = group.and_then(|text| TopicFilter::new(text).ok());
        let share = read_share(&mut Input::new(value));
        if let (Some(group), Ok(share)) = (group, share) {
            let share = Some(share);
            let change = DivisionChange::Share { group, node, share };
            self.division.change(&change);
        }
    }
}

pub(crate) fn read(store: &Store, partition: u16) -> Result<StoredDivision, StoreError> {
    let mut stored = StoredDivision::default();
    let visit = |key: Bytes, value: Bytes| stored.add(&key, value);
    store.each_record(DIVISION_SPACE, &partition.to_be_bytes(), visit)?;
    Ok(stored)
}

/// The change that stores a change of the division.
pub(crate) fn put(partition: u16, change: &DivisionChange) -> StoreChange {
    let space = DIVISION_SPACE;
    match change {
        DivisionChange::Share { group, node, share } => {
            let key = key(partition, *node, group.as_str());
            match share {
                Some(share) => {
                    let mut value = BytesMut::new();
                    push_share(&mut value, share);
                    let value = value.freeze();
                    StoreChange::PutRecord { space, key, value }
                }
                None => StoreChange::DeleteRecord { space, key },
            }
        }
        DivisionChange::Adopted(NodeStreamId { node, epoch }) => StoreChange::PutRecord {
            space,
            key: key(partition, *node, ""),
            value: Bytes::copy_from_slice(&epoch.to_be_bytes()),
        },
        DivisionChange::Cleared => StoreChange::DeleteRecords {
            space,
            prefix: prefix(partition),
        },
    }
}

/// The beginning of all keys of a partition.
pub(crate) fn prefix(partition: u16) -> Bytes {
    Bytes::copy_from_slice(&partition.to_be_bytes())
}

fn key(partition: u16, node: u8, group: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(KEY_PREFIX_BYTES + group.len());
    key.put_u16(partition);
    key.put_u8(node);
    key.put_slice(group.as_bytes());
    key.freeze()
}

/// The change that says that the division is known of this stream, or has gaps.
pub(crate) fn put_known(partition: u16, stream: Option<u64>) -> StoreChange {
    let (space, key) = (DIVISION_SPACE, prefix(partition));
    match stream {
        Some(stream) => StoreChange::PutRecord {
            space,
            key,
            value: Bytes::copy_from_slice(&stream.to_be_bytes()),
        },
        None => StoreChange::DeleteRecord { space, key },
    }
}

fn push_share(buffer: &mut BytesMut, share: &NodeShare) {
    buffer.put_u8(u8::from(share.is_gone));
    buffer.put_u64(share.epoch);
    push_members(buffer, share.members);
}

fn read_share(input: &mut Input) -> Result<NodeShare, EncodingError> {
    Ok(NodeShare {
        is_gone: input.flag()?,
        epoch: input.u64()?,
        members: read_members(input)?,
    })
}

/// Appends a share with its node and group.
pub(crate) fn push(buffer: &mut BytesMut, group: &TopicFilter, node: u8, share: &NodeShare) {
    buffer.put_u8(SHARE);
    buffer.put_u8(node);
    push_group(buffer, group);
    push_share(buffer, share);
}

/// Appends an epoch that was adopted.
pub(crate) fn push_adopted(buffer: &mut BytesMut, adopted: NodeStreamId) {
    buffer.put_u8(ADOPTED);
    buffer.put_u8(adopted.node);
    buffer.put_u64(adopted.epoch);
}

/// Reads what [`push`] or [`push_adopted`] has written.
pub(crate) fn read_change(input: &mut Input) -> Result<DivisionChange, EncodingError> {
    let (kind, node) = (input.u8()?, input.u8()?);
    match kind {
        SHARE => Ok(DivisionChange::Share {
            group: read_group(input)?,
            node,
            share: Some(read_share(input)?),
        }),
        ADOPTED => Ok(DivisionChange::Adopted(NodeStreamId {
            node,
            epoch: input.u64()?,
        })),
        _ => Err(EncodingError::Malformed),
    }
}
