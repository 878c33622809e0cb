//! [`Prefilter`]: the patterns of a list that can match a text, found by their required literals.

use super::byte_run::{ByteRun, rare_byte_run, required_byte_run};
use super::required::{RequiredLiteral, required_literals};
use crate::automaton::{LiteralInfo, LiteralSearch, LiteralVisitor, NfaBuilder, SearchStopped};
use crate::pattern::Pattern;
use crate::syntax::widen;

/// A literal with more active positions than this on average costs more than a search for a rare
/// byte run of its pattern.
const ACTIVE_MAX: f32 = 0.3;

/// Finds the patterns of a list that can match a text, in one pass over it.
///
/// Every pattern is identified by its index in the list.
#[derive(Debug, Default)]
pub struct Prefilter {
    search: Option<LiteralSearch>,
    /// Patterns without a required literal. They run on every text, or only on texts with this byte
    /// run.
    unfiltered: Vec<(u32, Option<ByteRun>)>,
}

/// The conditions under which a prefilter is worth its pass over a text.
#[derive(Debug, Clone, Copy)]
pub struct PrefilterThresholds {
    /// Fewer patterns are faster without a prefilter.
    pub patterns_min: usize,
    /// The required rarity of a literal: it occurs once in 2^`bits_min` bytes, or less often. The
    /// longer the texts, the rarer it must be.
    pub bits_min: f32,
    /// The greatest probability of a byte set that a literal may repeat without a bound: in short
    /// texts such a loop ends soon.
    pub loop_probability_max: f32,
}

impl Prefilter {
    /// Builds the prefilter of a list of patterns, each with whether it has to run on every text.
    /// Takes their trees.
    pub fn new<'p>(
        patterns: impl ExactSizeIterator<Item = (&'p mut Pattern, bool)>,
        thresholds: PrefilterThresholds,
    ) -> Self {
        let mut builder = NfaBuilder::new();
        let mut unfiltered = Vec::new();
        let pays = patterns.len() >= thresholds.patterns_min;
        for (index, (pattern, runs_always)) in (0u32..).zip(patterns) {
            let tree = widen(pattern.take_tree());
            if runs_always {
                unfiltered.push((index, None));
                continue;
            }
            let (bits_min, loop_max) = (thresholds.bits_min, thresholds.loop_probability_max);
            let literals = required_literals(&tree, bits_min, loop_max).filter(|_| pays);
            let Some(literals) = literals else {
                unfiltered.push((index, required_byte_run(&tree)));
                continue;
            };
            let is_busy = |literal: &RequiredLiteral<'_>| literal.active > ACTIVE_MAX;
            if literals.iter().any(is_busy)
                && let Some(run) = rare_byte_run(&tree)
            {
                unfiltered.push((index, Some(run)));
                continue;
            }
            for literal in &literals {
                builder.add(&literal.parts, literal.is_anchored, literal.info(index));
            }
        }
        Self {
            search: (!builder.is_empty()).then(|| LiteralSearch::new(&builder)),
            unfiltered,
        }
    }

    /// A prefilter that rules out none of the patterns.
    pub fn disabled(patterns: u32) -> Self {
        Self {
            search: None,
            unfiltered: (0..patterns).map(|index| (index, None)).collect(),
        }
    }

    /// The patterns without a required literal.
    pub fn unfiltered(&self) -> impl Iterator<Item = u32> {
        self.unfiltered.iter().map(|(index, _)| *index)
    }

    /// The patterns without a required literal that can match this text.
    pub fn unfiltered_candidates(&self, text: &[u8]) -> impl Iterator<Item = u32> {
        let may_match = |run: &Option<ByteRun>| run.is_none_or(|run| run.is_in(text));
        let candidates = self
            .unfiltered
            .iter()
            .filter(move |(_, run)| may_match(run));
        candidates.map(|(index, _)| *index)
    }

    /// Reports each required literal in a text, with the offset after it: its pattern is a
    /// candidate in the literal's window. `context` is passed to both functions; `keep_going` is
    /// called from time to time where literals begin, and stops the search with `false`.
    pub fn search<C>(
        &self,
        text: &[u8],
        context: &mut C,
        keep_going: impl FnMut(&mut C) -> bool,
        candidate: impl FnMut(&mut C, LiteralInfo, usize),
    ) -> Result<(), SearchStopped> {
        let mut visitor = Visitor {
            context,
            keep_going,
            candidate,
        };
        let search = self.search.as_ref();
        search.map_or(Ok(()), |search| search.search(text, &mut visitor))
    }
}

struct Visitor<'c, C, K, F> {
    context: &'c mut C,
    keep_going: K,
    candidate: F,
}

impl<C, K, F> LiteralVisitor for Visitor<'_, C, K, F>
where
    K: FnMut(&mut C) -> bool,
    F: FnMut(&mut C, LiteralInfo, usize),
{
    fn literal_matched(&mut self, literal: LiteralInfo, end: usize) {
        (self.candidate)(self.context, literal, end);
    }

    fn keep_going(&mut self) -> bool {
        (self.keep_going)(self.context)
    }
}
