//! A mail as messages of the stream, and the mail that such messages form.
//!
//! A message is a version, the id of the mail, its place among the pieces, their number, the user's
//! name with its length, and then bytes of the mail. All numbers are big-endian. A message with no
//! pieces says that the mail was removed.
//!
//! Mail in quarantine has version 2, at which nodes without a common quarantine stop. It has a kind
//! in the place of the user's name, and its removal may have bytes: the journal entry with the new
//! verdict.

use std::collections::HashMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use gatepost_message::MessageId;

use crate::encoding::EncodingError;

/// The version of the encoding of mail in a mailbox.
const VERSION: u8 = 1;
/// The version of the encoding of mail in quarantine.
const QUARANTINE_VERSION: u8 = 2;
/// The kind of mail in quarantine.
const QUARANTINE_KIND: u16 = 1;
/// Version, id, place, number of pieces, and the length of the name or the kind.
const HEAD_BYTES: usize = 15;
/// The most pieces of a mail: the engine stores as many messages together.
const PIECES_MAX: usize = 1_000;

/// The place of a mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MailPlace {
    /// The mailbox of this user.
    Mailbox(String),
    Quarantine,
}

/// A mail in a mailbox or in quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MailName {
    pub(crate) place: MailPlace,
    pub(crate) id: MessageId,
}

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MailPiece {
    name: MailName,
    place: u16,
    /// 0 for a removal.
    count: u16,
    bytes: Bytes,
}

impl MailName {
    pub(crate) fn in_mailbox(user: impl Into<String>, id: MessageId) -> Self {
        let place = MailPlace::Mailbox(user.into());
        Self { place, id }
    }

    pub(crate) const fn in_quarantine(id: MessageId) -> Self {
        let place = MailPlace::Quarantine;
        Self { place, id }
    }

    /// The messages that store the mail, each with at most so many of its bytes; `None` for a mail
    /// that is too long.
    pub(crate) fn pieces(&self, mail: &Bytes, bytes_max: usize) -> Option<Vec<Bytes>> {
        let bytes_max = bytes_max.max(1);
        let count = mail.len().div_ceil(bytes_max).max(1);
        let count = u16::try_from(count).ok()?;
        if usize::from(count) > PIECES_MAX {
            return None;
        }
        let piece = |place: u16| {
            let from = usize::from(place) * bytes_max;
            let to = mail.len().min(from + bytes_max);
            self.encode(place, count, &mail[from..to])
        };
        Some((0..count).map(piece).collect())
    }

    /// The message that says that the mail was removed. `bytes` are empty for a mailbox.
    pub(crate) fn removal(&self, bytes: &[u8]) -> Bytes {
        self.encode(0, 0, bytes)
    }

    fn encode(&self, place: u16, count: u16, bytes: &[u8]) -> Bytes {
        let (version, number, user) = match &self.place {
            // A user's name is short.
            MailPlace::Mailbox(user) => (VERSION, user.len() as u16, user.as_str()),
            MailPlace::Quarantine => (QUARANTINE_VERSION, QUARANTINE_KIND, ""),
        };
        let mut buffer = BytesMut::with_capacity(HEAD_BYTES + user.len() + bytes.len());
        buffer.put_u8(version);
        buffer.put_u64(self.id.number());
        buffer.put_u16(place);
        buffer.put_u16(count);
        buffer.put_u16(number);
        buffer.put_slice(user.as_bytes());
        buffer.put_slice(bytes);
        buffer.freeze()
    }
}

impl MailPiece {
    pub(crate) fn read(mut message: Bytes) -> Result<Self, EncodingError> {
        let version = match message.first() {
            None => return Err(EncodingError::Truncated),
            Some(&version) if matches!(version, VERSION | QUARANTINE_VERSION) => version,
            Some(&other) => return Err(EncodingError::Version(other.into())),
        };
        if message.len() < HEAD_BYTES {
            return Err(EncodingError::Truncated);
        }
        message.advance(1);
        let id = MessageId::from_number(message.get_u64());
        let (place, count) = (message.get_u16(), message.get_u16());
        let number = message.get_u16();
        let name = if version == QUARANTINE_VERSION {
            if number != QUARANTINE_KIND {
                return Err(EncodingError::Malformed);
            }
            MailName::in_quarantine(id)
        } else {
            MailName::in_mailbox(read_user(&mut message, number)?, id)
        };
        let has_entry = version == QUARANTINE_VERSION || message.is_empty();
        let is_removal = count == 0 && place == 0 && has_entry;
        if place >= count && !is_removal {
            return Err(EncodingError::Malformed);
        }
        Ok(Self {
            name,
            place,
            count,
            bytes: message,
        })
    }

    pub(super) const fn is_removal(&self) -> bool {
        self.count == 0
    }
}

/// Reads a user's name of this length, with which the message begins.
fn read_user(message: &mut Bytes, length: u16) -> Result<String, EncodingError> {
    let length = usize::from(length);
    if message.len() < length {
        return Err(EncodingError::Truncated);
    }
    let user = message.split_to(length);
    let user = std::str::from_utf8(&user).map_err(|_| EncodingError::Malformed)?;
    Ok(user.to_owned())
}

/// The meaning of messages of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MailEvent {
    Added(MailName, Bytes),
    /// With the bytes of the removal.
    Removed(MailName, Bytes),
}

/// Mail of which not all pieces have been read. The engine stores the pieces of a mail one after
/// another, so there is seldom more than one.
#[derive(Default)]
pub(super) struct MailAssembly {
    begun: HashMap<MailName, BegunMail>,
    /// The first message that this version cannot read.
    unreadable: Option<u64>,
}

struct BegunMail {
    /// The sequence of the first piece.
    first: u64,
    pieces: Vec<Bytes>,
}

impl MailAssembly {
    /// Takes the message of this sequence.
    pub(super) fn take(&mut self, sequence: u64, piece: MailPiece) -> Option<MailEvent> {
        let MailPiece {
            name,
            place,
            count,
            bytes,
        } = piece;
        if count == 0 {
            self.begun.remove(&name);
            return Some(MailEvent::Removed(name, bytes));
        }
        let mut begun = match self.begun.remove(&name) {
            Some(begun) if begun.pieces.len() == usize::from(place) => begun,
            _ if place == 0 => BegunMail {
                first: sequence,
                pieces: Vec::new(),
            },
            // The first pieces are gone: the removal of the mail follows.
            _ => return None,
        };
        begun.pieces.push(bytes);
        if begun.pieces.len() < usize::from(count) {
            self.begun.insert(name, begun);
            return None;
        }
        let mail = match begun.pieces.as_slice() {
            [one] => one.clone(),
            several => several.concat().into(),
        };
        Some(MailEvent::Added(name, mail))
    }

    /// A message cannot be read. A later version will read it again.
    pub(super) fn note_unreadable(&mut self, sequence: u64) {
        self.unreadable.get_or_insert(sequence);
    }

    /// The sequence up to which nothing is missing, if the messages up to `read` were taken.
    pub(super) fn complete_up_to(&self, read: u64) -> u64 {
        let begun = self.begun.values().map(|begun| begun.first);
        let first = begun.chain(self.unreadable).min();
        first.map_or(read, |first| first.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(user: &str, id: u64) -> MailName {
        MailName::in_mailbox(user, MessageId::from_number(id))
    }

    fn read(message: &Bytes) -> MailPiece {
        MailPiece::read(message.clone()).expect("well formed")
    }

    #[test]
    fn the_position_stays_before_what_is_not_complete() {
        let (one, two) = (name("anna", 1), name("bert", 2));
        let pieces = one.pieces(&Bytes::from_static(b"abcd"), 2).expect("short");
        assert_eq!(pieces.len(), 2);
        let mut assembly = MailAssembly::default();
        assert_eq!(assembly.complete_up_to(4), 4);
        assert_eq!(assembly.take(5, read(&pieces[0])), None);
        let other = two.pieces(&Bytes::new(), 2).expect("short");
        let added = MailEvent::Added(two.clone(), Bytes::new());
        assert_eq!(assembly.take(6, read(&other[0])), Some(added));
        assert_eq!(assembly.complete_up_to(6), 4);
        let added = MailEvent::Added(one.clone(), Bytes::from_static(b"abcd"));
        assert_eq!(assembly.take(7, read(&pieces[1])), Some(added));
        assert_eq!(assembly.complete_up_to(7), 7);
        assembly.note_unreadable(8);
        assembly.note_unreadable(9);
        assert_eq!(assembly.complete_up_to(9), 7);
    }

    #[test]
    fn a_removal_ends_a_mail_that_is_not_complete() {
        let one = name("anna", 1);
        let pieces = one.pieces(&Bytes::from_static(b"abcd"), 2).expect("short");
        let mut assembly = MailAssembly::default();
        assert_eq!(assembly.take(1, read(&pieces[1])), None, "no beginning");
        assert_eq!(assembly.take(2, read(&pieces[0])), None);
        let removed = MailEvent::Removed(one.clone(), Bytes::new());
        assert_eq!(assembly.take(4, read(&one.removal(b""))), Some(removed));
        assert_eq!(assembly.complete_up_to(4), 4);
    }

    #[test]
    fn mail_in_quarantine_is_no_mail_of_a_user_and_its_removal_may_have_bytes() {
        let one = MailName::in_quarantine(MessageId::from_number(1));
        let pieces = one.pieces(&Bytes::from_static(b"abcd"), 9).expect("short");
        assert_eq!(pieces[0][0], QUARANTINE_VERSION, "earlier versions stop");
        let mut assembly = MailAssembly::default();
        let added = MailEvent::Added(one.clone(), Bytes::from_static(b"abcd"));
        assert_eq!(assembly.take(1, read(&pieces[0])), Some(added));
        let removal = read(&one.removal(b"entry"));
        assert!(removal.is_removal());
        let removed = MailEvent::Removed(one, Bytes::from_static(b"entry"));
        assert_eq!(assembly.take(2, removal), Some(removed));
        let in_mailbox = MailPiece::read(name("anna", 1).removal(b"entry"));
        assert_eq!(in_mailbox, Err(EncodingError::Malformed));
    }

    #[test]
    fn a_mail_of_too_many_pieces_is_refused() {
        let mail = Bytes::from(vec![b'x'; 2 * PIECES_MAX]);
        assert!(name("anna", 1).pieces(&mail, 2).is_some());
        assert!(name("anna", 1).pieces(&mail, 1).is_none());
    }

    proptest! {
        #[test]
        fn a_mail_is_the_same_after_any_division(
            user in "[^\\x00]{1,20}",
            id: u64,
            is_quarantined: bool,
            mail in proptest::collection::vec(any::<u8>(), 0..200),
            bytes_max in 0_usize..250,
        ) {
            let mailbox = name(&user, id);
            let in_quarantine = MailName::in_quarantine(mailbox.id);
            let name = if is_quarantined { in_quarantine } else { mailbox };
            let mail = Bytes::from(mail);
            let pieces = name.pieces(&mail, bytes_max).expect("few");
            let mut assembly = MailAssembly::default();
            let taken = pieces.iter().zip(1..).map(|(piece, sequence)| {
                prop_assert!(!read(piece).is_removal());
                Ok(assembly.take(sequence, read(piece)))
            });
            let mut taken = taken.collect::<Result<Vec<_>, TestCaseError>>()?;
            prop_assert_eq!(taken.pop(), Some(Some(MailEvent::Added(name, mail))));
            prop_assert!(taken.into_iter().all(|event| event.is_none()));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = bytes;
            let _ = MailPiece::read(bytes.clone().into());
            for version in [VERSION, QUARANTINE_VERSION] {
                if let Some(first) = bytes.first_mut() {
                    *first = version;
                }
                if let Ok(piece) = MailPiece::read(bytes.clone().into()) {
                    let _ = MailAssembly::default().take(1, piece);
                }
            }
        }
    }
}
