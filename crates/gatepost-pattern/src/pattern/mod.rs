//! One regular expression with the meaning that Perl gives it.
//!
//! A pattern is parsed into a tree once, from which a prefilter selects its required literals.
//! PCRE2 searches, since it backtracks as Perl does and compiles to machine code. In a text so long
//! that backtracking could take quadratic time, regex-automata searches instead, if its results are
//! provably the same. Both are compiled when first needed: a rule folder has three thousand
//! patterns, of which a message needs about a hundred; until then only the source of a pattern is
//! kept.

mod error;
mod source;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{self, CompileMode, LinearEngine, PcreCode, PcreError};
use crate::first_use::{FirstUse, counted};
use crate::prefix::PrefixFilter;
use crate::syntax::{self, Modifiers, Node};

/// Longer texts, in bytes, are searched in linear time where that is possible.
pub const LONG_TEXT_BYTES: usize = 16 * 1024;
/// The slice of a long text that is searched at once if only backtracking is possible; matches are
/// then no longer than a slice.
const SLICE_BYTES: usize = LONG_TEXT_BYTES;
/// The total number of backtracking steps of one search, some tenths of a second. A search that
/// needs more is repeated offset by offset, and asks its caller whether to continue.
const SEARCH_STEPS_MAX: usize = 100_000_000;
/// Backtracking steps at one offset before the caller decides whether to continue.
const OFFSET_STEPS_MAX: u32 = 20_000;
/// The maximum number of backtracking steps at one offset, a few milliseconds; beyond it the search
/// fails.
const STEPS_MAX: u32 = 500_000;
/// The costs of testing an offset by the prefix DFA, of matching at an offset, and of a byte that
/// PCRE2 searches, in thirds of a nanosecond.
const OFFSET_TEST_COST: usize = 24;
const OFFSET_MATCH_COST: usize = 180;
const BYTE_SEARCH_COST: usize = 10;
/// The budget for offsets before the costs are compared.
const OFFSETS_COST_MIN: usize = 1500;
/// An offset that is matched alone counts as this many searched bytes.
const OFFSET_BYTES: usize = 4 * 1024;
/// The same for an offset with much backtracking, so that the clock is read for each such offset.
const HEAVY_OFFSET_BYTES: usize = 256 * 1024;

/// Machine code of more bytes takes over a millisecond to compile, so a message should not wait for
/// it. The few patterns of this size are long alternations.
const SEARCH_CODE_BYTES_MAX: usize = 64 * 1024;

/// A pattern, compiled when it is first needed.
#[derive(Debug)]
pub struct Pattern {
    source: Source,
    /// The linear engine searches texts of every length.
    prefers_linear: bool,
    /// Few texts are searched, so what pays off only over many texts is not made.
    is_single_use: bool,
    /// Kept until [`Pattern::take_tree`].
    tree: Option<Box<Node>>,
    /// Searches.
    code: OnceLock<Result<PcreCode, Box<str>>>,
    /// Matches at one offset.
    anchored: OnceLock<Result<PcreCode, Box<str>>>,
    prefix: OnceLock<Box<PrefixFilter>>,
    /// PCRE2 reads the source: verbs such as `(*COMMIT)` make a search differ from matches at each
    /// offset.
    is_opaque: bool,
    /// Searches ignore the prefix filter: nearly every offset is a candidate.
    ignores_prefix: AtomicBool,
    /// `None` inside if no linear engine finds the same.
    linear: OnceLock<Option<Box<LinearEngine>>>,
}

pub use error::PatternError;
use source::{ParsedSource, Source};

/// A search was stopped at a limit before it had a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern ran into its limit: {0}")]
pub struct LimitReached(pub String);

/// The start and the end of a match, if there is one.
pub type MatchSpan = Option<(usize, usize)>;

/// Decides whether to continue a search, after this number of further bytes.
type KeepGoing<'f> = &'f mut dyn FnMut(usize) -> bool;

impl Pattern {
    /// Parses a pattern with delimiters and modifiers, such as `/viagra/i`.
    pub fn parse(text: &[u8]) -> Result<Self, PatternError> {
        let (body, modifiers) = syntax::split(text)?;
        let start = body.as_ptr().addr() - text.as_ptr().addr();
        Self::parse_bare(body, modifiers).map_err(|error| error.after(start))
    }

    /// Parses a pattern without delimiters.
    pub fn parse_bare(body: &[u8], modifiers: Modifiers) -> Result<Self, PatternError> {
        let (source, tree) = Source::parse(body, modifiers)?;
        let is_opaque = matches!(tree, Node::Opaque(_));
        Ok(Self {
            is_opaque,
            source,
            prefers_linear: false,
            is_single_use: false,
            tree: Some(Box::new(tree)),
            code: OnceLock::new(),
            anchored: OnceLock::new(),
            prefix: OnceLock::new(),
            // `\G` matches where a search starts, and not at each offset.
            ignores_prefix: AtomicBool::new(
                is_opaque || memchr::memmem::find(body, b"\\G").is_some(),
            ),
            linear: OnceLock::new(),
        })
    }

    /// Splits a pattern with delimiters into its body and modifiers.
    pub fn split(text: &[u8]) -> Result<(&[u8], Modifiers), PatternError> {
        Ok(syntax::split(text)?)
    }

    /// The tree, which is large and is not kept any longer.
    pub(crate) fn take_tree(&mut self) -> Node {
        let tree = self.tree.take();
        tree.map_or_else(|| self.source.tree(), |tree| *tree)
    }

    /// Searches texts of every length with the linear engine, which tries all alternatives at once
    /// and not at each offset separately: better for a pattern that runs on every text.
    pub fn prefer_linear(&mut self) {
        self.prefers_linear = true;
    }

    /// Declares that few texts are searched before the pattern is dropped.
    #[must_use]
    pub fn single_use(self) -> Self {
        Self {
            is_single_use: true,
            ..self
        }
    }

    /// The least number of bytes of a match. Slow once a prefilter has taken the tree.
    pub fn min_len(&self) -> usize {
        self.tree().min_len()
    }

    /// The pattern as a tree.
    pub(crate) fn tree(&self) -> Cow<'_, Node> {
        match &self.tree {
            Some(tree) => Cow::Borrowed(tree),
            None => Cow::Owned(self.source.tree()),
        }
    }

    fn parsed(&self) -> ParsedSource<'_> {
        self.source.parsed(self.tree.as_deref())
    }

    /// Compiles everything that the first search would compile; an error means that the pattern
    /// cannot run.
    pub fn compile(&self) -> Result<(), String> {
        self.code(&self.parsed())
            .map(|_| ())
            .map_err(|LimitReached(reason)| reason)
    }

    /// Creates the data that its first candidate would wait for: the prefix filter, and compiled
    /// code.
    pub fn make_ready(&self) {
        let parsed = self.parsed();
        if self.prefix(&parsed).literal.is_none() && !self.is_opaque {
            // An error is reported by the first search.
            let code = self.anchored(&parsed);
            // A text with too many candidates is searched by code of its own.
            if code.is_ok_and(|code| code.native_bytes() > SEARCH_CODE_BYTES_MAX) {
                let _ = self.code(&parsed);
            }
        }
    }

    fn code(&self, parsed: &ParsedSource<'_>) -> Result<&PcreCode, LimitReached> {
        let mode = if self.is_single_use {
            CompileMode::SearchFew
        } else {
            CompileMode::Search
        };
        let compile = || compiled(parsed, mode);
        let code = self.code.get_or_init(compile).as_ref();
        code.map_err(|reason| LimitReached(reason.to_string()))
    }

    fn anchored(&self, parsed: &ParsedSource<'_>) -> Result<&PcreCode, LimitReached> {
        let compile = || compiled(parsed, CompileMode::Anchored);
        let code = self.anchored.get_or_init(compile).as_ref();
        code.map_err(|reason| LimitReached(reason.to_string()))
    }

    pub(crate) fn linear(&self) -> Option<&LinearEngine> {
        let make = || LinearEngine::of(&self.source.tree()).map(Box::new);
        let linear = self.linear.get_or_init(|| counted(FirstUse::Pattern, make));
        linear.as_deref()
    }

    /// The first match that starts at or after `start`. In long searches `keep_going` is called
    /// from time to time with the number of bytes that were searched; if it returns `false`, the
    /// search stops.
    pub fn find(
        &self,
        text: &[u8],
        start: usize,
        mut keep_going: impl FnMut(usize) -> bool,
    ) -> Result<MatchSpan, LimitReached> {
        self.find_with(text, start, &mut keep_going)
    }

    fn find_with(
        &self,
        text: &[u8],
        start: usize,
        keep_going: KeepGoing<'_>,
    ) -> Result<MatchSpan, LimitReached> {
        let is_long = text.len() > LONG_TEXT_BYTES;
        if self.is_single_use && !is_long {
            return self.search(text, start, keep_going);
        }
        let parsed = self.parsed();
        let prefix = self.prefix(&parsed);
        if prefix.rules_out(text, start) {
            return Ok(None);
        }
        if (is_long || self.prefers_linear)
            && let Some(linear) = self.linear()
        {
            return Ok(linear.find(text, start));
        }
        if is_long {
            self.search_slices(text, start, keep_going)
        } else {
            self.search_by_prefix((prefix, &parsed), text, start, keep_going)
        }
    }

    /// The first match in a long text that needs backtracking.
    fn search_slices(
        &self,
        text: &[u8],
        start: usize,
        keep_going: KeepGoing<'_>,
    ) -> Result<MatchSpan, LimitReached> {
        for from in (start..=text.len()).step_by(SLICE_BYTES) {
            let end = text.len().min(from.saturating_add(2 * SLICE_BYTES));
            let part = text.get(..end).unwrap_or(text);
            let found = self.search(part, from, keep_going)?;
            match found {
                Some((_, to)) if to == end && end < text.len() => {
                    return Err(LimitReached("the match is too long".to_owned()));
                }
                Some(_) => return Ok(found),
                None if end == text.len() => break,
                None if !keep_going(2 * SLICE_BYTES) => {
                    return Err(LimitReached::time());
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// The first match, by matching at the candidates of the prefix filter, as long as they are
    /// few.
    fn search_by_prefix(
        &self,
        (prefix, parsed): (&PrefixFilter, &ParsedSource<'_>),
        text: &[u8],
        start: usize,
        keep_going: KeepGoing<'_>,
    ) -> Result<MatchSpan, LimitReached> {
        if !prefix.is_useful() || self.ignores_prefix.load(Ordering::Relaxed) {
            return self.search(text, start, keep_going);
        }
        let mut candidates = prefix.candidates(text);
        let (mut at, mut cost) = (start, 0);
        while let Some(offset) = candidates.skip(at, text.len()) {
            if let Some(literal) = &prefix.literal {
                if let Some(end) = literal.end_at(text, offset) {
                    return Ok(Some((offset, end)));
                }
            } else {
                if cost > OFFSETS_COST_MIN + (offset - start) * BYTE_SEARCH_COST {
                    self.ignores_prefix.store(true, Ordering::Relaxed);
                    return self.search(text, offset, keep_going);
                }
                cost += OFFSET_TEST_COST;
                if candidates.may_start(offset) {
                    cost += OFFSET_MATCH_COST;
                    let found = match_at(self.anchored(parsed)?, text, offset, keep_going)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
            at = offset + 1;
        }
        Ok(None)
    }

    /// The first match, by one search if that takes few steps, and otherwise offset by offset: if
    /// many offsets take many steps, their sum would be unbounded.
    pub(crate) fn search(
        &self,
        text: &[u8],
        start: usize,
        keep_going: KeepGoing<'_>,
    ) -> Result<MatchSpan, LimitReached> {
        let offsets = text.len().saturating_sub(start) + 1;
        let steps_max = u32::try_from(SEARCH_STEPS_MAX / offsets).unwrap_or(STEPS_MAX);
        let parsed = self.parsed();
        let code = self.code(&parsed)?;
        match code.search(text, start, steps_max.min(STEPS_MAX)) {
            Err(PcreError::STEPS) if steps_max < STEPS_MAX && !self.is_opaque => {}
            outcome => return outcome.map_err(LimitReached::from),
        }
        let anchored = self.anchored(&parsed)?;
        for offset in start..=text.len() {
            if !keep_going(OFFSET_BYTES) {
                return Err(LimitReached::time());
            }
            let found = match_at(anchored, text, offset, keep_going)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Whether the pattern consists of a few literals and needs no engine.
    pub fn is_literal(&self) -> bool {
        !self.is_single_use && self.prefix(&self.parsed()).literal.is_some()
    }

    /// The number of matches of a pattern that is a few literals, up to `hits_max`, in one pass
    /// over the text; 0 for any other pattern.
    pub fn count_literal(&self, text: &[u8], hits_max: u32) -> u32 {
        let prefix = self.prefix(&self.parsed());
        let Some(literal) = &prefix.literal else {
            return 0;
        };
        if let Some(count) = literal.count_single(text) {
            return u32::try_from(count).map_or(hits_max, |count| count.min(hits_max));
        }
        let mut candidates = prefix.candidates(text);
        let (mut at, mut hits) = (0, 0);
        while hits < hits_max
            && let Some(offset) = candidates.skip(at, text.len())
        {
            at = match literal.end_at(text, offset) {
                Some(end) => {
                    hits += 1;
                    end
                }
                None => offset + 1,
            };
        }
        hits
    }

    /// Whether a match starts at one of these offsets, and the number of offsets that were matched;
    /// for texts that are not long. `keep_going` is called as by [`Pattern::find`].
    pub fn matches_within(
        &self,
        text: &[u8],
        offsets: std::ops::RangeInclusive<usize>,
        mut keep_going: impl FnMut(usize) -> bool,
    ) -> Result<(bool, u32), LimitReached> {
        self.matches_within_with(text, offsets, &mut keep_going)
    }

    fn matches_within_with(
        &self,
        text: &[u8],
        offsets: std::ops::RangeInclusive<usize>,
        keep_going: KeepGoing<'_>,
    ) -> Result<(bool, u32), LimitReached> {
        if self.is_opaque {
            let found = self.search(text, *offsets.start(), keep_going)?;
            return Ok((found.is_some_and(|(start, _)| offsets.contains(&start)), 1));
        }
        let parsed = self.parsed();
        let prefix = self.prefix(&parsed);
        let mut candidates = prefix.candidates(text);
        let (mut at, last) = offsets.into_inner();
        let mut tried = 0;
        while let Some(offset) = candidates.next(at, last) {
            tried += 1;
            let matches = match &prefix.literal {
                Some(literal) => literal.end_at(text, offset).is_some(),
                None => match_at(self.anchored(&parsed)?, text, offset, keep_going)?.is_some(),
            };
            if matches {
                return Ok((true, tried));
            }
            at = offset + 1;
        }
        Ok((false, tried))
    }

    /// The prefix filter, which delays compiling until the first candidate.
    fn prefix(&self, parsed: &ParsedSource<'_>) -> &PrefixFilter {
        let make = || Box::new(PrefixFilter::of(parsed.tree()));
        self.prefix.get_or_init(|| counted(FirstUse::Prefix, make))
    }
}

/// Compiles a pattern, which its first use waits for.
fn compiled(parsed: &ParsedSource<'_>, mode: CompileMode) -> Result<PcreCode, Box<str>> {
    let compile = || engine::compile(parsed.tree(), mode).map_err(Into::into);
    counted(FirstUse::Pattern, compile)
}

/// The match that starts at an offset. If that takes many steps, `keep_going` is called.
fn match_at(
    code: &PcreCode,
    text: &[u8],
    offset: usize,
    keep_going: KeepGoing<'_>,
) -> Result<MatchSpan, LimitReached> {
    match code.search(text, offset, OFFSET_STEPS_MAX) {
        Err(PcreError::STEPS) if !keep_going(HEAVY_OFFSET_BYTES) => Err(LimitReached::time()),
        Err(PcreError::STEPS) => Ok(code.search(text, offset, STEPS_MAX)?),
        outcome => Ok(outcome?),
    }
}

impl LimitReached {
    fn time() -> Self {
        Self("the time is over".to_owned())
    }
}

impl From<PcreError> for LimitReached {
    fn from(error: PcreError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests;
