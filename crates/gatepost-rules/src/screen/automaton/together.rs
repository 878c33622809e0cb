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

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::table::{ENDS, NOWHERE, Table, UNKNOWN};
use super::{Automaton, MIDDLE, Stopped, Visitor};
use crate::screen::positions::Owner;

/// Texts that are read at a time: more of them need more registers than there are.
const LANES: usize = 4;
/// Bytes of each text that are read without a look at how many are left.
const BLOCK_BYTES: usize = 16;
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

/// Where reading has come to.
struct Cursor<'t> {
    bytes: &'t [u8],
    state: u32,
}

/// A piece that is being read, one of several.
struct Lane<'t> {
    piece: usize,
    cursor: Cursor<'t>,
    is_running_up: bool,
}

impl<'t> Lane<'t> {
    fn begin(number: usize, piece: &Piece<'t>) -> Self {
        let is_running_up = !piece.run_up.is_empty();
        Self {
            piece: number,
            cursor: Cursor {
                bytes: if is_running_up {
                    piece.run_up
                } else {
                    piece.bytes
                },
                state: piece.first,
            },
            is_running_up,
        }
    }
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
        let mut reading = Reading {
            automaton: self,
            table: &table,
            goes_on,
            ends_left: ENDS_MAX,
        };
        match reading.read(&mut pieces) {
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

struct Reading<'r> {
    automaton: &'r Automaton,
    table: &'r Guard<Arc<Table>>,
    goes_on: &'r mut dyn FnMut() -> bool,
    ends_left: usize,
}

impl Reading<'_> {
    fn read(&mut self, pieces: &mut [Piece<'_>]) -> Result<(), Interrupted> {
        self.read_pieces(pieces)?;
        for number in 1..pieces.len() {
            if let Some(([.., before], [piece, ..])) = pieces.split_at_mut_checked(number)
                && piece.start > 0
                && piece.first != before.last
            {
                self.read_again(before.last, piece)?;
            }
        }
        Ok(())
    }

    fn read_pieces<'t>(&mut self, pieces: &mut [Piece<'t>]) -> Result<(), Interrupted> {
        let mut lanes: SmallVec<[Lane<'t>; LANES]> = SmallVec::new();
        let mut next = 0;
        loop {
            while lanes.len() < LANES
                && let Some(piece) = pieces.get_mut(next)
            {
                lanes.push(Lane::begin(next, piece));
                next += 1;
            }
            match &mut lanes[..] {
                [] => return Ok(()),
                [a] => self.read_blocks([a], pieces)?,
                [a, b] => self.read_blocks([a, b], pieces)?,
                [a, b, c] => self.read_blocks([a, b, c], pieces)?,
                [a, b, c, d, ..] => self.read_blocks([a, b, c, d], pieces)?,
            }
            for lane in &mut lanes {
                if lane.cursor.bytes.len() < BLOCK_BYTES
                    && let Some(piece) = pieces.get_mut(lane.piece)
                {
                    self.read_rest(lane, piece)?;
                }
            }
            lanes.retain(|lane| !lane.cursor.bytes.is_empty());
        }
    }

    /// Reads of a lane what is less than a block.
    fn read_rest<'t>(
        &mut self,
        lane: &mut Lane<'t>,
        piece: &mut Piece<'t>,
    ) -> Result<(), Interrupted> {
        let cursor = &mut lane.cursor;
        self.read_alone(cursor, piece)?;
        if lane.is_running_up {
            lane.is_running_up = false;
            piece.first = cursor.state;
            // What ended in the run-up is told with the piece before.
            self.ends_left += piece.ends.len();
            piece.ends.clear();
            cursor.bytes = piece.bytes;
        } else {
            piece.last = cursor.state;
        }
        Ok(())
    }

    /// Reads all lanes side by side, up to where one of them has no whole block left.
    fn read_blocks<const N: usize>(
        &mut self,
        lanes: [&mut Lane<'_>; N],
        pieces: &mut [Piece<'_>],
    ) -> Result<(), Interrupted> {
        let class_of = &self.automaton.positions.class_of;
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
                let steps: [u32; N] = std::array::from_fn(|lane| {
                    let class = class_of[usize::from(block[lane][at])];
                    let step = rows.get(states[lane] as usize + usize::from(class));
                    step.map_or(UNKNOWN, |step| step.load(Ordering::Acquire))
                });
                // Marks are the highest bits: where none has one, none does together.
                states = if steps.iter().fold(0, |all, step| all | step) < NOWHERE {
                    steps
                } else {
                    self.arrive_together(&lanes, pieces, read + at, (states, steps))?
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

    /// Where one byte of each lane leads, of which one at least leads to more than a row.
    #[inline(never)]
    fn arrive_together<const N: usize>(
        &mut self,
        lanes: &[&mut Lane<'_>; N],
        pieces: &mut [Piece<'_>],
        read: usize,
        (states, mut steps): ([u32; N], [u32; N]),
    ) -> Result<[u32; N], Interrupted> {
        for ((lane, state), step) in lanes.iter().zip(states).zip(&mut steps) {
            if *step >= NOWHERE
                && let Some(piece) = pieces.get_mut(lane.piece)
            {
                let bytes = lane.cursor.bytes.get(read..).unwrap_or_default();
                let mut cursor = Cursor { bytes, state };
                self.step(&mut cursor, piece)?;
                *step = cursor.state;
            }
        }
        Ok(steps)
    }

    /// Reads to the end of what is left.
    fn read_alone(
        &mut self,
        cursor: &mut Cursor<'_>,
        piece: &mut Piece<'_>,
    ) -> Result<(), Interrupted> {
        let class_of = &self.automaton.positions.class_of;
        let mut bytes = cursor.bytes.iter();
        while let Some((class, to)) = self.table.read_on(class_of, &mut bytes, &mut cursor.state) {
            cursor.bytes = bytes.as_slice();
            self.arrive(class, to, cursor, piece)?;
        }
        cursor.bytes = &[];
        Ok(())
    }

    /// Reads one byte, if one is left.
    fn step(&mut self, cursor: &mut Cursor<'_>, piece: &mut Piece<'_>) -> Result<(), Interrupted> {
        let Some((&byte, rest)) = cursor.bytes.split_first() else {
            return Ok(());
        };
        let class = self.automaton.positions.class_of[usize::from(byte)];
        let to = self.table.step(cursor.state, class);
        cursor.bytes = rest;
        self.arrive(class, to, cursor, piece)
    }

    /// Goes on to where a byte of `class`, which was just read, leads from the cursor's state.
    fn arrive(
        &mut self,
        class: u8,
        mut to: u32,
        cursor: &mut Cursor<'_>,
        piece: &mut Piece<'_>,
    ) -> Result<(), Interrupted> {
        if to == UNKNOWN {
            if !(self.goes_on)() {
                return Err(Interrupted::Stopped);
            }
            let found = self.automaton.find_out(self.table, cursor.state, class);
            if !Arc::ptr_eq(&found.0, self.table) {
                return Err(Interrupted::OneByOne);
            }
            to = found.1;
        }
        cursor.state = to & !ENDS;
        if to & ENDS != 0 {
            let text = piece.text;
            let place = (piece.start + piece.bytes.len() - cursor.bytes.len()) as u32;
            let state = self.table.state(self.table.number(cursor.state));
            let owners = state.map_or(&[][..], |state| &state.owners);
            let left = self.ends_left.checked_sub(owners.len());
            self.ends_left = left.ok_or(Interrupted::OneByOne)?;
            let ends = owners.iter().map(|&owner| End { text, place, owner });
            piece.ends.extend(ends);
        }
        Ok(())
    }

    /// Reads a piece that does not begin in the state that its run-up led to.
    fn read_again(&mut self, first: u32, piece: &mut Piece<'_>) -> Result<(), Interrupted> {
        self.ends_left += piece.ends.len();
        piece.ends.clear();
        let mut cursor = Cursor {
            bytes: piece.bytes,
            state: first,
        };
        self.read_alone(&mut cursor, piece)?;
        piece.last = cursor.state;
        Ok(())
    }
}
