//! The owner of a session, as its key in the directory says.
//!
//! Each owner is named with its epoch. A node that adopts the sessions of one epoch of a node
//! leaves those that the node got in a later epoch alone.

use bytes::Bytes;
use gatepost_broker::SessionName;
use gatepost_message::MessageId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::encoding::{self, EncodingError};
use crate::node_epoch::NodeStreamId;

/// The identifier of a session's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

impl SessionId {
    pub(crate) fn of(name: &SessionName) -> Self {
        let mut digest = Sha256::new();
        digest.update([u8::from(name.user.is_some())]);
        let user = name.user.as_deref().unwrap_or_default();
        digest.update((user.len() as u64).to_be_bytes());
        digest.update(user);
        digest.update(&*name.client_id);
        let digest: [u8; 32] = digest.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }

    pub(super) fn key(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    pub(super) fn from_key(key: &str) -> Option<Self> {
        let number = u128::from_str_radix(key, 16).ok()?;
        (key.len() == 32).then(|| Self(number.to_be_bytes()))
    }
}

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ownership {
    /// The number of the claim, which rises with each.
    pub(crate) claim: u64,
    /// The node.
    pub(crate) owner: u8,
    /// The epoch of the node in which it got the session; 0 before its first one.
    #[serde(default)]
    pub(crate) epoch: u64,
    /// The earlier owners whose content the owner may not have yet, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<SessionSource>,
}

/// An earlier owner of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSource {
    /// The claim by which it had the session.
    pub(crate) claim: u64,
    /// The node.
    pub(crate) node: u8,
    /// The epoch of the node in which it got the session; 0 before its first one.
    #[serde(default)]
    pub(crate) epoch: u64,
}

impl SessionSource {
    /// The stream of the earlier owner.
    pub(crate) const fn stream(&self) -> NodeStreamId {
        NodeStreamId {
            node: self.node,
            epoch: self.epoch,
        }
    }
}

impl Ownership {
    /// The ownership of a session that no node has. Its claim is later than those of all earlier
    /// sessions of the same name, since it begins with the time.
    pub(crate) fn first(owner: NodeStreamId) -> Self {
        Self {
            claim: MessageId::next().number(),
            owner: owner.node,
            epoch: owner.epoch,
            sources: Vec::new(),
        }
    }

    /// The ownership after a claim by a node that does not have the session. `takes_content` says
    /// whether the session continues.
    pub(crate) fn claimed_by(&self, by: NodeStreamId, takes_content: bool) -> Self {
        let mut sources = Vec::new();
        if takes_content {
            sources.extend((self.owner != by.node).then_some(self.as_source()));
            sources.extend(&self.sources);
        }
        self.next(by, sources)
    }

    /// The ownership after a node has got the session from an owner that has failed.
    pub(crate) fn taken_over(&self, by: NodeStreamId) -> Self {
        let mut sources = vec![self.as_source()];
        sources.extend(&self.sources);
        self.next(by, sources)
    }

    /// The ownership by the next claim.
    pub(crate) const fn next(&self, by: NodeStreamId, sources: Vec<SessionSource>) -> Self {
        Self {
            claim: self.claim + 1,
            owner: by.node,
            epoch: by.epoch,
            sources,
        }
    }

    /// The stream of the owner.
    pub(crate) const fn stream(&self) -> NodeStreamId {
        NodeStreamId {
            node: self.owner,
            epoch: self.epoch,
        }
    }

    const fn as_source(&self) -> SessionSource {
        SessionSource {
            claim: self.claim,
            node: self.owner,
            epoch: self.epoch,
        }
    }

    /// The ownership when the owner has the content.
    pub(crate) fn without_sources(&self) -> Self {
        Self {
            sources: Vec::new(),
            ..self.clone()
        }
    }

    /// The claim under which `node` has or had the session.
    pub(crate) fn claim_of(&self, node: u8) -> Option<u64> {
        let of_source = self.sources.iter().find(|source| source.node == node);
        let own = (self.owner == node).then_some(self.claim);
        own.or(of_source.map(|source| source.claim))
    }

    /// Whether a node has or had the session in this epoch or an earlier one.
    pub(crate) fn is_or_was_of(&self, stream: NodeStreamId) -> bool {
        let mut owners = std::iter::once(self.as_source()).chain(self.sources.iter().copied());
        owners.any(|owner| owner.node == stream.node && owner.epoch <= stream.epoch)
    }

    /// The value of a key.
    pub(crate) fn value(&self) -> Bytes {
        encoding::json(self)
    }

    /// Reads the value of a key.
    pub(crate) fn read(value: &[u8]) -> Result<Self, EncodingError> {
        encoding::read_json(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const fn stream(node: u8, epoch: u64) -> NodeStreamId {
        NodeStreamId { node, epoch }
    }

    #[test]
    fn a_claim_keeps_the_sources_that_the_owner_has_not_imported() {
        let first = Ownership::first(stream(1, 7));
        let number = first.claim;
        let second = first.claimed_by(stream(2, 8), true);
        assert_eq!((second.claim, second.owner), (number + 1, 2));
        let source = |node, claim, epoch| SessionSource { claim, node, epoch };
        assert_eq!(second.sources, [source(1, number, 7)]);
        let third = second.claimed_by(stream(3, 9), true);
        let sources = [source(2, number + 1, 8), source(1, number, 7)];
        assert_eq!(third.sources, sources);
        let claims = [3, 1, 4].map(|node| third.claim_of(node));
        assert_eq!(claims, [Some(number + 2), Some(number), None]);
        // The owner claims again, as it has found nothing before.
        assert_eq!(third.claimed_by(stream(3, 9), true).sources, sources);
        assert_eq!(third.claimed_by(stream(1, 7), false).sources, []);
        assert!(
            Ownership::first(stream(1, 7)).claim > third.claim,
            "a key that was removed"
        );
    }

    #[test]
    fn an_owner_is_known_with_its_epoch() {
        let first = Ownership::first(stream(1, 7));
        let second = first.claimed_by(stream(2, 8), true);
        let third = second.taken_over(stream(1, 9));
        let of = |ownership: &Ownership, node, epochs: &[u64]| -> Vec<bool> {
            let epochs = epochs.iter().copied();
            epochs
                .map(|epoch| ownership.is_or_was_of(stream(node, epoch)))
                .collect()
        };
        assert_eq!(of(&first, 1, &[6, 7, 8]), [false, true, true]);
        assert_eq!(of(&second, 1, &[6, 7, 8]), [false, true, true]);
        assert_eq!(of(&second, 2, &[7, 8]), [false, true]);
        assert_eq!(
            of(&third.without_sources(), 1, &[7, 8, 9]),
            [false, false, true]
        );
        let read = Ownership::read(&third.value()).expect("a value");
        assert_eq!(read, third);
    }

    #[test]
    fn a_key_names_one_session() {
        let name = |user: Option<&str>, client: &str| SessionName {
            user: user.map(Arc::from),
            client_id: Arc::from(client),
        };
        let names = [
            name(None, "a"),
            name(Some(""), "a"),
            name(Some("a"), ""),
            name(Some("ab"), "c"),
            name(Some("a"), "bc"),
        ];
        let ids: Vec<SessionId> = names.iter().map(SessionId::of).collect();
        for (index, id) in ids.iter().enumerate() {
            assert_eq!(SessionId::from_key(&id.key()), Some(*id));
            assert!(!ids[..index].contains(id), "{:?}", names[index]);
        }
        assert_eq!(SessionId::from_key("12"), None);
    }
}
