//! `shortcircuit`: a rule that hits ends the scan.
//!
//! All rules run here in less time than the first of SpamAssassin's, so nothing is left out; what
//! rules would have run after the end is left out of the result instead. Rules run by priority,
//! those of one priority by what they look at, and a scan ends with the last of its kind.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::compile::RuleFacts;
use crate::language::options::ShortcircuitScores;

/// What a rule that ends the scan says of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortcircuit {
    /// What its own score says.
    On,
    Spam,
    Ham,
}

/// When a rule runs: by priority, then by what it looks at.
pub(crate) type Turn = (i32, u8);

/// How a scan ended early.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// The last turn that counts.
    pub(crate) turn: Turn,
    /// The rule that ended it; `None` where the sum did.
    pub(crate) rule: Option<Arc<str>>,
    /// What the message was called: `spam` or `ham`.
    pub(crate) class: &'static str,
    /// What the ending itself adds.
    pub(crate) score: f64,
}

/// Added where the rule's own score stands: the ending shows, and changes nothing.
const SCORE_OF_RULE: f64 = 0.0001;
/// Added where the sum ended it.
const SCORE_OF_SUM: f64 = 0.001;

/// Finds where the scan ends, given the facts of all rules that hit.
pub(crate) fn ending<'f>(
    hits: impl Iterator<Item = &'f RuleFacts>,
    scores: &ShortcircuitScores,
) -> Option<Ending> {
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
            return Some(Ending {
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
            return Some(Ending {
                turn: facts.turn,
                rule: None,
                class: if sum < 0.0 { "ham" } else { "spam" },
                score: SCORE_OF_SUM.copysign(sum),
            });
        }
    }
    None
}
