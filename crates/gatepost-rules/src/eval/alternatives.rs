//! The difference between the texts of a `multipart/alternative`.
//!
//! Alternatives can be nested. The words of each text are counted once, for the innermost
//! alternative around it, whose words are then added to those of the next one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use gatepost_mail::MimePart;

use super::ScannedMail;

/// The most different words of one kind of text that are compared.
const WORDS_MAX: usize = 100_000;

/// The difference between the texts of a `multipart/alternative`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AlternativeDifference {
    /// The share of words of the HTML that the plain text lacks.
    pub(super) percent: f64,
    pub(super) html_words: usize,
    pub(super) text_words: usize,
}

/// The number of occurrences of each word, by its hash.
type WordCounts = HashMap<u64, u64>;

/// An alternative whose parts are being read.
#[derive(Debug)]
struct OpenAlternative {
    depth: u32,
    /// The number of the part, as those below.
    number: usize,
    html: WordCounts,
    text: WordCounts,
    /// The first HTML part with words.
    first_words: Option<usize>,
    /// The first HTML part with an image.
    first_image: Option<usize>,
}

/// The largest difference in the message, and the numbers of words of its last alternative.
pub(super) fn alternative_difference(mail: &ScannedMail<'_>) -> AlternativeDifference {
    let findings = mail.findings();
    *findings.alternative.get_or_init(|| find(mail))
}

fn find(mail: &ScannedMail<'_>) -> AlternativeDifference {
    let mut found = AlternativeDifference::default();
    if is_calendar_of_exchange(mail) {
        return found;
    }
    let hasher = RandomState::new();
    let mut open: Vec<OpenAlternative> = Vec::new();
    // The number of the alternative of `html_words` and `text_words`.
    let mut last = 0;
    let mut close = |open: &mut Vec<OpenAlternative>| {
        let Some(closed) = open.pop() else {
            return;
        };
        if let Some(difference) = closed.difference() {
            let percent = found.percent.max(difference.percent);
            if closed.number >= last {
                last = closed.number;
                found = difference;
            }
            found.percent = percent;
        }
        if let Some(outer) = open.last_mut() {
            outer.add(closed);
        }
    };
    for (number, part) in mail.parts().all().enumerate() {
        while open.last().is_some_and(|inner| part.depth <= inner.depth) {
            close(&mut open);
        }
        if part.media_type.starts_with("multipart/alternative") {
            open.push(OpenAlternative::new(part, number));
        } else if part.is_leaf
            && part.media_type.starts_with("text")
            && let Some(inner) = open.last_mut()
        {
            inner.read(mail, part, number, &hasher);
        }
    }
    while !open.is_empty() {
        close(&mut open);
    }
    found
}

impl OpenAlternative {
    fn new(part: &MimePart, number: usize) -> Self {
        Self {
            depth: part.depth,
            number,
            html: HashMap::new(),
            text: HashMap::new(),
            first_words: None,
            first_image: None,
        }
    }

    /// Adds the words of a text.
    fn read(
        &mut self,
        mail: &ScannedMail<'_>,
        part: &MimePart,
        number: usize,
        hasher: &RandomState,
    ) {
        let Some(content) = mail.text_of(part) else {
            return;
        };
        let rendered = mail.rendered_of(part);
        let words = if rendered.is_some() {
            &mut self.html
        } else {
            &mut self.text
        };
        let mut has_words = false;
        for word in content.split_whitespace().filter(|word| is_word(word)) {
            has_words = true;
            count(words, hasher.hash_one(word), 1);
        }
        if let Some(rendered) = rendered {
            let first = |is_it: bool, known: Option<usize>| known.or(is_it.then_some(number));
            self.first_words = first(has_words, self.first_words);
            self.first_image = first(rendered.facts.open.contains("img"), self.first_image);
        }
    }

    /// Adds the words of an alternative inside this one.
    fn add(&mut self, inner: Self) {
        merge(&mut self.html, inner.html);
        merge(&mut self.text, inner.text);
        let earlier = |one: Option<usize>, other: Option<usize>| one.into_iter().chain(other).min();
        self.first_words = earlier(self.first_words, inner.first_words);
        self.first_image = earlier(self.first_image, inner.first_image);
    }

    /// The difference; `None` without HTML.
    fn difference(&self) -> Option<AlternativeDifference> {
        // As in SpamAssassin, an image before all words of the HTML is a word that no text has.
        let has_image_first = self
            .first_image
            .is_some_and(|image| self.first_words.is_none_or(|words| image < words));
        let total = self.html.len() + usize::from(has_image_first);
        if total == 0 {
            return None;
        }
        let in_text = |(word, in_html): (&u64, &u64)| {
            let in_text = self.text.get(word);
            in_text.is_some_and(|in_text| in_text >= in_html)
        };
        let common = self.html.iter().filter(|entry| in_text(*entry)).count();
        Some(AlternativeDifference {
            percent: (total - common) as f64 / total as f64 * 100.0,
            html_words: total,
            text_words: self.text.len(),
        })
    }
}

fn is_word(word: &str) -> bool {
    word.contains(|letter: char| letter.is_alphanumeric() || letter == '_')
}

fn count(words: &mut WordCounts, word: u64, times: u64) {
    if let Some(known) = words.get_mut(&word) {
        *known += times;
    } else if words.len() < WORDS_MAX {
        words.insert(word, times);
    }
}

/// Adds the words of one text to those of another, the fewer to the more.
fn merge(words: &mut WordCounts, mut others: WordCounts) {
    if words.len() < others.len() {
        std::mem::swap(words, &mut others);
    }
    for (word, times) in others {
        count(words, word, times);
    }
}

/// Exchange sends meetings as HTML and calendar only.
fn is_calendar_of_exchange(mail: &ScannedMail<'_>) -> bool {
    let parts = mail.parts();
    let Some(root) = parts.root() else {
        return false;
    };
    let children: Vec<&MimePart> = parts.children(root).collect();
    root.media_type == "multipart/alternative"
        && matches!(children[..], [html, calendar] if html.is_leaf && calendar.is_leaf
            && html.media_type == "text/html" && calendar.media_type == "text/calendar")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The difference in a message of these parts, each `TYPE TEXT`, or `(` and `)` for the
    /// beginning and the end of an alternative.
    #[track_caller]
    fn check(parts: &[&str], expected: (f64, usize, usize)) {
        let mut message = String::from("Content-Type: multipart/mixed; boundary=b0\n\n");
        let mut level = 0;
        for part in parts {
            let _ = match part.split_once(' ') {
                Some((kind, text)) => {
                    write!(message, "--b{level}\nContent-Type: text/{kind}\n\n{text}\n")
                }
                None if *part == "(" => {
                    level += 1;
                    let (outer, kind) = (level - 1, "multipart/alternative");
                    write!(
                        message,
                        "--b{outer}\nContent-Type: {kind}; boundary=b{level}\n\n"
                    )
                }
                None => {
                    level -= 1;
                    writeln!(message, "--b{}--", level + 1)
                }
            };
        }
        message.push_str("--b0--\n");
        let found = alternative_difference(&ScannedMail::parse(message.as_bytes()));
        let found = (found.percent, found.html_words, found.text_words);
        assert_eq!(found, expected, "{parts:?}");
    }

    #[test]
    fn the_words_of_html_that_the_text_lacks() {
        check(&["plain one", "html <p>two"], (0.0, 0, 0));
        check(&["(", "plain one two", "html <p>one two", ")"], (0.0, 2, 2));
        check(&["(", "plain one", "html <p>one two", ")"], (50.0, 2, 1));
        check(&["(", "plain one", "html <p>one one", ")"], (100.0, 1, 1));
        check(&["(", "plain one", ")"], (0.0, 0, 0));
    }

    #[test]
    fn the_last_alternative_gives_the_numbers_of_words() {
        let (first, second) = (
            ["(", "html <p>one two", ")"],
            ["(", "html <p>a", "plain a", ")"],
        );
        check(&[&first[..], &second].concat(), (100.0, 2 - 1, 1));
        check(&[&second[..], &first].concat(), (100.0, 2, 0));
    }

    #[test]
    fn an_alternative_contains_those_inside_it() {
        let inner = ["(", "html <p>one two", "plain one", ")"];
        let outer = [&["(", "plain two"][..], &inner, &["html <p>three", ")"]].concat();
        // The inner one is the last: it lacks one of two words, the outer one of three.
        check(&outer, (50.0, 2, 1));
        let only_outer = [
            "(",
            "(",
            "plain one",
            ")",
            "html <p>one two three four",
            ")",
        ];
        check(&only_outer, (75.0, 4, 1));
    }

    #[test]
    fn an_image_before_all_words_is_a_word() {
        let image = "html <img src=a>";
        check(&["(", image, "plain one", ")"], (100.0, 1, 1));
        check(&["(", image, "html <p>one", "plain one", ")"], (50.0, 2, 1));
        check(&["(", "html <p>one", image, "plain one", ")"], (0.0, 1, 1));
        // Before the words of the inner alternative, but after those of the outer one.
        let inner = ["(", image, ")", "plain one", ")"];
        check(&[&["(", "html <p>one"][..], &inner].concat(), (100.0, 1, 0));
    }
}
