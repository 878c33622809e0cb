//! Regular expressions as Perl means them.
//!
//! SpamAssassin's rules are written for Perl. Each is read into a tree once ([`parser`]), from
//! which [`screen`](crate::screen) takes what it cannot match without. Searches are made by PCRE2
//! ([`backtracking`]), which backtracks as Perl does and compiles to machine code. Where a text is
//! so long that backtracking could take its square, an automaton searches instead, if it provably
//! finds the same ([`automaton`]). Both are compiled when first needed: a folder has three thousand
//! patterns, of which a message meets some hundred; until then only a pattern's text is kept.

mod automaton;
mod backtracking;
mod byte_set;
mod check;
mod class;
mod delimited;
mod lanes;
mod lead;
mod node;
mod parser;
mod pcre;
mod plain;
mod sharing;
mod template;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use automaton::Automaton;
pub(crate) use byte_set::ByteSet;
pub use check::check_any_pattern;
use lead::Lead;
pub(crate) use node::{Assertion, Greed, Node};
pub(crate) use parser::Modifiers;
use pcre::Error;
pub(crate) use pcre::{Code, Use};
pub(crate) use template::{Captured, Groups, Template};

/// A pattern of so many bytes takes milliseconds to compile.
const LARGE_PATTERN_BYTES: usize = 32 * 1024;
/// Texts from this length on are searched in linear time, bytes.
pub(crate) const LONG_TEXT_BYTES: usize = 16 * 1024;
/// Where only backtracking is possible, a long text is searched in slices of so many bytes, and for
/// matches that are no longer than a slice.
const SLICE_BYTES: usize = LONG_TEXT_BYTES;
/// Steps of backtracking that one search takes in all, some tenths of a second. What needs more
/// goes on place by place, and the message's time is asked for.
const SEARCH_STEPS_MAX: usize = 100_000_000;
/// Steps that one place takes before the time is asked for.
const PLACE_STEPS_MAX: u32 = 20_000;
/// Steps that one place may take at all, a few milliseconds; then the pattern is at its limit.
const STEPS_MAX: u32 = 500_000;
/// What it costs to ask whether a match may begin at a place, and to try the pattern there, beside the
/// same for a byte that PCRE2 searches: about a third of a nanosecond is one.
const PLACE_ASKED_COST: usize = 24;
const PLACE_TRIED_COST: usize = 180;
const BYTE_SEARCHED_COST: usize = 10;
/// What may be spent on places before that is compared.
const PLACES_COST_MIN: usize = 1500;
/// What a place that was tried for itself counts as, in bytes that were searched.
const PLACE_BYTES: usize = 4 * 1024;
/// The same for a place at which the pattern backtracks a lot: the clock is read for each.
const HEAVY_PLACE_BYTES: usize = 256 * 1024;

/// A pattern of a rule.
#[derive(Debug)]
pub(crate) struct Pattern {
    body: Box<[u8]>,
    modifiers: Modifiers,
    /// Use the automaton for all texts.
    prefers_automaton: bool,
    /// Made for one message: what only pays for many is left out.
    is_for_once: bool,
    /// Kept until [`Pattern::take_tree`].
    tree: Option<Box<Node>>,
    /// Searches.
    code: OnceLock<Result<Code, Box<str>>>,
    /// Matches at one place.
    anchored: OnceLock<Result<Code, Box<str>>>,
    /// With what matches begin.
    lead: OnceLock<Box<Lead>>,
    /// Whether searches do without the lead: matches may begin nearly anywhere.
    leads_nowhere: AtomicBool,
    /// For long texts; `None` inside if there is no automaton that finds the same.
    automaton: OnceLock<Option<Box<Automaton>>>,
}

/// A search gave up before it knew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern ran into its limit: {0}")]
pub(crate) struct LimitReached(pub(crate) String);

/// Where the first match begins and ends.
pub(crate) type Found = Option<(usize, usize)>;

impl Pattern {
    /// Reads a pattern with delimiters and modifiers, such as `/viagra/i`.
    #[cfg(test)]
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (body, modifiers) = delimited::split(text)?;
        Self::parse_bare(body, modifiers)
    }

    /// Reads a pattern without delimiters.
    pub(crate) fn parse_bare(body: &[u8], modifiers: Modifiers) -> Result<Self, String> {
        let tree = parser::parse(body, modifiers).map_err(|error| error.to_string())?;
        Ok(Self {
            body: body.into(),
            modifiers,
            prefers_automaton: false,
            is_for_once: false,
            tree: Some(Box::new(tree)),
            code: OnceLock::new(),
            anchored: OnceLock::new(),
            lead: OnceLock::new(),
            // `\G` stands where a search begins, and not at each place.
            leads_nowhere: AtomicBool::new(memchr::memmem::find(body, b"\\G").is_some()),
            automaton: OnceLock::new(),
        })
    }

    /// Splits a pattern with delimiters into its body and modifiers.
    pub(crate) fn split(text: &[u8]) -> Result<(&[u8], Modifiers), String> {
        delimited::split(text)
    }

    /// The pattern as a tree, which is large and kept no longer.
    pub(crate) fn take_tree(&mut self) -> Node {
        self.tree.take().map_or_else(|| self.read(), |tree| *tree)
    }

    /// Searches all texts with the automaton, which tries all alternatives at once and not at each
    /// place anew: better for what runs on every text.
    pub(crate) fn prefer_automaton(&mut self) {
        self.prefers_automaton = true;
    }

    /// Says that few texts are searched before the pattern is dropped.
    pub(crate) fn for_once(self) -> Self {
        Self {
            is_for_once: true,
            ..self
        }
    }

    /// The least number of bytes that a match has; asked before the tree is taken, or slow.
    pub(crate) fn min_len(&self) -> usize {
        self.tree().min_len()
    }

    /// The pattern as a tree.
    fn tree(&self) -> Cow<'_, Node> {
        match &self.tree {
            Some(tree) => Cow::Borrowed(tree),
            None => Cow::Owned(self.read()),
        }
    }

    /// Reads the pattern again; it could be read before.
    fn read(&self) -> Node {
        parser::parse(&self.body, self.modifiers).unwrap_or(Node::Empty)
    }

    /// Compiles now what would be compiled at the first search; an error says that the pattern
    /// cannot run.
    pub(crate) fn compile(&self) -> Result<(), String> {
        self.code()
            .map(|_| ())
            .map_err(|LimitReached(reason)| reason)
    }

    /// Compiles a pattern now for which the first message that needs it would wait noticeably.
    pub(crate) fn compile_if_large(&self) {
        if self.body.len() >= LARGE_PATTERN_BYTES {
            // What is wrong with it is told where it is needed.
            let _ = self.anchored();
        }
    }

    fn code(&self) -> Result<&Code, LimitReached> {
        self.code
            .get_or_init(|| backtracking::compile(&self.read(), Use::Search).map_err(Into::into))
            .as_ref()
            .map_err(|reason| LimitReached(reason.to_string()))
    }

    fn automaton(&self) -> Option<&Automaton> {
        let make = || Automaton::of(&self.read()).map(Box::new);
        self.automaton.get_or_init(make).as_deref()
    }

    /// The first match that begins at or after `start`. `go_on` is asked now and then in long
    /// searches, with the bytes that were searched; with false the search gives up.
    pub(crate) fn find(
        &self,
        text: &[u8],
        start: usize,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Found, LimitReached> {
        let is_long = text.len() > LONG_TEXT_BYTES;
        if self.is_for_once && !is_long {
            return self.search(text, start, &mut go_on);
        }
        let lead = self.lead();
        if lead.misses(text, start) {
            return Ok(None);
        }
        if (is_long || self.prefers_automaton)
            && let Some(automaton) = self.automaton()
        {
            return Ok(automaton.find(text, start));
        }
        if !is_long {
            return self.search_by_lead(lead, text, start, &mut go_on);
        }
        for from in (start..=text.len()).step_by(SLICE_BYTES) {
            let end = text.len().min(from.saturating_add(2 * SLICE_BYTES));
            let part = text.get(..end).unwrap_or(text);
            let found = self.search(part, from, &mut go_on)?;
            match found {
                Some((_, to)) if to == end && end < text.len() => {
                    return Err(LimitReached("the match is too long".to_owned()));
                }
                Some(_) => return Ok(found),
                None if end == text.len() => break,
                None if !go_on(2 * SLICE_BYTES) => {
                    return Err(LimitReached::time());
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// The first match, by trying the places at which one may begin, as long as they are few.
    fn search_by_lead(
        &self,
        lead: &Lead,
        text: &[u8],
        start: usize,
        go_on: &mut impl FnMut(usize) -> bool,
    ) -> Result<Found, LimitReached> {
        if !lead.tells() || self.leads_nowhere.load(Ordering::Relaxed) {
            return self.search(text, start, go_on);
        }
        let mut places = lead.places(text);
        let (mut at, mut cost) = (start, 0);
        while let Some(place) = places.skip(at, text.len()) {
            if let Some(plain) = &lead.plain {
                if let Some(end) = plain.end_at(text, place) {
                    return Ok(Some((place, end)));
                }
            } else {
                if cost > PLACES_COST_MIN + (place - start) * BYTE_SEARCHED_COST {
                    self.leads_nowhere.store(true, Ordering::Relaxed);
                    return self.search(text, place, go_on);
                }
                cost += PLACE_ASKED_COST;
                if places.may_begin(place) {
                    cost += PLACE_TRIED_COST;
                    let found = try_place(self.anchored()?, text, place, go_on)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
            at = place + 1;
        }
        Ok(None)
    }

    /// The first match, by one search if that takes few steps, and otherwise place by place: where
    /// places take many steps, their sum would have no bound.
    fn search(
        &self,
        text: &[u8],
        start: usize,
        go_on: &mut impl FnMut(usize) -> bool,
    ) -> Result<Found, LimitReached> {
        let places = text.len().saturating_sub(start) + 1;
        let steps_max = u32::try_from(SEARCH_STEPS_MAX / places).unwrap_or(STEPS_MAX);
        match self.code()?.search(text, start, steps_max.min(STEPS_MAX)) {
            Err(Error::STEPS) if steps_max < STEPS_MAX => {}
            outcome => return outcome.map_err(LimitReached::from),
        }
        let anchored = self.anchored()?;
        for place in start..=text.len() {
            if !go_on(PLACE_BYTES) {
                return Err(LimitReached::time());
            }
            let found = try_place(anchored, text, place, go_on)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Whether no engine is needed.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_for_once && self.lead().plain.is_some()
    }

    /// How often a plain pattern matches, up to `hits_max`: one pass, as long as the text; 0 for any
    /// other.
    pub(crate) fn count_plain(&self, text: &[u8], hits_max: u32) -> u32 {
        let lead = self.lead();
        let Some(plain) = &lead.plain else {
            return 0;
        };
        if let Some(count) = plain.count_single(text) {
            return u32::try_from(count).map_or(hits_max, |count| count.min(hits_max));
        }
        let mut places = lead.places(text);
        let (mut at, mut hits) = (0, 0);
        while hits < hits_max
            && let Some(place) = places.skip(at, text.len())
        {
            at = match plain.end_at(text, place) {
                Some(end) => {
                    hits += 1;
                    end
                }
                None => place + 1,
            };
        }
        hits
    }

    /// Whether a match begins at one of these places, and how many of them had to be tried; for texts
    /// that are not long. `go_on` is asked as by [`Pattern::find`].
    pub(crate) fn begins_at(
        &self,
        text: &[u8],
        places: std::ops::RangeInclusive<usize>,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<(bool, u32), LimitReached> {
        let lead = self.lead();
        let mut candidates = lead.places(text);
        let (mut at, last) = places.into_inner();
        let mut tried = 0;
        while let Some(place) = candidates.next(at, last) {
            tried += 1;
            let begins = match &lead.plain {
                Some(plain) => plain.end_at(text, place).is_some(),
                None => try_place(self.anchored()?, text, place, &mut go_on)?.is_some(),
            };
            if begins {
                return Ok((true, tried));
            }
            at = place + 1;
        }
        Ok((false, tried))
    }

    /// A pattern is only compiled once a place was met that begins as its matches do.
    fn lead(&self) -> &Lead {
        self.lead.get_or_init(|| Box::new(Lead::of(self.read())))
    }

    fn anchored(&self) -> Result<&Code, LimitReached> {
        let make = || backtracking::compile(&self.read(), Use::MatchAtPlace).map_err(Into::into);
        let made = self.anchored.get_or_init(make);
        made.as_ref()
            .map_err(|reason| LimitReached(reason.to_string()))
    }
}

/// The match that begins at a place. Where that takes many steps, `go_on` is asked.
fn try_place(
    code: &Code,
    text: &[u8],
    place: usize,
    go_on: &mut impl FnMut(usize) -> bool,
) -> Result<Found, LimitReached> {
    match code.search(text, place, PLACE_STEPS_MAX) {
        Err(Error::STEPS) if !go_on(HEAVY_PLACE_BYTES) => Err(LimitReached::time()),
        Err(Error::STEPS) => Ok(code.search(text, place, STEPS_MAX)?),
        outcome => Ok(outcome?),
    }
}

impl LimitReached {
    fn time() -> Self {
        Self("the time is over".to_owned())
    }
}

impl From<Error> for LimitReached {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests;
