//! Interleaved search: several texts at once, a block of each in turn.
//!
//! A transition depends on the one before it: the processor waits for a row to come from the cache
//! before it knows where to look up the next byte. Transitions of different texts are independent,
//! so the processor can wait for four of them at a time. A long text is cut into chunks that are
//! searched like texts of their own.
//!
//! The first state of a chunk within a text is the last state of the chunk before it, which is not
//! known yet. But most literals fail within a few bytes: a search of the few bytes before a chunk,
//! its *lookback*, ends in the same state from whatever state it starts. The two states are
//! compared afterwards, and where they differ the chunk is searched again.
//!
//! Invariant: the matches are those of [`LazyDfa::search`], in the same order.

mod lanes;

use self::lanes::{BLOCK_BYTES, InterleavedSearch, LANES};
use super::transitions::TransitionTable;
use super::{IDLE, LazyDfa};
use crate::automaton::literal::{LiteralInfo, LiteralMatch, LiteralVisitor, SearchStopped};

/// The least length of a chunk; shorter texts do not keep the other lanes busy.
const CHUNK_BYTES_MIN: usize = if cfg!(test) { 24 } else { 256 };
/// The greatest length of a chunk; longer ones would leave the last of them to be searched alone.
const CHUNK_BYTES_MAX: usize = 4096;
/// The lookback of a chunk: in the messages of the SCAN benchmark 14 of 3,532 chunks need more than
/// 16.
const LOOKBACK_BYTES: usize = if cfg!(test) { 3 } else { 2 * BLOCK_BYTES };
/// Matches that are kept, 1.5 MB; mail has some hundreds.
const MATCHES_MAX: usize = if cfg!(test) { 4096 } else { 64 * 1024 };

/// Why an interleaved search ended early.
enum Interrupted {
    /// The caller stopped it.
    Stopped,
    /// There are too many matches to keep, or the table was replaced: each text is searched by
    /// itself.
    Fallback,
}

/// A text, or a part of it.
struct Chunk<'t> {
    text: u32,
    /// The offset of the chunk in the text.
    start: usize,
    lookback: &'t [u8],
    bytes: &'t [u8],
    /// The state before the lookback, later the state before the first byte.
    first: u32,
    /// The state after the last byte.
    last: u32,
    matches: Vec<LiteralMatch>,
}

impl LazyDfa {
    /// Whether an interleaved search of this many bytes in all is faster than single searches.
    pub(crate) fn batch_pays(bytes: usize) -> bool {
        bytes >= 2 * CHUNK_BYTES_MIN
    }

    /// All literals in these texts, in the order of the texts and then of their ends. `None` where
    /// each text has to be searched by itself: there are too many matches to keep, or the table was
    /// replaced.
    pub(crate) fn search_batch(
        &self,
        texts: &[&[u8]],
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<LiteralMatch>>, SearchStopped> {
        if self.nfa.is_anchored() {
            return self.search_anchored(texts, keep_going).map(Some);
        }
        let table = self.table.load();
        let mut chunks = chunks(&table, texts);
        let mut search = InterleavedSearch::new(self, &table, keep_going);
        let outcome = search
            .search_chunks(&mut chunks)
            .and_then(|()| search.join_chunks(&mut chunks));
        match outcome {
            Ok(()) => {
                // One allocation of the known length; a growing list would take many.
                let count = chunks.iter().map(|chunk| chunk.matches.len()).sum();
                let mut matches = Vec::with_capacity(count);
                matches.extend(chunks.iter().flat_map(|chunk| &chunk.matches));
                Ok(Some(matches))
            }
            Err(Interrupted::Fallback) => Ok(None),
            Err(Interrupted::Stopped) => Err(SearchStopped),
        }
    }

    /// Where all literals are anchored, a search ends within a few bytes of each text.
    fn search_anchored(
        &self,
        texts: &[&[u8]],
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<LiteralMatch>, SearchStopped> {
        let mut collector = LiteralCollector {
            text: 0,
            matches: Vec::new(),
            keep_going,
        };
        for (index, text) in (0..).zip(texts) {
            collector.text = index;
            self.search(text, &mut collector)?;
        }
        Ok(collector.matches)
    }
}

/// Collects the literals of several texts.
struct LiteralCollector<'v> {
    text: u32,
    matches: Vec<LiteralMatch>,
    keep_going: &'v mut dyn FnMut() -> bool,
}

impl LiteralVisitor for LiteralCollector<'_> {
    fn literal_matched(&mut self, literal: LiteralInfo, end: usize) {
        self.matches.push(LiteralMatch {
            text: self.text,
            end: end as u32,
            literal,
        });
    }

    fn keep_going(&mut self) -> bool {
        (self.keep_going)()
    }
}

/// Cuts texts into chunks, so that every lane has work.
fn chunks<'t>(table: &TransitionTable, texts: &[&'t [u8]]) -> Vec<Chunk<'t>> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let chunk_bytes = (bytes / LANES).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    let mut chunks = Vec::with_capacity(texts.len() + bytes / chunk_bytes);
    for (index, text) in (0..).zip(texts) {
        let count = text.len().div_ceil(chunk_bytes).max(1);
        let mut start = 0usize;
        for bytes in text.chunks(text.len().div_ceil(count).max(1)) {
            let lookback = start.saturating_sub(LOOKBACK_BYTES);
            let first = table.state_id(if lookback == 0 { 0 } else { IDLE });
            chunks.push(Chunk {
                text: index,
                start,
                lookback: text.get(lookback..start).unwrap_or_default(),
                bytes,
                first,
                last: first,
                matches: Vec::new(),
            });
            start += bytes.len();
        }
    }
    chunks
}
