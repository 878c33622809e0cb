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
mod lead;
mod literals;
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
use pcre::{Error, Use};
pub(crate) use template::{Captured, Groups, Template};

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
    /// Kept until [`Pattern::take_tree`].
    tree: Option<Box<Node>>,
    /// Searches.
    code: OnceLock<Result<pcre::Code, Box<str>>>,
    /// Matches at one place.
    anchored: OnceLock<Result<pcre::Code, Box<str>>>,
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

    /// Whether the empty text may match; asked before the tree is taken, or slow.
    pub(crate) fn may_match_nothing(&self) -> bool {
        self.tree().min_len() == 0
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

    fn code(&self) -> Result<&pcre::Code, LimitReached> {
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
        let lead = self.lead();
        if lead.misses(text, start) {
            return Ok(None);
        }
        let is_long = text.len() > LONG_TEXT_BYTES;
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

    /// How often a pattern that needs no engine matches, up to `hits_max`; `None` for any other.
    pub(crate) fn count_plain(&self, text: &[u8], hits_max: u32) -> Option<u32> {
        let lead = self.lead();
        let plain = lead.plain.as_ref()?;
        let places = lead.places(text);
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
        Some(hits)
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

    fn anchored(&self) -> Result<&pcre::Code, LimitReached> {
        let make = || backtracking::compile(&self.read(), Use::MatchAtPlace).map_err(Into::into);
        let made = self.anchored.get_or_init(make);
        made.as_ref()
            .map_err(|reason| LimitReached(reason.to_string()))
    }
}

/// The match that begins at a place. Where that takes many steps, `go_on` is asked.
fn try_place(
    code: &pcre::Code,
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
mod tests {
    use super::*;

    /// Both engines must give the same, where both take the pattern.
    fn matches(pattern: &str, text: &[u8]) -> bool {
        let parsed = Pattern::parse(pattern.as_bytes()).unwrap();
        let found = parsed.find(text, 0, |_| true).unwrap();
        if let Some(automaton) = parsed.automaton() {
            assert_eq!(automaton.find(text, 0), found, "{pattern}");
        }
        found.is_some()
    }

    /// Checked against Perl: `$text =~ qr/$pattern/aa`.
    #[test]
    fn both_engines_answer_as_perl_does() {
        for (pattern, text, expected) in [
            (r"/^\s*$/", &b"\n"[..], true),
            (r"/a$/", b"a\n", true),
            (r"/a$/", b"a\n\n", false),
            (r"/a$b?/", b"a\n", true),
            (r"/a\z/", b"a\n", false),
            (r"/a\n^$/m", b"a\n", false),
            (r"/^b/m", b"a\nb", true),
            (r"/^b/", b"a\nb", false),
            (r"/a.b/", b"a\nb", false),
            (r"/a.b/s", b"a\nb", true),
            (r"/\xe9/i", b"\xc9", true),
            (r"/[\xc3][\x80]/i", b"\xe3\x80", true),
            (r"/\w/", b"\xe9", false),
            (r"/\W/", b"\xe9", true),
            (r"/caf\b/", b"caf\xc3\xa9", true),
            (r"/x{2,3}y/", b"xxy", true),
            (r"/x{,3}y/", b"y", true),
            (r"/x{a}/", b"x{a}", true),
            (r"/a b # c/x", b"ab", true),
            (r"/(?i:A)b/", b"ab", true),
            (r"/(?i:A)b/", b"aB", false),
            (r"/a(?i)b|c/", b"C", true),
            (r"/(a)\1/", b"aa", true),
            (r"/(A)\1/i", b"aA", true),
            (r"/(?<!x)a/", b"xa", false),
            (r"/(?!b)[ab]/", b"b", false),
            (r"/(?>a+)a/", b"aaa", false),
            (r"/a++a/", b"aaa", false),
            (r"/[[:alpha:]_-]+-]/", b"a-]", true),
            (r"/[^[:^alpha:]]/", b"1", false),
            (r"/[\]]/", b"]", true),
            (r"/[]a]/", b"]", true),
            (r"/\x{263a}|a/", b"a", true),
            (r"/\Aab\Z/", b"ab\n", true),
            (r"/\R\z/", b"\r\n", true),
            (r"/(?|(a)|(b))\1/", b"bb", true),
            (r"/(?<n>a)\k<n>/", b"aa", true),
            (r"/^(?:(a)|b)(?(1)c|d)$/", b"bd", true),
            (r"/a{0}b/", b"b", true),
            (r"/\//", b"/", true),
            (r"m{^http://}i", b"HTTP://", true),
            (r"/\000/", b"\0", true),
            (r"/\101/", b"A", true),
            (r"/[\101-\x43]/", b"B", true),
            (r"/$/", b"", true),
            (r"/|/", b"", true),
            (r"/(?:cheap|free)[a-z]{0,9}/", b"free", true),
            (r"/(?:cheap|free)[a-z]{0,9}?\d/", b"free1", true),
            (r"/(?:cheap|free)[a-z]{0,9}+x/", b"freex", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern}");
        }
    }

    #[test]
    fn broken_patterns_are_refused_with_a_reason() {
        for pattern in [
            "/(/",
            "/)/",
            "/[/",
            "/a**/",
            "/*/",
            "/a{3,2}/",
            "/(?<1>a)/",
            r"/\1/",
            "/(?z)/",
            r"/\p{L}/",
            "/[b-a]/",
            r"/\y/",
            "/[[:nothing:]]/",
        ] {
            assert!(Pattern::parse(pattern.as_bytes()).is_err(), "{pattern}");
        }
        let deep = format!("/{}{}/", "(".repeat(100_000), ")".repeat(100_000));
        assert!(Pattern::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_catastrophic_pattern_gives_up() {
        let pattern = Pattern::parse(br"/^(?=(?:a|aa)+$)/").unwrap();
        let text = [&[b'a'; 5000][..], b"!"].concat();
        assert!(pattern.find(&text, 0, |_| true).is_err());
    }

    /// A search that takes many steps at many places asks for the time at each of them, and finds what
    /// it would have found at once.
    #[test]
    fn a_heavy_search_goes_on_place_by_place() {
        let pattern = Pattern::parse(br"/(?:a|aa)+!!|zz/").unwrap();
        let heavy = [&[b'a'; 23][..], b"! "].concat().repeat(200);
        let text = [&heavy[..], b"zz"].concat();
        let mut questions = 0;
        let count = |_: usize| {
            questions += 1;
            true
        };
        let found = pattern.find(&text, 0, count).unwrap();
        assert_eq!(found, Some((text.len() - 2, text.len())));
        assert!(questions > text.len(), "{questions}");
        let mut left = 100;
        let ends = |_: usize| {
            left -= 1;
            left > 0
        };
        assert_eq!(pattern.find(&text, 0, ends), Err(LimitReached::time()));
        assert_eq!(left, 0);
        // The same at places that are asked for.
        let (begins, tried) = pattern.begins_at(&text, 0..=10, |_| true).unwrap();
        assert_eq!((begins, tried), (false, 11));
        let ended = pattern.begins_at(&text, 0..=10, |_| false);
        assert_eq!(ended, Err(LimitReached::time()));
    }

    #[test]
    fn places_that_begin_otherwise_are_not_tried() {
        let pattern = Pattern::parse(br"/(?:^|\s)v[i1]a|x?z/").unwrap();
        let begins = |text: &[u8]| pattern.begins_at(text, 0..=text.len(), |_| true).unwrap();
        assert_eq!(begins(b"abcd vxa "), (false, 0));
        assert_eq!(begins(b"abcd v1a"), (true, 1));
        // What may be empty begins anywhere.
        let pattern = Pattern::parse(br"/(?=b)a?/").unwrap();
        assert_eq!(pattern.begins_at(b"aab", 0..=3, |_| true), Ok((true, 3)));
    }

    #[test]
    fn long_texts_are_searched_like_short_ones() {
        let filler = vec![b'x'; SLICE_BYTES * 5 / 2];
        for (pattern, tail, expected) in [
            ("/x+y$/", &b"y"[..], true),
            (r"/(?<=x)(y)\1/", b"yyx", true),
            (r"/(?<!x)y/", b"y", false),
            (r"/y(?!z)/", b"yz", false),
        ] {
            let text = [&filler[..], tail].concat();
            assert_eq!(matches(pattern, &text), expected, "{pattern}");
        }
    }

    #[test]
    fn a_long_search_asks_for_the_time() {
        let pattern = Pattern::parse(br"/(?<!x)y/").unwrap();
        let text = vec![b'x'; SLICE_BYTES * 3];
        assert!(pattern.find(&text, 0, |_| false).is_err());
    }

    /// `replace_tag` makes such patterns: hundreds of times the same spellings of a letter.
    #[test]
    fn a_pattern_too_large_for_pcre2_shares_what_it_repeats() {
        let mut word = String::new();
        for letter in "password".chars() {
            word.push_str("(?:");
            word.push(letter);
            for digit in '0'..='9' {
                word.push_str("|\\xc3[\\x81-\\x95");
                word.push(digit);
                word.push_str("]|");
                word.extend([letter, digit]);
            }
            word.push(')');
        }
        let text = format!("/(?<!x)(?:{word}[ ,]?){{3,60}}(end|stop)\\1$/i");
        let pattern = Pattern::parse(text.as_bytes()).unwrap();
        assert_eq!(pattern.compile(), Ok(()));
        let find = |text: &str| pattern.find(text.as_bytes(), 0, |_| true).unwrap();
        assert_eq!(find("PaSs3WORD4password,passWordendend"), Some((0, 33)));
        assert_eq!(find("passwordpassword endend"), None);
        assert_eq!(find("passwordpasswordpasswordendstop"), None);
    }

    /// Compiled at once such patterns are beyond what PCRE2 takes.
    #[test]
    fn large_patterns_are_written_with_calls() {
        let word = "(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa)";
        let text = format!("/^(?:(?:{word}-){{1,40}}{word}[.,]){{3,40}}$/");
        let pattern = Pattern::parse(text.as_bytes()).unwrap();
        assert_eq!(pattern.compile(), Ok(()));
        for (text, expected) in [
            ("alpha-beta.gamma-eta,theta-iota-kappa.", true),
            ("alpha-beta.gamma-eta,theta.", false),
        ] {
            let found = pattern.find(text.as_bytes(), 0, |_| true).unwrap();
            assert_eq!(found.is_some(), expected, "{text}");
        }
    }
}
