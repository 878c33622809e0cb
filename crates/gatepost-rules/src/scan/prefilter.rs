//! Which rules can match at all: one pass over a view for the literals of all its rules.

use std::collections::HashMap;

use aho_corasick::automaton::{Automaton, OverlappingState};
use aho_corasick::nfa::contiguous;
use aho_corasick::{Anchored, Input, MatchKind};

use crate::pattern::Literals;

/// The literals of many patterns, looked for at once.
#[derive(Debug)]
pub(crate) struct Prefilter {
    automaton: contiguous::NFA,
    /// For each literal, whose it is.
    owners: Vec<Vec<u32>>,
}

impl Prefilter {
    /// A prefilter for patterns that are named by their index; `None` without any literal.
    pub(crate) fn new<'l>(literals: impl IntoIterator<Item = (u32, &'l Literals)>) -> Option<Self> {
        let mut by_text: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for (owner, literals) in literals {
            for text in &literals.0 {
                by_text.entry(text).or_default().push(owner);
            }
        }
        if by_text.is_empty() {
            return None;
        }
        let (texts, owners): (Vec<&[u8]>, Vec<Vec<u32>>) = by_text.into_iter().unzip();
        // Fails only beyond two thousand million states.
        let automaton = contiguous::Builder::new()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .build(&texts)
            .ok()?;
        Some(Self { automaton, owners })
    }

    /// Calls `found` with owner, start and end of each literal in `text`, ordered by end. It
    /// returns false to stop.
    pub(crate) fn search(&self, text: &[u8], mut found: impl FnMut(u32, usize, usize) -> bool) {
        let input = Input::new(text).anchored(Anchored::No);
        let mut state = OverlappingState::start();
        loop {
            // The automaton supports every kind of search that is asked for here.
            if self
                .automaton
                .try_find_overlapping(&input, &mut state)
                .is_err()
            {
                return;
            }
            let Some(literal) = state.get_match() else {
                return;
            };
            let owners = self.owners.get(literal.pattern().as_usize());
            for &owner in owners.map(Vec::as_slice).unwrap_or_default() {
                if !found(owner, literal.start(), literal.end()) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_literals_are_all_found_in_order_of_their_ends() {
        let one = Literals(vec![b"viagra".to_vec(), b"agr".to_vec()]);
        let two = Literals(vec![b"agra".to_vec()]);
        let prefilter = Prefilter::new([(1, &one), (2, &two)]).unwrap();
        let mut all = Vec::new();
        prefilter.search(b"xx VIAGRA", |owner, start, end| {
            all.push((end, start, owner));
            true
        });
        let mut ordered = all.clone();
        ordered.sort_by_key(|(end, ..)| *end);
        assert_eq!(all, ordered);
        all.sort_unstable();
        assert_eq!(all, [(8, 5, 1), (9, 3, 1), (9, 5, 2)]);
    }
}
