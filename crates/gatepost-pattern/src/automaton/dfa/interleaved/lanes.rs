//! Searches chunks of texts, four at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::super::LazyDfa;
use super::super::transitions::{DEAD, MATCH, TransitionTable, UNKNOWN};
use super::{Chunk, Interrupted, MATCHES_MAX};
use crate::automaton::literal::LiteralMatch;

/// Chunks that are searched at a time: more of them need more registers than there are.
pub(super) const LANES: usize = 4;
/// Bytes of each chunk that are searched between two checks of its length.
pub(super) const BLOCK_BYTES: usize = 16;

/// The bytes left, and the state before them.
struct Cursor<'t> {
    bytes: &'t [u8],
    state: u32,
}

/// A chunk that is being searched beside others.
struct Lane<'t> {
    chunk: usize,
    cursor: Cursor<'t>,
    is_in_lookback: bool,
}

impl<'t> Lane<'t> {
    fn begin(index: usize, chunk: &Chunk<'t>) -> Self {
        let is_in_lookback = !chunk.lookback.is_empty();
        Self {
            chunk: index,
            cursor: Cursor {
                bytes: if is_in_lookback {
                    chunk.lookback
                } else {
                    chunk.bytes
                },
                state: chunk.first,
            },
            is_in_lookback,
        }
    }
}

/// A search of several chunks by one table.
pub(super) struct InterleavedSearch<'r> {
    dfa: &'r LazyDfa,
    table: &'r Guard<Arc<TransitionTable>>,
    keep_going: &'r mut dyn FnMut() -> bool,
    matches_left: usize,
}

impl<'r> InterleavedSearch<'r> {
    pub(super) fn new(
        dfa: &'r LazyDfa,
        table: &'r Guard<Arc<TransitionTable>>,
        keep_going: &'r mut dyn FnMut() -> bool,
    ) -> Self {
        Self {
            dfa,
            table,
            keep_going,
            matches_left: MATCHES_MAX,
        }
    }

    /// Searches the chunks again whose first state is not the last state of the chunk before.
    pub(super) fn join_chunks(&mut self, chunks: &mut [Chunk<'_>]) -> Result<(), Interrupted> {
        for index in 1..chunks.len() {
            if let Some(([.., before], [chunk, ..])) = chunks.split_at_mut_checked(index)
                && chunk.start > 0
                && chunk.first != before.last
            {
                self.search_again(before.last, chunk)?;
            }
        }
        Ok(())
    }

    /// Searches all chunks, each from the state that its lookback leads to.
    pub(super) fn search_chunks<'t>(
        &mut self,
        chunks: &mut [Chunk<'t>],
    ) -> Result<(), Interrupted> {
        let mut lanes: SmallVec<[Lane<'t>; LANES]> = SmallVec::new();
        let mut next = 0;
        loop {
            while lanes.len() < LANES
                && let Some(chunk) = chunks.get_mut(next)
            {
                lanes.push(Lane::begin(next, chunk));
                next += 1;
            }
            match &mut lanes[..] {
                [] => return Ok(()),
                [a] => self.search_blocks([a], chunks)?,
                [a, b] => self.search_blocks([a, b], chunks)?,
                [a, b, c] => self.search_blocks([a, b, c], chunks)?,
                [a, b, c, d, ..] => self.search_blocks([a, b, c, d], chunks)?,
            }
            for lane in &mut lanes {
                if lane.cursor.bytes.len() < BLOCK_BYTES
                    && let Some(chunk) = chunks.get_mut(lane.chunk)
                {
                    self.search_rest(lane, chunk)?;
                }
            }
            lanes.retain(|lane| !lane.cursor.bytes.is_empty());
        }
    }

    /// Searches the rest of a lane, which is shorter than a block.
    fn search_rest<'t>(
        &mut self,
        lane: &mut Lane<'t>,
        chunk: &mut Chunk<'t>,
    ) -> Result<(), Interrupted> {
        let cursor = &mut lane.cursor;
        self.search_alone(cursor, chunk)?;
        if lane.is_in_lookback {
            lane.is_in_lookback = false;
            chunk.first = cursor.state;
            // Literals that end in the lookback are reported with the chunk before.
            self.matches_left += chunk.matches.len();
            chunk.matches.clear();
            cursor.bytes = chunk.bytes;
        } else {
            chunk.last = cursor.state;
        }
        Ok(())
    }

    /// Searches all lanes side by side, until one of them has no full block left.
    fn search_blocks<const N: usize>(
        &mut self,
        lanes: [&mut Lane<'_>; N],
        chunks: &mut [Chunk<'_>],
    ) -> Result<(), Interrupted> {
        let class_of = &self.dfa.nfa.class_of;
        let rows = &*self.table.rows;
        let mut states: [u32; N] = std::array::from_fn(|lane| lanes[lane].cursor.state);
        let blocks: [&[[u8; BLOCK_BYTES]]; N] =
            std::array::from_fn(|lane| lanes[lane].cursor.bytes.as_chunks().0);
        let count = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
        let mut read = 0;
        while read < count * BLOCK_BYTES {
            let block: [&[u8; BLOCK_BYTES]; N] =
                std::array::from_fn(|lane| &blocks[lane][read / BLOCK_BYTES]);
            for at in 0..BLOCK_BYTES {
                let transitions: [u32; N] = std::array::from_fn(|lane| {
                    let class = class_of[usize::from(block[lane][at])];
                    let transition = rows.get(states[lane] as usize + usize::from(class));
                    transition.map_or(UNKNOWN, |transition| transition.load(Ordering::Acquire))
                });
                // Flags are the highest bits, so the union of unflagged transitions is below them.
                states = if transitions
                    .iter()
                    .fold(0, |all, transition| all | transition)
                    < DEAD
                {
                    transitions
                } else {
                    self.enter_lanes(&lanes, chunks, read + at, (states, transitions))?
                };
            }
            read += BLOCK_BYTES;
        }
        for (lane, state) in lanes.into_iter().zip(states) {
            let left = lane.cursor.bytes.get(read..);
            lane.cursor.bytes = left.unwrap_or_default();
            lane.cursor.state = state;
        }
        Ok(())
    }

    /// The states after one byte of each lane, where at least one transition has a flag.
    #[inline(never)]
    fn enter_lanes<const N: usize>(
        &mut self,
        lanes: &[&mut Lane<'_>; N],
        chunks: &mut [Chunk<'_>],
        read: usize,
        (states, mut transitions): ([u32; N], [u32; N]),
    ) -> Result<[u32; N], Interrupted> {
        for ((lane, state), transition) in lanes.iter().zip(states).zip(&mut transitions) {
            if *transition >= DEAD
                && let Some(chunk) = chunks.get_mut(lane.chunk)
            {
                let bytes = lane.cursor.bytes.get(read..).unwrap_or_default();
                let mut cursor = Cursor { bytes, state };
                self.step(&mut cursor, chunk)?;
                *transition = cursor.state;
            }
        }
        Ok(transitions)
    }

    /// Searches to the end of a cursor.
    fn search_alone(
        &mut self,
        cursor: &mut Cursor<'_>,
        chunk: &mut Chunk<'_>,
    ) -> Result<(), Interrupted> {
        let class_of = &self.dfa.nfa.class_of;
        let mut bytes = cursor.bytes.iter();
        while let Some((class, to)) = self.table.run(class_of, &mut bytes, &mut cursor.state) {
            cursor.bytes = bytes.as_slice();
            self.enter(class, to, cursor, chunk)?;
        }
        cursor.bytes = &[];
        Ok(())
    }

    /// Searches one byte, if one is left.
    fn step(&mut self, cursor: &mut Cursor<'_>, chunk: &mut Chunk<'_>) -> Result<(), Interrupted> {
        let Some((&byte, rest)) = cursor.bytes.split_first() else {
            return Ok(());
        };
        let class = self.dfa.nfa.class_of[usize::from(byte)];
        let to = self.table.transition(cursor.state, class);
        cursor.bytes = rest;
        self.enter(class, to, cursor, chunk)
    }

    /// Follows the transition of a byte of `class`, the last one before the cursor.
    fn enter(
        &mut self,
        class: u8,
        mut to: u32,
        cursor: &mut Cursor<'_>,
        chunk: &mut Chunk<'_>,
    ) -> Result<(), Interrupted> {
        if to == UNKNOWN {
            if !(self.keep_going)() {
                return Err(Interrupted::Stopped);
            }
            let computed = self.dfa.compute_transition(self.table, cursor.state, class);
            if !Arc::ptr_eq(&computed.0, self.table) {
                return Err(Interrupted::Fallback);
            }
            to = computed.1;
        }
        cursor.state = to & !MATCH;
        if to & MATCH != 0 {
            let text = chunk.text;
            let end = (chunk.start + chunk.bytes.len() - cursor.bytes.len()) as u32;
            let literals = self.table.literals(cursor.state);
            let left = self.matches_left.checked_sub(literals.len());
            self.matches_left = left.ok_or(Interrupted::Fallback)?;
            let matches = literals
                .iter()
                .map(|&literal| LiteralMatch { text, end, literal });
            chunk.matches.extend(matches);
        }
        Ok(())
    }

    /// Searches a chunk again whose lookback led to the wrong state.
    fn search_again(&mut self, first: u32, chunk: &mut Chunk<'_>) -> Result<(), Interrupted> {
        self.matches_left += chunk.matches.len();
        chunk.matches.clear();
        let mut cursor = Cursor {
            bytes: chunk.bytes,
            state: first,
        };
        self.search_alone(&mut cursor, chunk)?;
        chunk.last = cursor.state;
        Ok(())
    }
}
