//! Message ids: one number that identifies a message in every crate, log line and reply.
//!
//! An id is composed of, from the highest bit:
//!
//! | bits | |
//! | --- | --- |
//! | 44 | the time of arrival in milliseconds since 2020-01-01 |
//! | 11 | a counter within the millisecond |
//! | 8 | the [`NodeNumber`] of the server that gave it |
//! | 1 | 0; 1 marks a place, which is not the id of any message |
//!
//! Ids therefore sort by arrival, fit SQLite's 64-bit integer key, and serve as the `id:` field of
//! server-sent events. More than 2,048 ids in a millisecond take those of the next one.
//!
//! Invariants:
//! - Ids never decrease, neither within a process nor across restarts, even if the clock does. The
//!   database stores the highest id with every commit, and [`MessageId::continue_after`] is called
//!   at each start. While the clock is behind the highest id, each new id is the successor of the
//!   previous one, and its time stands still.
//! - Servers with different numbers give different ids. Ids given by a release without numbers have
//!   a longer counter in their place, so the bits of an id do not identify its server.
//! - New ids are even. The odd numbers between them are places in an order of messages that is not
//!   the order of their ids: [`MessageId::place_after`].

mod node;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use node::NodeNumber;

/// 2020-01-01T00:00:00Z, in milliseconds since the Unix epoch.
const EPOCH_UNIX_MS: u64 = 1_577_836_800_000;
/// The bits below the time.
const TIME_SHIFT: u32 = 20;
/// The lowest bit, which marks a place.
const PLACE: u64 = 1;
/// The position of the node's number.
const NODE_SHIFT: u32 = 1;
/// From an id to the next one of the same node.
const STEP: u64 = 1 << (NODE_SHIFT + u8::BITS);
/// About the year 2159: no clock produces a higher id, and accepting one would leave no ids for
/// later messages.
const HIGHEST_SANE: u64 = 1 << 63 >> 1;
/// Crockford's base 32, which omits letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_CHARACTERS: usize = 13;

static LAST: AtomicU64 = AtomicU64::new(0);
/// The bits of this process's node.
static NODE: AtomicU64 = AtomicU64::new(node_bits(NodeNumber::FIRST));

/// The id of one message. Ids sort by time of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u64);

impl MessageId {
    /// The next id: the first of this node in the current millisecond, or the first one after the
    /// last id if that is larger.
    pub fn next() -> Self {
        let node = NODE.load(Ordering::Relaxed);
        Self(next_after(&LAST, node, Self::floor_at(SystemTime::now())))
    }

    /// Makes this process give the ids of `node`. Must be called before the first id is given.
    pub fn set_node(node: NodeNumber) {
        NODE.store(node_bits(node), Ordering::Relaxed);
    }

    /// The highest id so far, of this process or of an earlier one with the same database.
    pub fn highest() -> Self {
        Self(LAST.load(Ordering::Relaxed))
    }

    /// Makes all further ids higher than `highest`. An id that no clock can have produced is
    /// ignored. Returns whether `highest` was accepted.
    pub fn continue_after(highest: Self) -> bool {
        let is_sane = highest.0 < HIGHEST_SANE;
        if is_sane {
            LAST.fetch_max(highest.0, Ordering::Relaxed);
        }
        is_sane
    }

    /// The next position after this one, which is not the id of any message. It has the bits of the
    /// same node, so that places of different nodes differ too.
    #[must_use]
    pub const fn place_after(self) -> Self {
        if self.0 & PLACE == 0 {
            Self(self.0 | PLACE)
        } else {
            Self(self.0.saturating_add(STEP))
        }
    }

    /// The number of the node that gave this id, if it was given by a release with numbers.
    pub const fn node(self) -> u8 {
        (self.0 >> NODE_SHIFT) as u8
    }

    /// The id as stored; see [`MessageId::from_number`].
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The id for a number that [`MessageId::number`] returned.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The smallest id that a message arriving at `time` can have; for "since" queries.
    pub fn floor_at(time: SystemTime) -> Self {
        let unix_ms = time
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_millis() as u64;
        Self(unix_ms.saturating_sub(EPOCH_UNIX_MS) << TIME_SHIFT)
    }

    /// The time of arrival, to the millisecond.
    pub fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis((self.0 >> TIME_SHIFT) + EPOCH_UNIX_MS)
    }
}

const fn node_bits(node: NodeNumber) -> u64 {
    (node.get() as u64) << NODE_SHIFT
}

fn next_after(last: &AtomicU64, node: u64, floor: MessageId) -> u64 {
    // Neither operand of `max` has a node's bits.
    let next = |last: u64| floor.0.max((last | (STEP - 1)) + 1) | node;
    // Relaxed is sufficient: only the number itself must be unique, it orders no other memory.
    let before = last
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(next(last))
        })
        .unwrap_or_else(|last| last);
    next(before)
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; TEXT_CHARACTERS];
        let mut rest = self.0;
        for character in text.iter_mut().rev() {
            *character = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        // The alphabet is ASCII.
        formatter.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MessageId({self})")
    }
}

/// The text is not a message id, which has 13 characters of Crockford's base 32.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a message id (13 letters and digits, without i, l, o, u)")]
pub struct MalformedMessageId(String);

impl FromStr for MessageId {
    type Err = MalformedMessageId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || MalformedMessageId(text.chars().take(40).collect());
        if text.len() != TEXT_CHARACTERS {
            return Err(malformed());
        }
        let mut number: u64 = 0;
        for character in text.bytes() {
            let digit = ALPHABET
                .iter()
                .position(|&letter| letter == character.to_ascii_lowercase())
                .ok_or_else(malformed)?;
            number = number
                .checked_mul(32)
                .ok_or_else(malformed)?
                .checked_add(digit as u64)
                .ok_or_else(malformed)?;
        }
        Ok(Self(number))
    }
}

#[cfg(test)]
mod tests;
