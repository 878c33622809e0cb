//! Measures the cost of finding the patterns of a rule set in a mail: `many_patterns PATTERNS RUNS
//! MESSAGES…`.
//!
//! Two methods to find the patterns that match a text run over the same patterns and texts:
//!
//! - **prefilter**: this crate's prefilter, then each candidate's own engine;
//! - **hybrid**: one lazy DFA of regex-automata for all patterns of a view, with overlapping
//!   matches.
//!
//! PATTERNS has a line for each pattern, as `benchmarks/scan-floor/patterns` writes it: view, flags
//! and expression, separated by TABs. The views are those of `benchmarks/scan-floor/floor.c`, so
//! that its figure, of Vectorscan, can be compared with these. Only patterns that both sides accept
//! are used.

use std::fs;
use std::path::Path;
use std::time::Duration;

use gatepost_pattern::{Pattern, Prefilter, PrefilterThresholds};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};
use rustix::time::{ClockId, clock_gettime};

const VIEWS: [&str; 3] = ["header", "body", "full"];
/// The memory of regex-automata's lazy DFA for its states; its default of 2 MiB is too small for
/// thousands of patterns, so the cache would be cleared all the time.
const HYBRID_CACHE_BYTES: usize = 256 << 20;
/// The thresholds of the rule engine for lines.
const THRESHOLDS: PrefilterThresholds = PrefilterThresholds {
    patterns_min: 6,
    bits_min: 6.0,
    loop_probability_max: 0.3,
};

struct View {
    patterns: Vec<Pattern>,
    prefilter: Prefilter,
    hybrid: DFA,
    cache: Cache,
    refused: usize,
}

/// `None` for expressions that regex-automata does not support.
fn hybrid_of(expressions: &[String]) -> Option<DFA> {
    DFA::builder()
        .configure(
            DFA::config()
                .match_kind(MatchKind::All)
                .cache_capacity(HYBRID_CACHE_BYTES),
        )
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
        .build_many(expressions)
        .ok()
}

impl View {
    fn new(name: &str, list: &str) -> Self {
        let (mut patterns, mut expressions, mut refused) = (Vec::new(), Vec::new(), 0);
        for line in list.lines() {
            let mut fields = line.splitn(3, '\t');
            let (Some(view), Some(flags), Some(body)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if view != name {
                continue;
            }
            let flags = flags.trim_matches('-');
            let expression = if flags.is_empty() {
                body.to_owned()
            } else {
                format!("(?{flags}){body}")
            };
            let delimited = format!("m\u{1}{body}\u{1}{flags}");
            match (
                Pattern::parse(delimited.as_bytes()),
                hybrid_of(std::slice::from_ref(&expression)),
            ) {
                (Ok(pattern), Some(_)) => {
                    patterns.push(pattern);
                    expressions.push(expression);
                }
                _ => refused += 1,
            }
        }
        let hybrid = hybrid_of(&expressions).expect("each was accepted alone");
        let trees = patterns.iter_mut().map(|pattern| (pattern, false));
        Self {
            prefilter: Prefilter::new(trees, THRESHOLDS),
            cache: hybrid.create_cache(),
            hybrid,
            patterns,
            refused,
        }
    }

    /// The patterns that match, by the prefilter and each candidate's engine.
    fn by_prefilter(&self, text: &[u8], matched: &mut Vec<bool>) {
        matched.clear();
        matched.resize(self.patterns.len(), false);
        let mut candidates: Vec<u32> = self.prefilter.unfiltered_candidates(text).collect();
        let searched = self.prefilter.search(
            text,
            &mut candidates,
            |_| true,
            |candidates, literal, _end| candidates.push(literal.pattern),
        );
        assert!(searched.is_ok(), "nothing stops the search");
        candidates.sort_unstable();
        candidates.dedup();
        for candidate in candidates {
            let pattern = &self.patterns[candidate as usize];
            matched[candidate as usize] = matches!(pattern.find(text, 0, |_| true), Ok(Some(_)));
        }
    }

    /// The patterns that match, by one lazy DFA.
    fn by_hybrid(&mut self, text: &[u8], matched: &mut PatternSet) {
        matched.clear();
        self.hybrid
            .try_which_overlapping_matches(&mut self.cache, &Input::new(text), matched)
            .expect("the cache may be cleared without a bound");
    }
}

/// The CPU time of this thread; other work on the machine does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Header, body and full text of a message.
fn texts(message: &[u8]) -> [&[u8]; 3] {
    let blank = |bytes: &[u8]| bytes == b"\n\n" || bytes == b"\n\r";
    let end = message.windows(2).position(blank);
    let (header, body) = message.split_at(end.map_or(message.len(), |end| end + 2));
    [header, body, message]
}

fn collect(path: &Path, messages: &mut Vec<Vec<u8>>) {
    if let Ok(folder) = fs::read_dir(path) {
        let mut paths: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            collect(&path, messages);
        }
    } else {
        messages.push(fs::read(path).expect("a readable message"));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, list, runs, paths @ ..] = &arguments[..] else {
        panic!("usage: many_patterns PATTERNS RUNS MESSAGES…");
    };
    let list = String::from_utf8_lossy(&fs::read(list).expect("a list of patterns")).into_owned();
    let runs: usize = runs.parse().expect("a number of runs");
    let mut messages = Vec::new();
    for path in paths {
        collect(Path::new(path), &mut messages);
    }
    let mut views = VIEWS.map(|name| View::new(name, &list));
    for (name, view) in VIEWS.iter().zip(&views) {
        println!(
            "{name}: {} patterns, {} refused",
            view.patterns.len(),
            view.refused
        );
    }
    let per_message = |used: Duration| used.as_secs_f64() * 1e6 / messages.len() as f64;
    for run in 0..runs {
        let (mut matched, mut hits) = (Vec::new(), [0_usize; 2]);
        let begin = cpu_time();
        for message in &messages {
            for (view, text) in views.iter().zip(texts(message)) {
                view.by_prefilter(text, &mut matched);
                hits[0] += matched.iter().filter(|&&hit| hit).count();
            }
        }
        let prefilter = per_message(cpu_time().saturating_sub(begin));
        let begin = cpu_time();
        for message in &messages {
            for (view, text) in views.iter_mut().zip(texts(message)) {
                let mut set = PatternSet::new(view.hybrid.pattern_len());
                view.by_hybrid(text, &mut set);
                hits[1] += set.len();
            }
        }
        let hybrid = per_message(cpu_time().saturating_sub(begin));
        println!(
            "run {run}: prefilter {prefilter:.1} us, hybrid {hybrid:.1} us of CPU per message; \
             {} and {} matches",
            hits[0], hits[1]
        );
    }
}
