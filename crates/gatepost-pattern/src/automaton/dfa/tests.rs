//! Answers of the lazy DFA while its table grows and is replaced.

use super::*;
use crate::automaton::literal::LiteralInfo;
use crate::syntax::{Node, parse_delimited};

const LITERAL: LiteralInfo = LiteralInfo {
    pattern: 0,
    window: None,
    rounds: 1,
};

fn dfa_of(patterns: &[String]) -> LazyDfa {
    let mut builder = NfaBuilder::new();
    for pattern in patterns {
        let tree: Node = parse_delimited(pattern);
        builder.add(&[&tree], true, LITERAL);
    }
    LazyDfa::new(builder)
}

/// Texts of a few characters, which lead to many states.
fn texts() -> Vec<Vec<u8>> {
    let mut random = 1u64;
    let mut byte = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b"0101011x"[(random >> 60) as usize % 8]
    };
    let text = |_| (0..12).map(|_| byte()).collect();
    (0..4_000).map(text).collect()
}

/// A full table is replaced by an empty one (the prefixes have over 400 states); each thread
/// finishes with the one it holds.
#[test]
fn a_full_table_is_started_again() {
    let prefixes: Vec<String> = (0..200u32)
        .map(|number| format!("{:08b}x", number.wrapping_mul(2_654_435_761) >> 24))
        .collect();
    let patterns: Vec<String> = prefixes
        .iter()
        .map(|prefix| format!("/{prefix}/"))
        .collect();
    let dfa = dfa_of(&patterns);
    let unanchored = dfa.unanchored();
    let texts = texts();
    let is_prefix = |text: &[u8]| {
        let mut prefixes = prefixes.iter();
        prefixes.any(|prefix| text.starts_with(prefix.as_bytes()))
    };
    let first_end = |text: &[u8]| (9..=text.len()).find(|&end| is_prefix(&text[end - 9..end]));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut searcher, mut anywhere) = (dfa.searcher(), unanchored.searcher());
                for text in &texts {
                    let found = searcher.starts_with_literal(text);
                    assert_eq!(found, Some(is_prefix(text)));
                    assert_eq!(anywhere.first_end(text), first_end(text));
                }
            });
        }
    });
    let starts = texts.iter().filter(|text| is_prefix(text)).count();
    assert!(starts > 50, "{starts}");
    let restarted = dfa.determinizer.lock().indices.len();
    assert!(restarted < STATES_MAX, "{restarted}");
}
