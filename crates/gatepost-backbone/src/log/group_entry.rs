//! Entries of the log about the members of shared subscriptions.
//!
//! An entry says what is so from its position on, not what has changed, so it may be appended
//! again. It begins like one with publications, with a flag of its own.

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::GroupMembers;
use gatepost_message::TopicFilter;

use crate::encoding::{self, BundleOrigin, EncodingError, Input};
use crate::node_epoch::NodeStreamId;

/// The flag in the place of the flags of a publication.
pub(super) const IS_ABOUT_GROUPS: u8 = 4;

const MEMBERS: u8 = 1;
const GONE: u8 = 2;
const RESTART: u8 = 3;
const ADOPTED: u8 = 4;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupEntry {
    /// The members that the node of the entry has of these shared subscriptions, which may be none.
    Members {
        /// The epoch of the node.
        epoch: u64,
        members: Vec<(TopicFilter, GroupMembers)>,
    },
    /// Nodes that are not running, or not part of the cluster.
    Gone(Vec<u8>),
    /// Another node has adopted the sessions of this node in this epoch. The members that the node
    /// had then do not count after the entry; what they were to get before it is passed on.
    Adopted(NodeStreamId),
    /// No node knows the division. It begins again, and each node appends its members.
    Restart,
}

impl GroupEntry {
    /// The bytes of the entry.
    pub(crate) fn bytes(&self, origin: BundleOrigin) -> Bytes {
        let mut buffer = encoding::begin(origin);
        buffer.put_u64(0);
        buffer.put_u8(IS_ABOUT_GROUPS);
        match self {
            Self::Members { epoch, members } => {
                buffer.put_u8(MEMBERS);
                buffer.put_u64(*epoch);
                for (group, members) in members {
                    push_group(&mut buffer, group);
                    push_members(&mut buffer, *members);
                }
            }
            Self::Gone(nodes) => {
                buffer.put_u8(GONE);
                buffer.put_slice(nodes);
            }
            Self::Adopted(NodeStreamId { node, epoch }) => {
                buffer.put_u8(ADOPTED);
                buffer.put_u8(*node);
                buffer.put_u64(*epoch);
            }
            Self::Restart => buffer.put_u8(RESTART),
        }
        buffer.freeze()
    }

    /// Reads what follows the flag.
    pub(super) fn read(mut input: Input) -> Result<Self, EncodingError> {
        match input.u8()? {
            MEMBERS => {
                let epoch = input.u64()?;
                let mut members = Vec::new();
                while !input.is_empty() {
                    let group = read_group(&mut input)?;
                    members.push((group, read_members(&mut input)?));
                }
                Ok(Self::Members { epoch, members })
            }
            GONE => Ok(Self::Gone(input.rest().to_vec())),
            RESTART => Ok(Self::Restart),
            ADOPTED => Ok(Self::Adopted(NodeStreamId {
                node: input.u8()?,
                epoch: input.u64()?,
            })),
            _ => Err(EncodingError::Malformed),
        }
    }
}

/// Appends the numbers of members.
pub(crate) fn push_members(buffer: &mut BytesMut, members: GroupMembers) {
    buffer.put_u32(members.connected);
    buffer.put_u32(members.all);
}

pub(crate) fn read_members(input: &mut Input) -> Result<GroupMembers, EncodingError> {
    Ok(GroupMembers {
        connected: input.u32()?,
        all: input.u32()?,
    })
}

/// Appends a shared subscription.
pub(crate) fn push_group(buffer: &mut BytesMut, group: &TopicFilter) {
    encoding::push_bytes(buffer, group.as_str().as_bytes());
}

pub(crate) fn read_group(input: &mut Input) -> Result<TopicFilter, EncodingError> {
    TopicFilter::new(&input.text()?).map_err(|_| EncodingError::Malformed)
}
