//! Decisions about topics, remembered for peers with many rules.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Access;

/// The number of topics that are cached for one set of rules; a power of two.
const CACHE_SLOTS: usize = 256;

/// Decisions by topic, without a lock: each slot is one number, the topic's keyed hash with the
/// known decisions in its low bits. An attacker cannot find two topics with the same hash, since
/// the key is random and never revealed; by chance it happens once in 2^58 comparisons.
pub(crate) struct DecisionCache {
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
}

/// In a slot, bits 0 to 2 state which accesses are known, bits 3 to 5 which of them are allowed.
const FLAG_BITS: u64 = 0x3f;

impl Default for DecisionCache {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            slots: (0..CACHE_SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl fmt::Debug for DecisionCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DecisionCache")
    }
}

impl DecisionCache {
    pub(crate) fn get_or_decide(
        &self,
        access: Access,
        topic: &str,
        decide: impl Fn() -> bool,
    ) -> bool {
        let hash = self.hasher.hash_one(topic);
        let tag = hash & !FLAG_BITS;
        // The slot is selected by bits of the tag itself, so two topics of one slot differ in it.
        let index = (hash >> 32) as usize % self.slots.len();
        let Some(slot) = self.slots.get(index) else {
            return decide();
        };
        let known = 1 << access as u64;
        let allowed = known << 3;
        // Relaxed: the number is complete in itself and orders no other memory.
        let seen = slot.load(Ordering::Relaxed);
        let flags = if seen & !FLAG_BITS == tag {
            seen & FLAG_BITS
        } else {
            0
        };
        if flags & known != 0 {
            return flags & allowed != 0;
        }
        let decision = decide();
        let flags = flags | known | if decision { allowed } else { 0 };
        slot.store(tag | flags, Ordering::Relaxed);
        decision
    }
}
