//! With which bytes the matches of a pattern open: a set for the first, one for the second and the third.
//!
//! One row of sets says little where alternatives differ: a match of `#[a-z]+|[a-z][.)]` begins with `#` or
//! a letter, and the second byte is a letter or a sign, which all words fit. So alternatives that are
//! worth it have a row of their own, and a match may begin where one of the rows fits.
//!
//! Invariant: where a match begins, a row fits.

use smallvec::SmallVec;

use super::frequency::chance_of;
use super::positions::{Classes, Position, Positions, in_order};
use crate::pattern::ByteSet;

/// Bytes that are looked at.
const PLACES: usize = 3;
/// Rows that are looked at one after the other.
const ROWS_MAX: usize = 3;
/// A row of its own must rule out this share of all places: looking at it costs as much as asking the
/// automaton at one place of fifty.
const ROW_CHANCE_MIN: f32 = 0.02;

/// The rows of a pattern.
#[derive(Debug)]
pub(crate) struct Openings(SmallVec<[Opening; 1]>);

/// The sets of a row: fewer, where a match may be shorter.
type Opening = SmallVec<[ByteSet; PLACES]>;

impl Openings {
    /// For a pattern of which only the first bytes are known.
    pub(crate) fn of(first: ByteSet) -> Self {
        let mut row = Opening::new();
        row.push(first);
        Self(SmallVec::from_iter([row]))
    }

    /// What begins at the start of a text.
    pub(super) fn at_start(positions: &Positions) -> Self {
        let classes = ChanceOfClasses::new(positions);
        let mut rows: SmallVec<[Row; ROWS_MAX + 1]> = SmallVec::new();
        for start in positions.begins() {
            rows.push(classes.row(positions, start));
            classes.merge(&mut rows);
        }
        let sets = |row: &Row| row.sets.iter().map(|set| positions.bytes_of(set)).collect();
        Self(rows.iter().map(sets).collect())
    }

    /// Leaves out matches that begin with other bytes.
    pub(crate) fn begin_with(mut self, first: &ByteSet) -> Self {
        for row in &mut self.0 {
            if let Some(set) = row.first_mut() {
                *set = set.intersection(first);
            }
        }
        self
    }

    /// The chance that a row fits at a place of a mail.
    pub(crate) fn chance(&self) -> f32 {
        let chance = |row: &Opening| row.iter().map(super::chance).product::<f32>();
        self.0.iter().map(chance).sum()
    }

    /// At which of the first [`ByteSet::BLOCK_BYTES`] places of a text a row fits: a bit for each.
    pub(crate) fn places(&self, text: &[u8]) -> u64 {
        let fits = |row: &Opening| {
            let mut places = u64::MAX;
            for (behind, set) in row.iter().enumerate() {
                places &= set.members(text.get(behind..).unwrap_or_default());
                if places == 0 {
                    break;
                }
            }
            places
        };
        self.0.iter().map(fits).fold(0, |all, row| all | row)
    }
}

/// A row, by classes of bytes.
struct Row {
    sets: SmallVec<[Classes; PLACES]>,
    chance: f32,
}

/// The chance that a byte of mail is of a class.
struct ChanceOfClasses([f32; 256]);

impl ChanceOfClasses {
    fn new(positions: &Positions) -> Self {
        let mut chances = [0.0; 256];
        for (byte, class) in (0..=u8::MAX).zip(positions.class_of) {
            chances[usize::from(class)] += chance_of(byte);
        }
        Self(chances)
    }

    /// The bytes that stand first where a text begins with a position.
    fn row(&self, positions: &Positions, start: Position) -> Row {
        let mut sets = SmallVec::new();
        let mut at = vec![start];
        while sets.len() < PLACES && !at.is_empty() {
            sets.push(positions.classes_of(&at));
            if !positions.owners(&at).is_empty() {
                break;
            }
            let follow = at.iter().flat_map(|&position| positions.follow(position));
            at = in_order(follow.collect());
        }
        self.with_chance(sets)
    }

    fn with_chance(&self, sets: SmallVec<[Classes; PLACES]>) -> Row {
        let chance = |set: &Classes| {
            let mut sum = 0.0;
            for (first, mut word) in (0..).step_by(64).zip(*set) {
                while word != 0 {
                    sum += self.0[first + word.trailing_zeros() as usize];
                    word &= word - 1;
                }
            }
            sum
        };
        Row {
            chance: sets.iter().map(chance).product(),
            sets,
        }
    }

    /// Makes one row of those that are not worth to be two, and of those that are the least worth it where
    /// they are too many.
    fn merge(&self, rows: &mut SmallVec<[Row; ROWS_MAX + 1]>) {
        while let Some((rise, one, other, both)) = self.least_rise(rows)
            && (rise < ROW_CHANCE_MIN || rows.len() > ROWS_MAX)
        {
            rows.swap_remove(other);
            rows[one] = both;
        }
    }

    /// The two rows that as one fit at the fewest places more.
    fn least_rise(&self, rows: &[Row]) -> Option<(f32, usize, usize, Row)> {
        let mut least: Option<(f32, usize, usize, Row)> = None;
        for (other, second) in rows.iter().enumerate() {
            for (one, first) in rows.iter().enumerate().take(other) {
                let sets = first.sets.iter().zip(&second.sets);
                let sets = sets.map(|(one, other)| std::array::from_fn(|at| one[at] | other[at]));
                let both = self.with_chance(sets.collect());
                let rise = both.chance - first.chance - second.chance;
                if least.as_ref().is_none_or(|(least, ..)| rise < *least) {
                    least = Some((rise, one, other, both));
                }
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::screen::Beginnings;

    fn openings(pattern: &str) -> Openings {
        let mut pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        Beginnings::of(pattern.take_tree()).unwrap().openings()
    }

    #[test]
    fn alternatives_that_differ_have_rows_of_their_own() {
        for (pattern, expected) in [
            ("/ab[cd]e/", &["[a] [b] [c-d]"][..]),
            ("/a(?:b|cd)/", &["[a] [b-c]"]),
            ("/x[a-z]*1/", &["[x] [1a-z]"]),
            ("/q|ab/", &["[a] [b]", "[q]"]),
            ("/#[a-z]+|[a-z][.)]/", &["[#] [a-z]", "[a-z] [).]"]),
            ("/#[a-z]+|=[.)]/", &["[#=] [).a-z]"]),
            ("/(?: |a)b[cd]/", &["[ a] [b] [c-d]"]),
        ] {
            let row = |row: &Opening| {
                let sets: Vec<_> = row.iter().map(|set| format!("{set:?}")).collect();
                sets.join(" ")
            };
            let mut rows: Vec<_> = openings(pattern).0.iter().map(row).collect();
            rows.sort();
            assert_eq!(rows, expected, "{pattern}");
        }
    }

    #[test]
    fn places_are_told_where_a_row_fits() {
        let openings = openings(r"/#[a-z]+|[a-z][.)]/");
        let text = b"#1 #a by b. by) c";
        assert_eq!(openings.places(text), 1 << 3 | 1 << 9 | 1 << 13);
        let only = openings.begin_with(&ByteSet::one(b'y'));
        assert_eq!(only.places(text), 1 << 13);
    }

    #[test]
    fn rows_are_never_too_many() {
        let differing = r"/ [a-z]|e\d|t[A-Z]|o[.,]|n[()]|i[<>]|[a-d]-|s:|r;/";
        assert!(openings(differing).0.len() <= ROWS_MAX);
    }
}
