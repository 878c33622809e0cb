//! The node that serves a publication: a pure function of the shares and the publication's id.
//!
//! Nodes with connected members come first, then nodes that run, then all. Among these, each node
//! gets publications in proportion to its members. All versions must compute the same.

use gatepost_message::{MessageId, TopicFilter};
use smallvec::SmallVec;

use super::NodeShare;

/// The nodes to choose from, in the order of their numbers.
pub(super) type NodeCandidates = SmallVec<[(u8, NodeShare); 8]>;

/// The offset basis and the prime of the hash FNV-1a with 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The weights of a share, by preference: the first of which any node has one decides.
const WEIGHTS: [fn(&NodeShare) -> u32; 3] = [
    |share| {
        if share.is_gone {
            0
        } else {
            share.members.connected
        }
    },
    |share| if share.is_gone { 0 } else { share.members.all },
    |share| share.members.all,
];

pub(super) fn choose(
    candidates: &NodeCandidates,
    group: &TopicFilter,
    id: MessageId,
) -> Option<u8> {
    if let [(only, _)] = &**candidates {
        return Some(*only);
    }
    WEIGHTS.iter().find_map(|weight| {
        let weights = candidates.iter().map(|(_, share)| u64::from(weight(share)));
        let total: u64 = weights.clone().sum();
        let mut place = number(group, id).checked_rem(total)?;
        for ((node, _), weight) in candidates.iter().zip(weights) {
            if place < weight {
                return Some(*node);
            }
            place -= weight;
        }
        None
    })
}

/// A number of the publication and the group, which is spread evenly.
fn number(group: &TopicFilter, id: MessageId) -> u64 {
    let hash = group.as_str().bytes().fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    // The finalizer of splitmix64: each bit of an id changes half of the result.
    let mut mixed = hash ^ id.number();
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
