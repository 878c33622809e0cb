//! What must hold of any pattern on any text, for fuzzing and property tests.
//!
//! A pattern is translated twice, for PCRE2 and, where that provably finds the same, for an automaton;
//! what the tree says of it (its shortest match, its first bytes) decides which rules run at all. So
//! a difference between any two of these is a rule that hits or misses wrongly.

use super::{Modifiers, Pattern};

/// Most times that one search may ask to go on.
const TURNS_MAX: u32 = 2_000;

/// Translates a pattern and runs it: the first byte says the modifiers, the first line is the pattern,
/// the rest the text.
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
    // What the parser took and PCRE2 refuses is told when rules are loaded.
    if pattern.compile().is_err() {
        return;
    }
    let mut turns = TURNS_MAX;
    let mut go_on = |_| {
        turns = turns.saturating_sub(1);
        turns > 0
    };
    let Ok(found) = pattern.search(text, 0, &mut go_on) else {
        return;
    };
    let shown = || {
        (
            body.escape_ascii().to_string(),
            text.escape_ascii().to_string(),
        )
    };
    if let Some(automaton) = pattern.automaton() {
        assert_eq!(automaton.find(text, 0), found, "{:?}", shown());
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
    if let Ok((begins, _)) = pattern.begins_at(text, 0..=text.len(), &mut go_on) {
        assert_eq!(begins, found.is_some(), "{:?}", shown());
    }
    if let Ok(by_lead) = pattern.find(text, 0, &mut go_on) {
        assert_eq!(by_lead, found, "{:?}", shown());
    }
    if pattern.is_plain() {
        let is_found = pattern.count_plain(text, u32::MAX) > 0;
        assert_eq!(is_found, found.is_some(), "{:?}", shown());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check_any_pattern;

    /// Of these patterns are made.
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
            // Long enough to be looked at in blocks, and to be read for beginnings.
            more in "[aB1 \n]{0,140}",
        ) {
            let body: String = pieces.iter().map(|&piece| PIECES[piece]).collect();
            let line = [&[letters][..], body.as_bytes(), b"\n", text.as_bytes(), more.as_bytes()].concat();
            check_any_pattern(&line);
        }
    }

    /// What fuzzing found.
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
