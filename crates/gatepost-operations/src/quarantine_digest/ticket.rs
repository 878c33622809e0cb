//! Signed links to release one message to one recipient.
//!
//! A link needs no login: its ticket is the permission. The ticket names the message, the
//! recipient and the time at which it expires, and is signed with a key (HMAC-SHA-256) that only
//! the database of this server holds. So a ticket cannot be changed to name another message or
//! recipient, no other program can make one, and the server stores nothing for each.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use gatepost_message::MessageId;
use gatepost_store::{Store, StoreChange};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::OperationError;

/// The key's place among the records of the database.
const SPACE: &str = "release_ticket_key";
const KEY: &[u8] = b"hmac";
const KEY_BYTES: usize = 32;
/// The bytes of a number in a ticket.
const NUMBER_BYTES: usize = 8;
const SIGNATURE_BYTES: usize = 32;
/// The text that the key of links that stop digests is derived from.
const RECIPIENTS: &[u8] = b"digests";

/// The permission to release one message to one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTicket {
    /// The message.
    pub id: MessageId,
    /// The recipient, as an address.
    pub recipient: String,
    /// The time at which it expires, in seconds since 1970.
    pub until_unix_s: u64,
}

/// The reason why a ticket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusal {
    /// This server has not signed it.
    Forged,
    /// It has expired.
    Expired,
}

/// The key that signs tickets.
pub(super) struct TicketKey(hmac::Key);

impl TicketKey {
    /// The key of this database; `None` if no ticket was ever signed.
    pub(super) fn read(store: &Store) -> Result<Option<Self>, OperationError> {
        let key = store.record(SPACE, KEY)?;
        Ok(key.map(|key| Self::of(&key)))
    }

    /// The key of this database, which is made if there is none yet.
    pub(super) fn read_or_make(store: &Store) -> Result<Self, OperationError> {
        if let Some(key) = Self::read(store)? {
            return Ok(key);
        }
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| {
            OperationError::Failed("the system provides no random numbers".to_owned())
        })?;
        // A digest is committed after the key, so no link is signed by a lost key.
        store.submit([StoreChange::PutRecord {
            space: SPACE,
            key: KEY.into(),
            value: Bytes::copy_from_slice(&key),
        }])?;
        Ok(Self::of(&key))
    }

    /// The key of links that stop digests. No ticket is as short as the text that it is made from.
    fn of_recipients(&self) -> Self {
        Self::of(hmac::sign(&self.0, RECIPIENTS).as_ref())
    }

    /// The permission to stop the digests to a recipient, as text for a URL.
    pub(super) fn sign_recipient(&self, recipient: &[u8]) -> String {
        let signature = hmac::sign(&self.of_recipients().0, recipient);
        BASE64.encode([recipient, signature.as_ref()].concat())
    }

    /// The recipient that was signed as this text.
    pub(super) fn verify_recipient(&self, text: &str) -> Option<Vec<u8>> {
        self.of_recipients().content(text)
    }

    fn of(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The ticket as text for a URL.
    pub(super) fn sign(&self, ticket: &ReleaseTicket) -> String {
        let mut text = ticket.id.number().to_be_bytes().to_vec();
        text.extend_from_slice(&ticket.until_unix_s.to_be_bytes());
        text.extend_from_slice(ticket.recipient.as_bytes());
        let signature = hmac::sign(&self.0, &text);
        text.extend_from_slice(signature.as_ref());
        BASE64.encode(text)
    }

    /// The ticket that was signed as this text.
    pub(super) fn verify(
        &self,
        text: &str,
        now: SystemTime,
    ) -> Result<ReleaseTicket, TicketRefusal> {
        let ticket = self.signed(text).ok_or(TicketRefusal::Forged)?;
        let expires = UNIX_EPOCH + Duration::from_secs(ticket.until_unix_s);
        if expires < now {
            return Err(TicketRefusal::Expired);
        }
        Ok(ticket)
    }

    /// The bytes that were signed as this text.
    fn content(&self, text: &str) -> Option<Vec<u8>> {
        let mut bytes = BASE64.decode(text).ok()?;
        let signature = bytes.split_off(bytes.len().checked_sub(SIGNATURE_BYTES)?);
        hmac::verify(&self.0, &bytes, &signature).ok()?;
        Some(bytes)
    }

    fn signed(&self, text: &str) -> Option<ReleaseTicket> {
        let content = self.content(text)?;
        let (id, content) = content.split_first_chunk::<NUMBER_BYTES>()?;
        let (until, recipient) = content.split_first_chunk::<NUMBER_BYTES>()?;
        Some(ReleaseTicket {
            id: MessageId::from_number(u64::from_be_bytes(*id)),
            recipient: String::from_utf8(recipient.to_vec()).ok()?,
            until_unix_s: u64::from_be_bytes(*until),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> ReleaseTicket {
        ReleaseTicket {
            id: MessageId::from_number(7 << 20),
            recipient: "anna@example.org".to_owned(),
            until_unix_s: 1_000,
        }
    }

    #[test]
    fn a_ticket_is_valid_until_it_expires_and_for_its_key_only() {
        let key = TicketKey::of(&[1; KEY_BYTES]);
        let text = key.sign(&ticket());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(key.verify(&text, at(1_000)), Ok(ticket()));
        assert_eq!(key.verify(&text, at(1_001)), Err(TicketRefusal::Expired));
        let other = TicketKey::of(&[2; KEY_BYTES]);
        assert_eq!(other.verify(&text, at(0)), Err(TicketRefusal::Forged));
    }

    #[test]
    fn no_byte_of_a_ticket_can_be_changed() {
        let key = TicketKey::of(&[1; KEY_BYTES]);
        let text = key.sign(&ticket());
        let bytes = BASE64.decode(&text).expect("base64");
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let changed = BASE64.encode(changed);
            assert_eq!(key.verify(&changed, UNIX_EPOCH), Err(TicketRefusal::Forged));
        }
        for end in 0..text.len() {
            assert_eq!(
                key.verify(&text[..end], UNIX_EPOCH),
                Err(TicketRefusal::Forged)
            );
        }
    }

    #[test]
    fn a_ticket_of_one_kind_is_not_valid_as_the_other() {
        let key = TicketKey::of(&[1; KEY_BYTES]);
        let recipient = b"address anna@example.org";
        let text = key.sign_recipient(recipient);
        assert_eq!(key.verify_recipient(&text).as_deref(), Some(&recipient[..]));
        assert_eq!(key.verify(&text, UNIX_EPOCH), Err(TicketRefusal::Forged));
        assert_eq!(key.verify_recipient(&key.sign(&ticket())), None);
        let other = TicketKey::of(&[2; KEY_BYTES]);
        assert_eq!(other.verify_recipient(&text), None);
    }

    #[tokio::test]
    async fn the_key_of_a_database_stays() {
        let store = Store::in_memory().expect("a store");
        assert!(TicketKey::read(&store).expect("read").is_none());
        let text = TicketKey::read_or_make(&store)
            .expect("a key")
            .sign(&ticket());
        store.flush().await;
        let key = TicketKey::read(&store).expect("read").expect("a key");
        assert_eq!(key.verify(&text, UNIX_EPOCH), Ok(ticket()));
    }
}
