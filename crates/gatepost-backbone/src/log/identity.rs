//! The identity of a publication of the log.
//!
//! A node that keeps a publication appends it again after a crash, and so does a node that adopts
//! its sessions. The id of the publication identifies it. A publication that is passed on to
//! another member of a shared subscription gets an id of its own from whichever node passes it on,
//! so it is identified by the publication that it repeats, and the shared subscription.
//!
//! A will gets its id when it is published. The commit that keeps it under this id also takes it
//! from its session, and it is appended after that commit. So a node that adopts the session finds
//! the will there, and the log does not have it, or finds it among what was kept.

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::LoggedPublication;
use gatepost_message::{MessageId, TopicFilter};
use sha2::{Digest as _, Sha256};

/// The bytes of a digest of a shared subscription that a message id contains.
const DIGEST_BYTES: usize = 16;

/// The identity of a publication.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LogIdentity {
    /// Its id, or that of the publication that it repeats.
    id: MessageId,
    /// The shared subscription for which it was passed on.
    group: Option<TopicFilter>,
}

impl LogIdentity {
    pub(crate) fn of(logged: &LoggedPublication) -> Self {
        match &logged.passed_on {
            Some(passed_on) => Self::passed_on(passed_on.original, passed_on.group.clone()),
            None => Self::of_id(logged.publication.id),
        }
    }

    /// The identity of a publication that is for all subscriptions.
    pub(crate) const fn of_id(id: MessageId) -> Self {
        Self { id, group: None }
    }

    /// The identity of what repeats this publication for a shared subscription.
    pub(crate) const fn passed_on(original: MessageId, group: TopicFilter) -> Self {
        Self {
            id: original,
            group: Some(group),
        }
    }

    /// The key under which it is kept in the database.
    pub(crate) fn key(&self) -> Bytes {
        let mut key = BytesMut::new();
        key.put_u64(self.id.number());
        if let Some(group) = &self.group {
            key.put_slice(group.as_str().as_bytes());
        }
        key.freeze()
    }

    /// The id of its entry, which the engine stores once.
    pub(crate) fn message_id(&self) -> String {
        let id = self.id.number();
        let Some(group) = &self.group else {
            return format!("kept-{id:x}");
        };
        let digest = Sha256::digest(group.as_str());
        let digest = digest.iter().take(DIGEST_BYTES);
        let digest = digest.fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        format!("kept-{id:x}-{digest:032x}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_broker::PassedOn;
    use gatepost_message::{Publication, Topic};

    use super::*;

    #[test]
    fn what_two_nodes_pass_on_is_the_same() {
        let group = |text: &str| TopicFilter::new(text).expect("a filter");
        let logged = |passed_on: Option<(u64, &str)>| LoggedPublication {
            publication: Arc::new(Publication::new(Topic::new("a").expect("a topic"), "x")),
            session: None,
            passed_on: passed_on.map(|(original, text)| PassedOn {
                group: group(text),
                original: MessageId::from_number(original),
            }),
        };
        let [plain, other] = [logged(None), logged(None)].map(|one| LogIdentity::of(&one));
        assert_ne!(plain, other);
        let passed = [
            (5, "$share/g/a"),
            (5, "$share/g/a"),
            (5, "$share/h/a"),
            (6, "$share/g/a"),
        ];
        let passed = passed.map(|one| LogIdentity::of(&logged(Some(one))));
        assert_eq!(passed[0], passed[1]);
        assert_eq!(
            (passed[0].key(), passed[0].message_id()),
            (passed[1].key(), passed[1].message_id())
        );
        for (index, one) in passed.iter().enumerate().skip(2) {
            for earlier in &passed[..index] {
                assert_ne!(one.key(), earlier.key());
                assert_ne!(one.message_id(), earlier.message_id());
            }
        }
    }
}
