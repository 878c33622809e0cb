//! Entries of the log as bytes: publications of one node, each with the session that sent it.
//!
//! An entry has the head of a bundle (`encoding/mod.rs`). Each publication is preceded by the
//! number of its session (8 bytes, 0 for none), one byte of flags, and, if it is for one shared
//! subscription alone, that subscription and the id of the publication that it repeats (8 bytes).
//! Other entries are about the members of shared subscriptions (`group_entry.rs`).

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::{LoggedPublication, PassedOn};
use gatepost_message::MessageId;

use super::group_entry::{self, GroupEntry, IS_ABOUT_GROUPS};
use crate::encoding::{self, BundleOrigin, EncodingError, Input};

/// The flag of a publication that its node keeps in the database until it has read it back.
const IS_KEPT: u8 = 1;
/// The flag of a publication for one shared subscription.
const IS_FOR_GROUP: u8 = 2;
/// The bytes before each publication.
const PREFIX_BYTES: usize = 9;

/// The origin of an entry that says nothing about it.
pub(crate) const NO_ORIGIN: BundleOrigin = BundleOrigin {
    node: 0,
    run: 0,
    number: 0,
};

/// A publication of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryPublication {
    pub(crate) logged: LoggedPublication,
    pub(crate) is_kept: bool,
}

/// The content of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EntryContent {
    Publications(Vec<EntryPublication>),
    Groups(GroupEntry),
}

impl EntryContent {
    /// The publications.
    pub(crate) fn publications(self) -> Vec<EntryPublication> {
        match self {
            Self::Publications(publications) => publications,
            Self::Groups(_) => Vec::new(),
        }
    }
}

/// The memory of a publication that waits for the log, about.
pub(crate) fn weight(logged: &LoggedPublication) -> usize {
    let passed_on = logged.passed_on.as_ref();
    let passed_on = passed_on.map_or(0, |one| 12 + one.group.as_str().len());
    PREFIX_BYTES + passed_on + encoding::bundle_bytes_min(&logged.publication)
}

/// Appends a publication to an entry that [`encoding::begin`] began.
pub(crate) fn push(buffer: &mut BytesMut, logged: &LoggedPublication, is_kept: bool) {
    buffer.put_u64(logged.session.unwrap_or(0));
    let kept = if is_kept { IS_KEPT } else { 0 };
    let for_group = logged.passed_on.as_ref().map_or(0, |_| IS_FOR_GROUP);
    buffer.put_u8(kept | for_group);
    if let Some(PassedOn { group, original }) = &logged.passed_on {
        group_entry::push_group(buffer, group);
        buffer.put_u64(original.number());
    }
    encoding::push(buffer, &logged.publication);
}

/// Reads an entry.
pub(crate) fn read(bytes: Bytes) -> Result<(BundleOrigin, EntryContent), EncodingError> {
    let mut input = Input::versioned(bytes)?;
    let origin = input.origin()?;
    let mut publications = Vec::new();
    while !input.is_empty() {
        let session = input.u64()?;
        let flags = input.u8()?;
        if flags == IS_ABOUT_GROUPS && publications.is_empty() {
            return Ok((origin, EntryContent::Groups(GroupEntry::read(input)?)));
        }
        if flags & !(IS_KEPT | IS_FOR_GROUP) != 0 {
            return Err(EncodingError::Malformed);
        }
        let is_for_group = flags & IS_FOR_GROUP != 0;
        let passed_on = is_for_group
            .then(|| read_passed_on(&mut input))
            .transpose()?;
        publications.push(EntryPublication {
            logged: LoggedPublication {
                publication: Arc::new(input.publication()?),
                session: (session != 0).then_some(session),
                passed_on,
            },
            is_kept: flags & IS_KEPT != 0,
        });
    }
    Ok((origin, EntryContent::Publications(publications)))
}

fn read_passed_on(input: &mut Input) -> Result<PassedOn, EncodingError> {
    Ok(PassedOn {
        group: group_entry::read_group(input)?,
        original: MessageId::from_number(input.u64()?),
    })
}

#[cfg(test)]
mod tests {
    use gatepost_broker::GroupMembers;
    use gatepost_message::{Publication, Qos, Topic, TopicFilter};
    use proptest::prelude::*;

    use super::*;
    use crate::node_epoch::NodeStreamId;

    const ORIGIN: BundleOrigin = BundleOrigin {
        node: 3,
        run: 5,
        number: 7,
    };

    fn group(text: &str) -> TopicFilter {
        TopicFilter::new(text).expect("a filter")
    }

    fn logged(
        payload: Vec<u8>,
        session: Option<u64>,
        group: Option<&TopicFilter>,
    ) -> LoggedPublication {
        let mut publication = Publication::new(Topic::new("a/b").expect("a topic"), payload);
        publication.qos = Qos::ExactlyOnce;
        LoggedPublication {
            publication: Arc::new(publication),
            session,
            passed_on: group.map(|group| PassedOn {
                group: group.clone(),
                original: MessageId::from_number(11),
            }),
        }
    }

    proptest! {
        #[test]
        fn a_written_entry_reads_back(
            all in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..40), 0_u64..3, any::<[bool; 2]>()), 0..4,
            ),
        ) {
            let mut buffer = encoding::begin(ORIGIN);
            let mut written = Vec::new();
            let group = group("$share/g/a/#");
            for (payload, session, [is_kept, is_for_group]) in all {
                let group = is_for_group.then_some(&group);
                let logged = logged(payload, (session > 0).then_some(session), group);
                push(&mut buffer, &logged, is_kept);
                written.push(EntryPublication { logged, is_kept });
            }
            let content = EntryContent::Publications(written);
            prop_assert_eq!(read(buffer.freeze()), Ok((ORIGIN, content)));
        }

        #[test]
        fn a_written_group_entry_reads_back(
            numbers in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4),
            gone in proptest::collection::vec(any::<u8>(), 0..4),
            epoch: u64,
        ) {
            let group = group("$share/g/a");
            let of_group = |(connected, all)| (group.clone(), GroupMembers { connected, all });
            for entry in [
                GroupEntry::Members {
                    epoch,
                    members: numbers.into_iter().map(of_group).collect(),
                },
                GroupEntry::Gone(gone),
                GroupEntry::Adopted(NodeStreamId { node: 3, epoch }),
                GroupEntry::Restart,
            ] {
                let content = EntryContent::Groups(entry.clone());
                prop_assert_eq!(read(entry.bytes(ORIGIN)), Ok((ORIGIN, content)));
            }
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut with_version = vec![encoding::VERSION];
            with_version.extend(&bytes);
            let _ = (read(bytes.into()), read(with_version.into()));
        }
    }

    #[test]
    fn a_later_versions_flag_is_refused() {
        let mut buffer = encoding::begin(ORIGIN);
        let head = buffer.len();
        push(&mut buffer, &logged(Vec::new(), None, None), true);
        buffer[head + 8] = 8;
        assert_eq!(read(buffer.freeze()), Err(EncodingError::Malformed));
    }
}
