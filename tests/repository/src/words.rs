//! Rules: comments and documentation are plain technical English. The words of `ratchet/words.txt`
//! are metaphors, or had several meanings in earlier texts; each has a budget that may only shrink.
//! The documentation of an item begins with a noun phrase or a verb, and a section of an RFC is
//! written in one form.

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
    let mut texts: Vec<String> = sources().map(|(_, text)| text).collect();
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

/// First words of an item's documentation that leave the item unnamed, such as "What is sent.".
const UNCLEAR_FIRST_WORDS: [&str; 13] = [
    "What", "Whoever", "Whatever", "Who", "Those", "They", "Their", "Where", "How", "Why", "That",
    "So", "Of",
];

/// The text of a line of documentation.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))?;
    Some(text.trim())
}

/// The numbers of the lines whose documentation begins with an unclear word.
fn unclear_beginnings(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let documentation = documentation(line);
        if let Some(text) = documentation.filter(|_| !is_inside) {
            let first = text.split(|c: char| !c.is_alphanumeric()).next();
            if first.is_some_and(|word| UNCLEAR_FIRST_WORDS.contains(&word)) {
                found.push(number + 1);
            }
        }
        is_inside = documentation.is_some();
    }
    found
}

/// The Rust sources of crates and tests, without this crate, which quotes what it forbids.
fn sources() -> impl Iterator<Item = (String, String)> {
    let files = [below("crates", "rs"), below("tests", "rs")].concat();
    let files = files
        .into_iter()
        .filter(|file| !file.starts_with("tests/repository/"));
    files.map(|file| {
        let text = read(&file);
        (file, text)
    })
}

#[test]
fn documentation_begins_with_a_noun_or_a_verb() {
    let unclear: Vec<String> = sources()
        .flat_map(|(file, text)| {
            let lines = unclear_beginnings(&text).into_iter();
            let places: Vec<String> = lines.map(|line| format!("{file}:{line}")).collect();
            places
        })
        .collect();
    assert!(
        unclear.is_empty(),
        "name the item by a noun, or begin with a verb:\n{}",
        unclear.join("\n")
    );
}

/// Whether a text cites a section or an appendix of an RFC without the comma after the number.
fn lacks_comma(text: &str) -> bool {
    text.split("RFC ").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with(" section") || rest.starts_with(" appendix")
    })
}

#[test]
fn sections_of_rfcs_are_written_in_one_form() {
    let texts = sources().chain(below("docs", "md").into_iter().map(|file| {
        let text = read(&file);
        (file, text)
    }));
    let other: Vec<String> = texts
        .filter(|(_, text)| lacks_comma(text))
        .map(|(file, _)| file)
        .collect();
    assert!(
        other.is_empty(),
        "write \"RFC 5321, section 4.2\":\n{}",
        other.join("\n")
    );
}

#[test]
fn unclear_beginnings_are_found() {
    let text = "/// What is sent.\nfn a() {}\n/// The bytes.\n/// What is more.\nfn b() {}\n\
        //! Whatsoever.\n\n    /// Those of a user.\n";
    assert_eq!(unclear_beginnings(text), [1, 8]);
    assert!(lacks_comma(concat!("(RFC 5321", " section 4.2)")));
    assert!(!lacks_comma("RFC 5321, section 4.2; RFC 6376"));
}

#[test]
fn whole_words_are_counted() {
    assert_eq!(occurrences("Told, told; untold told_ready", "told"), 2);
}
