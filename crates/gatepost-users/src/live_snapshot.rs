//! The snapshot in force, the number of its generation, and the count of denials.
//!
//! An [`Identity`](crate::Identity) reads nothing else. The generation is stored after its
//! snapshot, so a reader that loads a number finds that snapshot or a later one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use gatepost_bans::Bans;

use crate::refusal_counters::RefusalCounters;
use crate::snapshot::Snapshot;

pub(crate) struct LiveSnapshot {
    snapshot: ArcSwap<Snapshot>,
    /// The generation of `snapshot`. A separate field, so that a check costs one load.
    generation: AtomicU64,
    pub(crate) refusals: RefusalCounters,
    /// The users who are shut out for a while, whatever the snapshot says.
    pub(crate) bans: Bans,
}

impl LiveSnapshot {
    /// Without users and rules.
    pub(crate) fn new(bans: Bans) -> Self {
        Self {
            snapshot: ArcSwap::default(),
            generation: AtomicU64::new(0),
            refusals: RefusalCounters::default(),
            bans,
        }
    }

    /// The snapshot, for a short look.
    pub(crate) fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The snapshot, for longer use.
    pub(crate) fn load_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    pub(crate) fn generation(&self) -> u64 {
        // Acquire pairs with the release in `replace`.
        self.generation.load(Ordering::Acquire)
    }

    /// Installs a snapshot of a higher generation. Callers are serialised by a lock.
    pub(crate) fn replace(&self, snapshot: Snapshot) {
        let generation = snapshot.generation;
        self.snapshot.store(Arc::new(snapshot));
        self.generation.store(generation, Ordering::Release);
    }
}
