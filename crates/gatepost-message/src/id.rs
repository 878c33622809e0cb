//! Message ids: one number that identifies a message in every crate, log line and reply.
//!
//! An id is the time of arrival in milliseconds since 2020-01-01 (44 bits) above a 20-bit
//! counter. Ids therefore sort by arrival, fit SQLite's 64-bit integer key, and serve as the `id:`
//! field of server-sent events. Nodes of a cluster would share the counter's bits: its upper bits
//! would name the node, and ids would still sort by arrival.
//!
//! Invariants:
//! - Ids never decrease, neither within a process nor across restarts, even if the clock does. The
//!   database stores the highest id with every commit, and [`MessageId::continue_after`] is called
//!   at each start. While the clock is behind the highest id, each new id is the successor of the
//!   previous one, and its time stands still.
//! - New ids are even. The odd numbers between them are places in an order of messages that is not
//!   the order of their ids: [`MessageId::place_after`].

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2020-01-01T00:00:00Z, in milliseconds since the Unix epoch.
const EPOCH_UNIX_MS: u64 = 1_577_836_800_000;
const COUNTER_BITS: u32 = 20;
/// About the year 2298: no clock produces a higher id, and accepting one would leave no ids for
/// later messages.
const HIGHEST_SANE: u64 = 1 << 63 >> 1;
/// Crockford's base 32, which omits letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_CHARACTERS: usize = 13;

static LAST: AtomicU64 = AtomicU64::new(0);

/// The id of one message. Ids sort by time of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u64);

impl MessageId {
    /// The next id: the current millisecond, or the even number after the last id if that is
    /// larger.
    pub fn next() -> Self {
        Self(next_after(&LAST, Self::floor_at(SystemTime::now())))
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

    /// A position directly after this id, which is not the id of any message.
    #[must_use]
    pub const fn place_after(self) -> Self {
        Self((self.0 + 1) | 1)
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
        Self(unix_ms.saturating_sub(EPOCH_UNIX_MS) << COUNTER_BITS)
    }

    /// The time of arrival, to the millisecond.
    pub fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis((self.0 >> COUNTER_BITS) + EPOCH_UNIX_MS)
    }
}

fn next_after(last: &AtomicU64, floor: MessageId) -> u64 {
    let next = |last: u64| floor.0.max((last | 1) + 1);
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
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_are_unique() {
        let ids: Vec<_> = (0..10_000).map(|_| MessageId::next()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn ids_never_go_back_with_the_clock() {
        let last = AtomicU64::new(0);
        let at = |seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            next_after(&last, MessageId::floor_at(time))
        };
        // 2026, then a start in 1970, then a minute later than the first.
        let ids = [1_780_000_000, 0, 1, 1_780_000_000, 1_780_000_060].map(at);
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        assert_eq!(
            MessageId(ids[4]).time(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_060)
        );
    }

    #[test]
    fn ids_continue_after_those_of_an_earlier_process() {
        let ahead = MessageId(MessageId::next().0 + (10 << COUNTER_BITS));
        assert!(MessageId::continue_after(ahead));
        assert!(MessageId::next() > ahead);
        assert!(
            !MessageId::continue_after(MessageId(u64::MAX)),
            "made by no clock"
        );
        assert!(MessageId::highest() < MessageId(u64::MAX));
    }

    #[test]
    fn text_returns_the_same_id_and_sorts_like_it() {
        let first = MessageId::next();
        let second = MessageId::next();
        assert_eq!(first.to_string().parse(), Ok(first));
        assert!(first.to_string() < second.to_string());
    }

    #[test]
    fn time_is_the_time_of_arrival() {
        let before = SystemTime::now() - Duration::from_millis(2);
        let time = MessageId::next().time();
        assert!(time >= before);
        assert!(MessageId::floor_at(before) < MessageId::next());
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            "short",
            "0000000000u00",
            "zzzzzzzzzzzzz",
            "é00000000000",
        ] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }
}
