//! The rules that must run: those that reports list, and all rules that these name.

use super::metas::Metas;
use super::prepare::PreparedTest;
use crate::language::RuleDefinitions;

/// By definition: whether the rule must run.
pub(super) fn find(
    definitions: &RuleDefinitions,
    prepared: &[Option<PreparedTest>],
    metas: &Metas,
    set: usize,
) -> Vec<bool> {
    let mut needed: Vec<bool> = definitions
        .rules
        .iter()
        .zip(prepared)
        .map(|(rule, prepared)| prepared.is_some() && !rule.is_sub_rule() && rule.score(set) != 0.0)
        .collect();
    // A meta follows all rules that it names, so one backward pass reaches all of them.
    for meta in metas.ordered.iter().rev() {
        if !needed[meta.definition] {
            continue;
        }
        for definition in meta.expression.names().copied().flatten() {
            needed[definition] |= prepared[definition].is_some();
        }
    }
    // Metas that could not be parsed or ordered do not run.
    let mut is_meta = vec![false; needed.len()];
    for meta in &metas.ordered {
        is_meta[meta.definition] = true;
    }
    for (definition, prepared) in prepared.iter().enumerate() {
        if matches!(prepared, Some(PreparedTest::Meta(_))) && !is_meta[definition] {
            needed[definition] = false;
        }
    }
    needed
}
