//! Consistency of the engines and filters on any pattern and any text, for fuzzing and property
//! tests.
//!
//! A pattern is translated for PCRE2 and, if the result is provably the same, for regex-automata.
//! Facts derived from its tree (its shortest match, its first bytes) decide whether an engine runs
//! at all. A difference between any two of these is a rule that hits or misses wrongly.

use crate::pattern::Pattern;
use crate::syntax::Modifiers;

/// The number of times that one search may ask to continue.
const TURNS_MAX: u32 = 2_000;

/// Compiles a pattern and searches a text: the first byte selects the modifiers, the rest of the
/// first line is the pattern, and all that follows is the text.
///
/// # Panics
/// If two ways of matching differ.
#[doc(hidden)]
pub fn check_any_pattern(data: &[u8]) {
    let Some((&letters, rest)) = data.split_first() else {
        return;
    };
    let line_end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let (body, text) = rest.split_at(line_end);
    let text = text.get(1..).unwrap_or_default();
    let has = |bit: u8| letters & 1 << bit != 0;
    let modifiers = Modifiers {
        fold_case: has(0),
        multi_line: has(1),
        dot_all: has(2),
        extended: has(3),
        extended_classes: has(4),
        no_capture: has(5),
    };
    let Ok(pattern) = Pattern::parse_bare(body, modifiers) else {
        return;
    };
    // A pattern that PCRE2 refuses is reported when rules are loaded.
    if pattern.compile().is_err() {
        return;
    }
    let mut turns = TURNS_MAX;
    let mut keep_going = |_| {
        turns = turns.saturating_sub(1);
        turns > 0
    };
    let Ok(found) = pattern.search(text, 0, &mut keep_going) else {
        return;
    };
    let shown = || {
        (
            body.escape_ascii().to_string(),
            text.escape_ascii().to_string(),
        )
    };
    if let Some(linear) = pattern.linear() {
        assert_eq!(linear.find(text, 0), found, "{:?}", shown());
    }
    let tree = pattern.tree();
    if let Some((start, end)) = found {
        assert!(start <= end && end <= text.len(), "{:?}", shown());
        assert!(end - start >= tree.min_len(), "{:?}", shown());
        let first = tree.first_bytes();
        let fits =
            first.is_none_or(|first| text.get(start).is_some_and(|&byte| first.contains(byte)));
        assert!(fits, "{:?}", shown());
    }
    if let Ok((matches, _)) = pattern.matches_within(text, 0..=text.len(), &mut keep_going) {
        assert_eq!(matches, found.is_some(), "{:?}", shown());
    }
    if let Ok(by_prefix) = pattern.find(text, 0, &mut keep_going) {
        assert_eq!(by_prefix, found, "{:?}", shown());
    }
    if pattern.is_literal() {
        let is_found = pattern.count_literal(text, u32::MAX) > 0;
        assert_eq!(is_found, found.is_some(), "{:?}", shown());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check_any_pattern;

    /// The parts of generated patterns.
    const PIECES: [&str; 40] = [
        "a",
        "b",
        "A",
        "ab",
        "\\w",
        "\\d",
        "\\s",
        "\\S",
        "\\b",
        "\\B",
        ".",
        "^",
        "$",
        "\\z",
        "\\A",
        "[ab]",
        "[^a]",
        "[a-c\\d]",
        "[[:alpha:]]",
        "(",
        "(?:",
        "(?i:",
        "(?=",
        "(?!",
        "(?<=a",
        "(?<!b",
        "(?>",
        ")",
        "|",
        "*",
        "+",
        "?",
        "*?",
        "+?",
        "{1,2}",
        "{0,3}?",
        "++",
        "\\1",
        "\\x61",
        "\\.",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn all_ways_of_matching_agree(
            letters in 0_u8..64,
            pieces in proptest::collection::vec(0..PIECES.len(), 1..12),
            text in "[abAB1 .\\-\n]{0,24}",
            // Long enough for tests of whole blocks, and for searches by the prefix DFA.
            more in "[aB1 \n]{0,140}",
        ) {
            let body: String = pieces.iter().map(|&piece| PIECES[piece]).collect();
            let parts = [&[letters][..], body.as_bytes(), b"\n", text.as_bytes(), more.as_bytes()];
            let line = parts.concat();
            check_any_pattern(&line);
        }
    }

    /// Cases that fuzzing found.
    #[test]
    fn patterns_that_were_translated_wrongly() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/patterns");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("the folder of cases is readable") {
            let path = entry.expect("its entries are readable").path();
            check_any_pattern(&std::fs::read(path).expect("a case is readable"));
            count += 1;
        }
        assert!(count > 0);
    }
}
