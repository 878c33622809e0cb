//! The division of a partition in the database, and as bytes between nodes.
//!
//! The record of a share has the partition, the node and the shared subscription as its key. One
//! record per partition says of which stream the division is known; its key is the partition alone.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gatepost_message::TopicFilter;
use gatepost_store::{Store, StoreChange, StoreError};

use super::{DivisionChange, GroupDivision, NodeShare};
use crate::encoding::{EncodingError, Input};
use crate::log::group_entry::{push_group, push_members, read_group, read_members};

/// The key space of these records.
const DIVISION_SPACE: &str = "backbone.division";
/// The partition and the node of a key.
const KEY_PREFIX_BYTES: usize = 3;
/// The number of the stream in the value of the record of a partition.
const STREAM_BYTES: usize = 8;

/// A division that was stored.
pub(crate) struct StoredDivision {
    pub(crate) division: GroupDivision,
    /// The stream of which it is known; `None` if it has gaps.
    pub(crate) stream: Option<u64>,
}

pub(crate) fn read(store: &Store, partition: u16) -> Result<StoredDivision, StoreError> {
    let mut stored = StoredDivision {
        division: GroupDivision::default(),
        stream: None,
    };
    let visit = |key: Bytes, mut value: Bytes| {
        if key.len() < KEY_PREFIX_BYTES {
            stored.stream = (value.len() == STREAM_BYTES).then(|| value.get_u64());
            return;
        }
        let group = std::str::from_utf8(&key[KEY_PREFIX_BYTES..]).ok();
        let group = group.and_then(|text| TopicFilter::new(text).ok());
        let share = read_share(&mut Input::new(value));
        if let (Some(group), Ok(share)) = (group, share) {
            let node = key[KEY_PREFIX_BYTES - 1];
            let share = Some(share);
            let change = DivisionChange::Share { group, node, share };
            stored.division.change(&change);
        }
    };
    store.each_record(DIVISION_SPACE, &partition.to_be_bytes(), visit)?;
    Ok(stored)
}

/// The change that stores a change of the division.
pub(crate) fn put(partition: u16, change: &DivisionChange) -> StoreChange {
    let DivisionChange::Share { group, node, share } = change else {
        return StoreChange::DeleteRecords {
            space: DIVISION_SPACE,
            prefix: Bytes::copy_from_slice(&partition.to_be_bytes()),
        };
    };
    let mut key = BytesMut::with_capacity(KEY_PREFIX_BYTES + group.as_str().len());
    key.put_u16(partition);
    key.put_u8(*node);
    key.put_slice(group.as_str().as_bytes());
    let (space, key) = (DIVISION_SPACE, key.freeze());
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

/// The change that says that the division is known of this stream, or has gaps.
pub(crate) fn put_known(partition: u16, stream: Option<u64>) -> StoreChange {
    let (space, key) = (
        DIVISION_SPACE,
        Bytes::copy_from_slice(&partition.to_be_bytes()),
    );
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
    push_members(buffer, share.members);
}

fn read_share(input: &mut Input) -> Result<NodeShare, EncodingError> {
    Ok(NodeShare {
        is_gone: input.flag()?,
        members: read_members(input)?,
    })
}

/// Appends a share with its node and group.
pub(crate) fn push(buffer: &mut BytesMut, group: &TopicFilter, node: u8, share: &NodeShare) {
    buffer.put_u8(node);
    push_group(buffer, group);
    push_share(buffer, share);
}

/// Reads what [`push`] has written.
pub(crate) fn read_change(input: &mut Input) -> Result<DivisionChange, EncodingError> {
    let node = input.u8()?;
    let group = read_group(input)?;
    let share = Some(read_share(input)?);
    Ok(DivisionChange::Share { group, node, share })
}
