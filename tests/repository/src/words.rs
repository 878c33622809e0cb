//! Rule: comments and documentation are plain technical English. The words below stood for several
//! things at once in earlier texts; each has a budget in `ratchet/words.txt` that may only shrink.

use crate::files::{below, exceptions, read};

/// The number of occurrences of a word, upper or lower case, not as a part of another word.
fn occurrences(text: &str, word: &str) -> usize {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
        })
        .count()
}

#[test]
fn unclear_words_do_not_spread() {
    let mut texts = Vec::new();
    for file in [below("crates", "rs"), below("tests", "rs")].concat() {
        if !file.starts_with("tests/repository/") {
            texts.push(read(&file));
        }
    }
    for file in below("docs", "md") {
        texts.push(read(&file));
    }
    for file in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        texts.push(read(file));
    }
    let mut exceeded = Vec::new();
    for line in exceptions("words.txt") {
        let (word, budget) = line.split_once(": ").expect("WORD: COUNT");
        let budget: usize = budget.parse().expect("a number");
        let count: usize = texts.iter().map(|text| occurrences(text, word)).sum();
        if count > budget {
            exceeded.push(format!(
                "'{word}' occurs {count} times, {budget} are permitted"
            ));
        }
    }
    assert!(
        exceeded.is_empty(),
        "say plainly who does what instead:\n{}",
        exceeded.join("\n")
    );
}

#[test]
fn whole_words_are_counted() {
    assert_eq!(occurrences("Told, told; untold told_ready", "told"), 2);
}
