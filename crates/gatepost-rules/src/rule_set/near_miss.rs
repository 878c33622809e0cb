//! Near misses: metas that a change of one other rule would have made hit, for authors of rules.

use std::sync::Arc;

use crate::compile::CompiledRuleSet;
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

/// The near misses of one scan.
pub(super) fn near_misses(compiled: &CompiledRuleSet, state: &ScanState) -> Vec<NearMiss> {
    let near = compiled.program.metas.near(state).into_iter();
    near.filter_map(|near| near_miss(compiled, near)).collect()
}

fn near_miss(compiled: &CompiledRuleSet, near: NearMeta) -> Option<NearMiss> {
    let meta = compiled.facts.get(near.meta as usize)?;
    let other = compiled.facts.get(near.other as usize)?;
    // A sub-rule is part of another meta, which is listed if it nearly hit itself.
    (!meta.is_sub_rule).then(|| NearMiss {
        name: Arc::clone(&meta.name),
        score: meta.score,
        other: Arc::clone(&other.name),
        needs_hit: near.needs_hit,
    })
}
