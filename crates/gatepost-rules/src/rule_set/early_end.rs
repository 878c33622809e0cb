//! The early end of a scan by `shortcircuit`.
//!
//! All rules together take less time here than the first rule in SpamAssassin, so nothing is
//! skipped; the hits of rules that would have run after the end are removed from the result
//! instead. Rules run by priority, those of one priority by their kind, and a scan ends with the
//! last rule of that kind.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::compile::RuleFacts;
use crate::shortcircuit::{Shortcircuit, ShortcircuitEnding, ShortcircuitScores};

/// Added if the rule's own score counts: the ending is visible, and changes nothing.
const SCORE_OF_RULE: f64 = 0.0001;
/// Added if the sum of scores ended the scan.
const SCORE_OF_SUM: f64 = 0.001;

/// The end of the scan, given the data of all rules that hit.
pub(super) fn ending<'f>(
    hits: impl Iterator<Item = &'f RuleFacts>,
    scores: &ShortcircuitScores,
) -> Option<ShortcircuitEnding> {
    let mut hits: Vec<&RuleFacts> = hits.collect();
    if !scores.bounds_sum() && hits.iter().all(|facts| facts.shortcircuit.is_none()) {
        return None;
    }
    hits.sort_by(|one, other| {
        let by_turn = one.turn.cmp(&other.turn);
        by_turn.then(match (one.shortcircuit, other.shortcircuit) {
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            _ => Ordering::Equal,
        })
    });
    let mut sum = 0.0;
    for facts in hits {
        if let Some(kind) = facts.shortcircuit {
            let is_ham = match kind {
                Shortcircuit::On => facts.score < 0.0,
                Shortcircuit::Spam => false,
                Shortcircuit::Ham => true,
            };
            let score = match kind {
                Shortcircuit::On if is_ham => -SCORE_OF_RULE,
                Shortcircuit::On => SCORE_OF_RULE,
                Shortcircuit::Spam => scores.spam,
                Shortcircuit::Ham => scores.ham,
            };
            return Some(ShortcircuitEnding {
                turn: facts.turn,
                rule: Some(Arc::clone(&facts.name)),
                class: if is_ham { "ham" } else { "spam" },
                score,
            });
        }
        if !facts.is_sub_rule {
            sum += facts.score;
        }
        if scores.ends_at(sum) {
            return Some(ShortcircuitEnding {
                turn: facts.turn,
                rule: None,
                class: if sum < 0.0 { "ham" } else { "spam" },
                score: SCORE_OF_SUM.copysign(sum),
            });
        }
    }
    None
}
