//! Reads pieces of texts, four at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::super::Automaton;
use super::super::table::{ENDS, NOWHERE, Table, UNKNOWN};
use super::{ENDS_MAX, End, Interrupted, Piece};

/// Texts that are read at a time: more of them need more registers than there are.
pub(super) const LANES: usize = 4;
/// Bytes of each text that are read without a look at how many are left.
pub(super) const BLOCK_BYTES: usize = 16;
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

/// One table, and what is to be done while reading by it.
pub(super) struct Reading<'r> {
    automaton: &'r Automaton,
    table: &'r Guard<Arc<Table>>,
    goes_on: &'r mut dyn FnMut() -> bool,
    ends_left: usize,
}

impl<'r> Reading<'r> {
    pub(super) fn new(
        automaton: &'r Automaton,
        table: &'r Guard<Arc<Table>>,
        goes_on: &'r mut dyn FnMut() -> bool,
    ) -> Self {
        Self {
            automaton,
            table,
            goes_on,
            ends_left: ENDS_MAX,
        }
    }

    /// Reads again what does not begin in the state that the piece before it leads to.
    pub(super) fn join_pieces(&mut self, pieces: &mut [Piece<'_>]) -> Result<(), Interrupted> {
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

    /// Reads each piece for itself.
    pub(super) fn read_pieces<'t>(&mut self, pieces: &mut [Piece<'t>]) -> Result<(), Interrupted> {
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
