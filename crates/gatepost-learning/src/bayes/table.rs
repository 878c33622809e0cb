//! All tokens in memory, read without a lock.
//!
//! An open-addressing hash table of atomics, 20 bytes per slot. Any number of scans read it while
//! one learner writes, under its caller's lock. A scan may read some tokens before and some after a
//! message was learned, which is as harmless as either order.
//!
//! Invariants: the key of a slot never changes once it is set; a forgotten token keeps its slot,
//! with counts of zero, until the table is rebuilt. At least a quarter of the slots is free, so
//! every probe ends. A secret multiplier chooses the slots, so no sender can choose words that
//! collide.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::combine::TokenCounts;
use super::token::{TOKEN_BITS, Token};

/// Set in the key of a used slot, since a token of zero is possible.
const SET: u64 = 1 << TOKEN_BITS;
/// Set for a token whose slot differs from the store.
const CHANGED: u64 = 1 << (TOKEN_BITS + 1);

const SLOTS_MIN: usize = 1 << 10;

/// One token of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenEntry {
    pub(super) token: Token,
    pub(super) counts: TokenCounts,
    /// The time of its last use, in seconds since 1970.
    pub(super) time: u32,
}

#[derive(Debug)]
struct Slot {
    key: AtomicU64,
    /// Spam count in the upper half, ham count in the lower.
    counts: AtomicU64,
}

#[derive(Debug)]
pub(super) struct TokenTable {
    slots: Vec<Slot>,
    times: Vec<AtomicU32>,
    multiplier: u64,
    /// Slots whose key is set.
    taken: AtomicUsize,
    /// Tokens with counts.
    live: AtomicUsize,
}

impl TokenTable {
    pub(super) fn with_room_for(tokens: usize) -> Self {
        let slots = (tokens + tokens / 2).next_power_of_two().max(SLOTS_MIN);
        Self {
            slots: std::iter::repeat_with(|| Slot {
                key: AtomicU64::new(0),
                counts: AtomicU64::new(0),
            })
            .take(slots)
            .collect(),
            times: std::iter::repeat_with(|| AtomicU32::new(0))
                .take(slots)
                .collect(),
            multiplier: RandomState::new().hash_one(slots) | 1,
            taken: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
        }
    }

    /// Tokens with counts.
    pub(super) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.slots.len() * (size_of::<Slot>() + size_of::<AtomicU32>())
    }

    /// Whether one more token would leave too few slots free.
    pub(super) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.slots.len() / 4 * 3
    }

    pub(super) fn get(&self, token: Token) -> Option<TokenEntry> {
        self.find(token)
            .ok()
            .and_then(|index| self.entry(index))
            .filter(|entry| !entry.counts.is_zero())
    }

    /// Records that a token was used at `time`.
    pub(super) fn touch(&self, token: Token, time: u32) {
        if let Ok(index) = self.find(token)
            && let (Some(slot), Some(last)) = (self.slots.get(index), self.times.get(index))
            && last.fetch_max(time, Ordering::Relaxed) < time
        {
            slot.key.fetch_or(CHANGED, Ordering::Release);
        }
    }

    /// Sets the counts and time of a token. Only the learner may call this, and only if the table
    /// is not full or contains the token.
    pub(super) fn set(&self, entry: TokenEntry, changed: bool) {
        let (index, is_new) = match self.find(entry.token) {
            Ok(index) => (index, false),
            Err(_) if entry.counts.is_zero() => return,
            Err(Some(free)) => (free, true),
            Err(None) => return,
        };
        let (Some(slot), Some(time)) = (self.slots.get(index), self.times.get(index)) else {
            return;
        };
        let before = slot.counts.load(Ordering::Relaxed);
        slot.counts.store(pack(entry.counts), Ordering::Relaxed);
        time.store(entry.time, Ordering::Relaxed);
        let mark = if changed { CHANGED } else { 0 };
        // The key is written last: a thread that reads the key reads the counts.
        slot.key
            .fetch_or(entry.token.to_u64() | SET | mark, Ordering::Release);
        if is_new {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        match (before == 0, entry.counts.is_zero()) {
            (true, false) => drop(self.live.fetch_add(1, Ordering::Relaxed)),
            (false, true) => drop(self.live.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// All tokens with counts.
    pub(super) fn entries(&self) -> impl Iterator<Item = TokenEntry> {
        (0..self.slots.len())
            .filter_map(|index| self.entry(index))
            .filter(|entry| !entry.counts.is_zero())
    }

    /// All tokens that differ from the store, forgotten ones with counts of zero; from now on they
    /// count as stored.
    pub(super) fn take_changed(&self) -> Vec<TokenEntry> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| {
                slot.key.load(Ordering::Relaxed) & CHANGED != 0
                    && slot.key.fetch_and(!CHANGED, Ordering::AcqRel) & CHANGED != 0
            })
            .filter_map(|(index, _)| self.entry(index))
            .collect()
    }

    /// Records that a token differs from the store.
    pub(super) fn mark_changed(&self, token: Token) {
        if let Ok(index) = self.find(token)
            && let Some(slot) = self.slots.get(index)
        {
            slot.key.fetch_or(CHANGED, Ordering::Release);
        }
    }

    /// A table with the same tokens and room for `tokens`. Forgotten tokens are left out, except
    /// those that are still in the store.
    pub(super) fn rebuilt(&self, tokens: usize) -> Self {
        let table = Self::with_room_for(tokens.max(self.len()));
        for (index, slot) in self.slots.iter().enumerate() {
            let changed = slot.key.load(Ordering::Acquire) & CHANGED != 0;
            let Some(entry) = self.entry(index) else {
                continue;
            };
            if !entry.counts.is_zero() {
                table.set(entry, changed);
            } else if changed {
                // Its removal is not yet stored: a slot with counts, then without.
                let counts = TokenCounts { spam: 1, ham: 0 };
                table.set(TokenEntry { counts, ..entry }, true);
                table.set(entry, true);
            }
        }
        table
    }

    /// The slot of a token, or the free slot for it.
    fn find(&self, token: Token) -> Result<usize, Option<usize>> {
        let mask = self.slots.len() - 1;
        let shift = 64 - self.slots.len().trailing_zeros();
        let start = (token.to_u64().wrapping_mul(self.multiplier) >> shift) as usize;
        for step in 0..self.slots.len() {
            let index = (start + step) & mask;
            let Some(slot) = self.slots.get(index) else {
                return Err(None);
            };
            let key = slot.key.load(Ordering::Acquire);
            if key & SET == 0 {
                return Err(Some(index));
            }
            if Token::from_u64(key) == token {
                return Ok(index);
            }
        }
        Err(None)
    }

    fn entry(&self, index: usize) -> Option<TokenEntry> {
        let slot = self.slots.get(index)?;
        let key = slot.key.load(Ordering::Acquire);
        if key & SET == 0 {
            return None;
        }
        Some(TokenEntry {
            token: Token::from_u64(key),
            counts: unpack(slot.counts.load(Ordering::Relaxed)),
            time: self.times.get(index)?.load(Ordering::Relaxed),
        })
    }
}

fn pack(counts: TokenCounts) -> u64 {
    u64::from(counts.spam) << 32 | u64::from(counts.ham)
}

fn unpack(counts: u64) -> TokenCounts {
    TokenCounts {
        spam: (counts >> 32) as u32,
        ham: counts as u32,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(token: u64, spam: u32) -> TokenEntry {
        TokenEntry {
            token: Token::from_u64(token),
            counts: TokenCounts { spam, ham: 0 },
            time: 1,
        }
    }

    proptest! {
        #[test]
        fn the_table_has_the_same_content_as_a_map(
            changes in proptest::collection::vec((0u64..300, 0u32..3), 0..900),
        ) {
            let mut table = TokenTable::with_room_for(0);
            let mut map = HashMap::new();
            for (token, spam) in changes {
                if table.is_full() {
                    table = table.rebuilt(table.len() * 2);
                }
                table.set(entry(token, spam), true);
                map.insert(token, spam);
            }
            map.retain(|_, spam| *spam > 0);
            prop_assert_eq!(table.len(), map.len());
            for token in 0..300 {
                let found = table.get(Token::from_u64(token)).map(|entry| entry.counts.spam);
                prop_assert_eq!(found, map.get(&token).copied());
            }
            prop_assert_eq!(table.entries().count(), map.len());
        }
    }

    #[test]
    fn changes_are_taken_once() {
        let table = TokenTable::with_room_for(0);
        table.set(entry(0, 1), true);
        table.set(entry(1, 1), false);
        assert_eq!(table.take_changed(), [entry(0, 1)]);
        assert!(table.take_changed().is_empty());
        table.touch(Token::from_u64(1), 9);
        table.touch(Token::from_u64(2), 9);
        assert_eq!(
            table.take_changed(),
            [TokenEntry {
                time: 9,
                ..entry(1, 1)
            }]
        );
        table.set(entry(0, 0), true);
        let rebuilt = table.rebuilt(0);
        assert_eq!(rebuilt.len(), 1);
        assert_eq!(
            rebuilt.take_changed(),
            [entry(0, 0)],
            "its removal is still to be kept"
        );
    }

    #[test]
    fn readers_see_whole_tokens_while_one_learns() {
        let table = TokenTable::with_room_for(50_000);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut found = 0;
                while found < 50_000 {
                    found = (0..50_000u64)
                        .filter_map(|token| table.get(Token::from_u64(token)))
                        .inspect(|entry| assert_eq!(entry.counts.spam, 7))
                        .count();
                }
            });
            for token in 0..50_000 {
                table.set(entry(token, 7), true);
            }
            reader.join().expect("the reader saw only whole tokens");
        });
    }
}
