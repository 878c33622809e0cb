//! Patterns of several rounds, such as `(?:your|my)? name: … {3}`.
//!
//! Each round holds a fragment, so a match that begins at one holds as many fragments as the pattern
//! has rounds at least. A place is tried only once so many were met in the text from it on; most
//! texts hold fewer.

use super::state::RuleId;
use crate::screen::Window;

/// Where a fragment ended, and how far before it a match may begin.
type Place = (usize, Option<Window>);

/// The fragments of patterns with rounds that still wait for others, of one text.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    text: u32,
    waiting: Vec<(RuleId, Vec<Place>)>,
}

impl Rounds {
    /// Takes a fragment of a pattern of so many rounds that ended at a place, later than all before
    /// it or at the same place as the last; gives those that can begin a match now.
    pub(super) fn add(
        &mut self,
        (rule, rounds): (RuleId, u32),
        text: u32,
        place: Place,
    ) -> impl Iterator<Item = Place> + use<> {
        if self.text != text {
            self.text = text;
            self.waiting.clear();
        }
        let known = self.waiting.iter().position(|(known, _)| *known == rule);
        let known = known.unwrap_or_else(|| {
            self.waiting.push((rule, Vec::new()));
            self.waiting.len() - 1
        });
        let ready = self.waiting.get_mut(known).map(|(_, waiting)| {
            waiting.push(place);
            let ready = count_ready(waiting, rounds as usize);
            waiting.drain(..ready).collect::<Vec<_>>()
        });
        ready.into_iter().flatten()
    }
}

/// How many of the first places have so many ends from theirs on.
fn count_ready(waiting: &[Place], rounds: usize) -> usize {
    let mut ends = 1;
    let mut later = waiting.iter().enumerate().rev().peekable();
    while let Some((index, (end, _))) = later.next() {
        if ends >= rounds {
            return index + 1;
        }
        let before = later.peek().map(|(_, (before, _))| before);
        ends += usize::from(before.is_some_and(|before| before != end));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Option<Window> = None;

    #[test]
    fn places_wait_for_as_many_ends_as_there_are_rounds() {
        let mut rounds = Rounds::default();
        let mut add = |text, end| -> Vec<usize> {
            let ready = rounds.add((7, 3), text, (end, WINDOW));
            ready.map(|(end, _)| end).collect()
        };
        assert_eq!(add(1, 5), []);
        assert_eq!(add(1, 5), []);
        assert_eq!(add(1, 9), []);
        assert_eq!(add(1, 12), [5, 5]);
        assert_eq!(add(1, 12), []);
        assert_eq!(add(1, 20), [9]);
        assert_eq!(add(2, 5), []);
        assert_eq!(add(2, 6), []);
        assert_eq!(add(2, 7), [5]);
    }
}
