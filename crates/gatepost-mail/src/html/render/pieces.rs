//! The pieces of a rendered text: the kind of each piece, in eight bytes per piece.
//!
//! A document may consist of tags only, so there may be one piece for every four bytes of it.

/// A piece of the text: its end and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextRun(usize);

const UNSEEN: usize = 0b01;
const WHITE_SPACE: usize = 0b10;
const KINDS: usize = UNSEEN | WHITE_SPACE;
/// The number of bits that contain the kind.
const KIND_BITS: u32 = 2;

impl TextRun {
    /// White space that an element represents.
    pub(super) const fn white_space(end: usize) -> Self {
        Self(end << KIND_BITS | WHITE_SPACE)
    }

    /// Text of the document.
    pub(super) const fn text(end: usize, is_unseen: bool) -> Self {
        Self(end << KIND_BITS | if is_unseen { UNSEEN } else { 0 })
    }

    pub(super) const fn end(self) -> usize {
        self.0 >> KIND_BITS
    }

    pub(super) const fn is_unseen(self) -> bool {
        self.0 & UNSEEN != 0
    }

    pub(super) const fn is_white_space(self) -> bool {
        self.0 & WHITE_SPACE != 0
    }

    const fn is_kind_of(self, other: Self) -> bool {
        self.0 & KINDS == other.0 & KINDS
    }
}

/// The pieces of a text, in order.
#[derive(Debug, Default)]
pub(super) struct TextRuns(Vec<TextRun>);

impl TextRuns {
    pub(super) fn iter(&self) -> impl Iterator<Item = TextRun> {
        self.0.iter().copied()
    }

    pub(super) fn last(&self) -> Option<TextRun> {
        self.0.last().copied()
    }

    /// The start of the last piece.
    pub(super) fn start_of_last(&self) -> usize {
        let before = self.0.len().checked_sub(2);
        before
            .and_then(|before| self.0.get(before))
            .map_or(0, |piece| piece.end())
    }

    /// Adds a piece. Adjacent pieces of white space are joined, since no caller needs the first one
    /// alone.
    pub(super) fn push(&mut self, piece: TextRun) {
        match self.0.last_mut() {
            Some(last) if last.is_white_space() && last.is_kind_of(piece) => *last = piece,
            _ => self.0.push(piece),
        }
    }

    /// Shortens the last piece, which is visible text.
    pub(super) fn end_last_at(&mut self, end: usize) {
        if let Some(last) = self.0.last_mut() {
            *last = TextRun::text(end, false);
        }
    }
}
