//! Patterns that look at the same kind of text: those that can be screened, and the others.

use smallvec::SmallVec;

use super::state::State;
use crate::pattern::Pattern;
use crate::screen::{
    Automaton, Builder, End, Fragment, Owner, Run, Visitor, rare_run, required, required_run, widen,
};

/// Fragments of which more positions than this are busy on average are looked for apart: together
/// with others they would multiply the states, each of which would then be met seldom. That is a pass of
/// its own over every text.
const BUSY_TOGETHER_MAX: f32 = 0.3;

/// The patterns of a list, by their index in it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    screens: Vec<Automaton>,
    /// Patterns that run on every text, or on those with such a row of bytes.
    always: Vec<(u32, Option<Run>)>,
}

/// When a screen is worth its pass over a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worth {
    /// Fewer patterns run faster each for itself.
    pub(crate) patterns_min: usize,
    /// How seldom fragments must be met, as a power of 2: the longer the texts, the more seldom.
    pub(crate) bits_min: f32,
    /// How often bytes of a set are met that a fragment may hold any number of times: in short texts such
    /// a loop ends soon.
    pub(crate) loop_chance_max: f32,
}

impl Table {
    /// Sorts patterns; each comes with whether it must run on every text.
    pub(crate) fn new<'p>(
        patterns: impl ExactSizeIterator<Item = (&'p mut Pattern, bool)>,
        worth: Worth,
    ) -> Self {
        let (mut builder, mut busy) = (Builder::new(), Builder::new());
        let mut always = Vec::new();
        let is_screened = patterns.len() >= worth.patterns_min && screens_are_on();
        for (index, (pattern, must_run)) in (0u32..).zip(patterns) {
            let tree = widen(pattern.take_tree());
            let fragments = required(&tree, worth.bits_min, worth.loop_chance_max);
            let fragments = fragments.filter(|_| is_screened && !must_run);
            let Some(fragments) = fragments else {
                let run = required_run(&tree).filter(|_| !must_run && screens_are_on());
                always.push((index, run));
                continue;
            };
            // All fragments of a pattern are told of in their order.
            let is_busy = |fragment: &Fragment<'_>| fragment.busy > BUSY_TOGETHER_MAX;
            let builder = if !fragments.iter().any(is_busy) {
                &mut builder
            } else if let Some(run) = rare_run(&tree) {
                always.push((index, Some(run)));
                continue;
            } else {
                &mut busy
            };
            for fragment in &fragments {
                builder.add(index, fragment);
            }
        }
        let builders = [builder, busy].into_iter();
        let builders = builders.filter(|builder| !builder.is_empty());
        Self {
            screens: builders.map(Automaton::new).collect(),
            always,
        }
    }

    /// Patterns that are not screened.
    pub(crate) fn unscreened(&self) -> impl Iterator<Item = u32> {
        self.always.iter().map(|(index, _)| *index)
    }

    /// Patterns that are not screened and may match in this text.
    pub(crate) fn others(&self, text: &[u8]) -> impl Iterator<Item = u32> {
        let may_match = |run: &Option<Run>| run.is_none_or(|run| run.is_in(text));
        let others = self.always.iter().filter(move |(_, run)| may_match(run));
        others.map(|(index, _)| *index)
    }

    /// Tells of each place of a text where a screened pattern may match. False if the time was over
    /// before the end of the text.
    #[must_use]
    pub(crate) fn screen(
        &self,
        text: &[u8],
        state: &mut State,
        candidate: impl FnMut(&mut State, Owner, usize),
    ) -> bool {
        state.begin_text();
        let mut candidates = Candidates { state, candidate };
        let mut screens = self.screens.iter();
        screens.all(|screen| screen.search(text, &mut candidates).is_ok())
    }
}

/// What came of looking at several texts together.
pub(crate) enum Screened {
    /// Where screened patterns may match, text by text; a list for each screen.
    Ends(SmallVec<[Vec<End>; 2]>),
    /// Each text is to be screened by itself.
    OneByOne,
    /// The time was over before the end.
    OutOfTime,
}

impl Table {
    /// Looks at texts together, which takes less time than one by one where they are long enough.
    pub(crate) fn screen_together(&self, texts: &[&[u8]], state: &mut State) -> Screened {
        let bytes = texts.iter().map(|text| text.len()).sum();
        if !Automaton::is_worth(bytes) {
            return Screened::OneByOne;
        }
        let mut all = SmallVec::new();
        let mut goes_on = || !state.budget.is_spent(1);
        for screen in &self.screens {
            match screen.search_together(texts, &mut goes_on) {
                Ok(Some(ends)) => all.push(ends),
                Ok(None) => return Screened::OneByOne,
                Err(_stopped) => return Screened::OutOfTime,
            }
        }
        Screened::Ends(all)
    }
}

struct Candidates<'s, F> {
    state: &'s mut State,
    candidate: F,
}

impl<F: FnMut(&mut State, Owner, usize)> Visitor for Candidates<'_, F> {
    fn ended(&mut self, owner: Owner, end: usize) {
        (self.candidate)(self.state, owner, end);
    }

    fn goes_on(&mut self) -> bool {
        !self.state.budget.is_spent(1)
    }
}

#[cfg(not(test))]
fn screens_are_on() -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static SCREENS_ARE_ON: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

#[cfg(test)]
fn screens_are_on() -> bool {
    SCREENS_ARE_ON.get()
}

/// Makes tables in which every pattern runs on every text, for comparison.
#[cfg(test)]
pub(super) fn without_screens<T>(make: impl FnOnce() -> T) -> T {
    SCREENS_ARE_ON.set(false);
    let made = make();
    SCREENS_ARE_ON.set(true);
    made
}
