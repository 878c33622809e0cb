//! Reading several texts at once, a block of each in turn.
//!
//! A step needs the step before it: the processor waits for a row to come from the cache before it knows
//! where the next byte is to be looked up. Steps of different texts need nothing of each other, so it can
//! wait for four of them at a time. A long text is cut into pieces that are read like texts of their own.
//!
//! A piece within a text would have to begin in the state that the piece before it leads to, which is not known
//! yet. But most fragments are lost within a few bytes: a run-up of some bytes before the piece leads to the same
//! state, whatever came before them. Where it did not, which is seen afterwards, the piece is read again.
//!
//! Invariant: what is told is what [`Automaton::search`] tells, in the same order.

mod reading;

use self::reading::{BLOCK_BYTES, LANES, Reading};
use super::table::Table;
use super::{Automaton, MIDDLE, Stopped, Visitor};
use crate::screen::positions::Owner;

/// A text is not cut into shorter pieces, and of a shorter one nobody waits for the others.
const PIECE_BYTES_MIN: usize = if cfg!(test) { 24 } else { 256 };
/// Longer pieces would leave the last of them to be read alone.
const PIECE_BYTES_MAX: usize = 4096;
/// Bytes before a piece that are read to find its first state: of SCAN's mails 14 of 3,532 pieces need more than 16.
const RUN_UP_BYTES: usize = if cfg!(test) { 3 } else { 2 * BLOCK_BYTES };

/// Ends that are kept, 1.5 MB: mail has some hundreds.
const ENDS_MAX: usize = if cfg!(test) { 4096 } else { 64 * 1024 };

/// Where a fragment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The text's number.
    pub(crate) text: u32,
    /// Behind the fragment's last byte.
    pub(crate) place: u32,
    pub(crate) owner: Owner,
}

/// Why reading ends before its time.
enum Interrupted {
    Stopped,
    /// The ends are too many to be kept, or states are named otherwise now.
    OneByOne,
}

/// A text, or a part of it.
struct Piece<'t> {
    text: u32,
    /// Where it begins in the text.
    start: usize,
    run_up: &'t [u8],
    bytes: &'t [u8],
    /// The state before the run-up, then the one before the first byte.
    first: u32,
    /// The state after the last byte.
    last: u32,
    ends: Vec<End>,
}

impl Automaton {
    /// Whether texts of so many bytes in all are worth being read together.
    pub(crate) fn is_worth(bytes: usize) -> bool {
        bytes >= 2 * PIECE_BYTES_MIN
    }

    /// All ends of fragments in texts, in the order of the texts and then of the ends. `None` where they
    /// are to be searched one by one: there are too many ends to be kept, or the table was replaced.
    pub(crate) fn search_together(
        &self,
        texts: &[&[u8]],
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<End>>, Stopped> {
        if self.positions.are_anchored() {
            return self.search_starts(texts, goes_on).map(Some);
        }
        let table = self.table.load();
        let mut pieces = pieces(&table, texts);
        let mut reading = Reading::new(self, &table, goes_on);
        let read = reading
            .read_pieces(&mut pieces)
            .and_then(|()| reading.join_pieces(&mut pieces));
        match read {
            Ok(()) => {
                // The sum is known, so one block of memory is taken; a growing list would take many.
                let count = pieces.iter().map(|piece| piece.ends.len()).sum();
                let mut ends = Vec::with_capacity(count);
                ends.extend(pieces.iter().flat_map(|piece| &piece.ends));
                Ok(Some(ends))
            }
            Err(Interrupted::OneByOne) => Ok(None),
            Err(Interrupted::Stopped) => Err(Stopped),
        }
    }

    /// Where all fragments stand at the start of a text, no text is read far.
    fn search_starts(
        &self,
        texts: &[&[u8]],
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<End>, Stopped> {
        let mut told = Told {
            text: 0,
            ends: Vec::new(),
            goes_on,
        };
        for (number, text) in (0..).zip(texts) {
            told.text = number;
            self.search(text, &mut told)?;
        }
        Ok(told.ends)
    }
}

/// Keeps what is told of texts.
struct Told<'v> {
    text: u32,
    ends: Vec<End>,
    goes_on: &'v mut dyn FnMut() -> bool,
}

impl Visitor for Told<'_> {
    fn ended(&mut self, owner: Owner, end: usize) {
        self.ends.push(End {
            text: self.text,
            place: end as u32,
            owner,
        });
    }

    fn goes_on(&mut self) -> bool {
        (self.goes_on)()
    }
}

/// Cuts texts so that there is something for each lane.
fn pieces<'t>(table: &Table, texts: &[&'t [u8]]) -> Vec<Piece<'t>> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let piece_bytes = (bytes / LANES).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
    let mut pieces = Vec::with_capacity(texts.len() + bytes / piece_bytes);
    for (number, text) in (0..).zip(texts) {
        let count = text.len().div_ceil(piece_bytes).max(1);
        let mut start = 0usize;
        for bytes in text.chunks(text.len().div_ceil(count).max(1)) {
            let run_up = start.saturating_sub(RUN_UP_BYTES);
            let first = table.named(if run_up == 0 { 0 } else { MIDDLE });
            pieces.push(Piece {
                text: number,
                start,
                run_up: text.get(run_up..start).unwrap_or_default(),
                bytes,
                first,
                last: first,
                ends: Vec::new(),
            });
            start += bytes.len();
        }
    }
    pieces
}
