//! Entries of the log as bytes: publications of one node, each with the session that sent it.
//!
//! An entry has the head of a bundle (`encoding.rs`). Each publication is preceded by the number of
//! its session (8 bytes, 0 for none) and one byte of flags.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::LoggedPublication;

use crate::encoding::{self, BundleOrigin, EncodingError, Input};

/// The flag of a publication that its node keeps in the database until it has read it back.
const IS_KEPT: u8 = 1;
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

/// The memory of a publication that waits for the log, about.
pub(crate) fn weight(logged: &LoggedPublication) -> usize {
    PREFIX_BYTES + encoding::bundle_bytes_min(&logged.publication)
}

/// Appends a publication to an entry that [`encoding::begin`] began.
pub(crate) fn push(buffer: &mut BytesMut, logged: &LoggedPublication, is_kept: bool) {
    buffer.put_u64(logged.session.unwrap_or(0));
    buffer.put_u8(if is_kept { IS_KEPT } else { 0 });
    encoding::push(buffer, &logged.publication);
}

/// Reads an entry.
pub(crate) fn read(bytes: Bytes) -> Result<(BundleOrigin, Vec<EntryPublication>), EncodingError> {
    let mut input = Input::versioned(bytes)?;
    let origin = input.origin()?;
    let mut publications = Vec::new();
    while !input.is_empty() {
        let session = input.u64()?;
        let flags = input.u8()?;
        if flags & !IS_KEPT != 0 {
            return Err(EncodingError::Malformed);
        }
        publications.push(EntryPublication {
            logged: LoggedPublication {
                publication: Arc::new(input.publication()?),
                session: (session != 0).then_some(session),
            },
            is_kept: flags & IS_KEPT != 0,
        });
    }
    Ok((origin, publications))
}

#[cfg(test)]
mod tests {
    use gatepost_message::{Publication, Qos, Topic};
    use proptest::prelude::*;

    use super::*;

    const ORIGIN: BundleOrigin = BundleOrigin {
        node: 3,
        run: 5,
        number: 7,
    };

    fn logged(payload: Vec<u8>, session: Option<u64>) -> LoggedPublication {
        let mut publication = Publication::new(Topic::new("a/b").expect("a topic"), payload);
        publication.qos = Qos::ExactlyOnce;
        LoggedPublication {
            publication: Arc::new(publication),
            session,
        }
    }

    proptest! {
        #[test]
        fn a_written_entry_reads_back(
            all in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..40), 0_u64..3, any::<bool>()), 0..4,
            ),
        ) {
            let mut buffer = encoding::begin(ORIGIN);
            let mut written = Vec::new();
            for (payload, session, is_kept) in all {
                let logged = logged(payload, (session > 0).then_some(session));
                push(&mut buffer, &logged, is_kept);
                written.push(EntryPublication { logged, is_kept });
            }
            prop_assert_eq!(read(buffer.freeze()), Ok((ORIGIN, written)));
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
        push(&mut buffer, &logged(Vec::new(), None), true);
        buffer[head + 8] = 2;
        assert_eq!(read(buffer.freeze()), Err(EncodingError::Malformed));
    }
}
