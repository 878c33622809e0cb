//! Metas that nearly hit, for authors of rules.

use std::sync::Arc;

use crate::compile::Compiled;
use crate::scan::{NearMeta, ScanState};

/// A meta rule that one change would have made true.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// The meta's name.
    pub name: Arc<str>,
    /// The score that it would have added.
    pub score: f64,
    /// The rule on which it failed.
    pub other: Arc<str>,
    /// Whether that rule would have had to hit; otherwise it would have had to not hit.
    pub needs_hit: bool,
}

impl Compiled {
    /// The near misses of one scan.
    pub(super) fn near_misses(&self, state: &ScanState) -> Vec<NearMiss> {
        let near = self.program.metas.near(state).into_iter();
        near.filter_map(|near| self.near_miss(near)).collect()
    }

    fn near_miss(&self, near: NearMeta) -> Option<NearMiss> {
        let meta = self.facts.get(near.meta as usize)?;
        let other = self.facts.get(near.other as usize)?;
        // A sub-rule is part of another meta, which is listed if it nearly hit itself.
        (!meta.is_sub_rule).then(|| NearMiss {
            name: Arc::clone(&meta.name),
            score: meta.score,
            other: Arc::clone(&other.name),
            needs_hit: near.needs_hit,
        })
    }
}
