//! Patterns with a counted repetition, such as `(?:(?:your|my)? name: …){3}`.
//!
//! Each round contains a required literal, so a match contains at least as many literals as the
//! pattern has rounds. An offset is verified only after that many literals from there on; most
//! texts contain fewer.

use gatepost_pattern::Window;

use crate::RuleId;

/// The end of a literal, and the window before it in which a match can start.
type LiteralEnd = (usize, Option<Window>);

/// The literals of repeated patterns in one text that still wait for others.
#[derive(Debug, Default)]
pub(super) struct PendingRepetitions {
    text: u32,
    waiting: Vec<(RuleId, Vec<LiteralEnd>)>,
}

impl PendingRepetitions {
    /// Adds a literal of a pattern with this many rounds; ends do not decrease. Returns the
    /// literals that can begin a match now.
    pub(super) fn add(
        &mut self,
        (rule, rounds): (RuleId, u32),
        text: u32,
        literal: LiteralEnd,
    ) -> impl Iterator<Item = LiteralEnd> + use<> {
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
            waiting.push(literal);
            let ready = count_ready(waiting, rounds as usize);
            waiting.drain(..ready).collect::<Vec<_>>()
        });
        ready.into_iter().flatten()
    }
}

/// The number of the first literals that enough others follow, themselves included.
fn count_ready(waiting: &[LiteralEnd], rounds: usize) -> usize {
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
    fn literals_wait_for_as_many_others_as_there_are_rounds() {
        let mut rounds = PendingRepetitions::default();
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
