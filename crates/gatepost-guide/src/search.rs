//! The search: the sections that contain the most words of a query, the most relevant first.
//!
//! People ask in sentences: words that every page has do not count, and a word that the guide does
//! not have hides nothing.

use std::sync::LazyLock;

use crate::{SECTIONS, Section};

/// The number of words of a query that are looked for.
const WORDS_MAX: usize = 8;
/// Words that say nothing about a subject.
const COMMON_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "can", "do", "does", "for", "from", "have", "how", "i", "in", "is",
    "it", "me", "my", "of", "on", "or", "the", "there", "to", "what", "when", "where", "which",
    "why", "will", "with", "without", "you", "your",
];
/// The number of sections that are listed.
const FOUND_MAX: usize = 30;
/// The length of an excerpt, in bytes.
const EXCERPT: usize = 220;
/// The weight of a word in a heading, relative to one in the text.
const HEADING_WEIGHT: usize = 20;
/// The weight of a word in the page's title.
const TITLE_WEIGHT: usize = 8;
/// The number of occurrences in a text after which further ones say nothing more.
const OCCURRENCES_MAX: usize = 10;
/// The length of a text, in bytes, from which each occurrence has less weight.
const LONG_TEXT: usize = 4096;

/// A section in lower case.
struct LowercaseSection {
    title: String,
    heading: String,
    text: String,
}

static LOWERED: LazyLock<Vec<LowercaseSection>> = LazyLock::new(|| {
    let lowered = |section: &Section| LowercaseSection {
        title: section.page.to_lowercase(),
        heading: section.heading.to_lowercase(),
        text: section.text.text().to_lowercase(),
    };
    SECTIONS.iter().map(lowered).collect()
});

/// A section that a query found.
#[derive(Debug)]
pub(crate) struct FoundSection {
    pub(crate) section: &'static Section,
    /// The part of its text around the first word.
    pub(crate) excerpt: &'static str,
}

/// The sections for a query.
pub(crate) fn search(query: &str) -> Vec<FoundSection> {
    let query = query.to_lowercase();
    let words = words_of(&query);
    let mut found: Vec<(Relevance, &'static Section, &LowercaseSection)> = SECTIONS
        .iter()
        .zip(LOWERED.iter())
        .filter_map(|(section, lowered)| Some((relevance(lowered, &words)?, section, lowered)))
        .collect();
    // A stable order: equal ones stay in the order of the pages.
    found.sort_by_key(|(relevance, ..)| std::cmp::Reverse(*relevance));
    let most = found.first().map_or(0, |(relevance, ..)| relevance.words);
    found.retain(|(relevance, ..)| relevance.words == most);
    found.truncate(FOUND_MAX);
    let with_excerpt =
        |(_, section, lowered): (Relevance, &'static Section, &LowercaseSection)| FoundSection {
            section,
            excerpt: excerpt(section.text.text(), &lowered.text, &words),
        };
    found.into_iter().map(with_excerpt).collect()
}

/// The words that count; all of them if none does.
fn words_of(query: &str) -> Vec<&str> {
    let all = query
        .split_whitespace()
        .map(|word| word.trim_matches(['?', '!', ',', ';', '"']))
        .filter(|word| !word.is_empty());
    let mut words: Vec<&str> = all
        .clone()
        .filter(|word| !COMMON_WORDS.contains(word))
        .collect();
    if words.is_empty() {
        words.extend(all);
    }
    words.truncate(WORDS_MAX);
    words
}

/// More words decide before their weight does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Relevance {
    words: usize,
    weight: usize,
}

/// `None` if no word is in the section.
fn relevance(section: &LowercaseSection, words: &[&str]) -> Option<Relevance> {
    let mut sum = Relevance {
        words: 0,
        weight: 0,
    };
    for word in words {
        let count = |text: &str, most| text.matches(word).take(most).count();
        let in_heading = count(&section.heading, 1);
        let in_title = count(&section.title, 1);
        let in_text = count(&section.text, OCCURRENCES_MAX);
        // The title alone would find all sections of its page.
        if in_heading + in_text > 0 {
            let density = in_text.div_ceil(1 + section.text.len() / LONG_TEXT);
            sum.words += 1;
            sum.weight += HEADING_WEIGHT * in_heading + TITLE_WEIGHT * in_title + density;
        }
    }
    (sum.words > 0).then_some(sum)
}

/// The text around the first word that it contains. Lower case may have another length, by which
/// the excerpt shifts.
fn excerpt(text: &'static str, lowered: &str, words: &[&str]) -> &'static str {
    let at = words
        .iter()
        .find_map(|word| lowered.find(word))
        .unwrap_or(0);
    let start = text.floor_char_boundary(at.saturating_sub(EXCERPT / 3));
    let end = text.floor_char_boundary((start + EXCERPT).min(text.len()));
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_about_the_words_come_first() {
        let found = search("Slow SUBSCRIBERS");
        assert!(found.len() > 2);
        assert_eq!(found[0].section.heading, "Slow subscribers");
        let all = |found: &FoundSection| {
            let section = found.section;
            let text = format!(
                "{} {} {}",
                section.page,
                section.heading,
                section.text.text()
            );
            let text = text.to_lowercase();
            text.contains("slow") && text.contains("subscribers")
        };
        assert!(found.iter().all(all));
    }

    #[test]
    fn a_question_finds_what_its_subject_finds() {
        let headings = |query| -> Vec<&str> {
            let found = search(query).into_iter();
            found.map(|found| found.section.heading).collect()
        };
        let question = headings("How do I release a mail from the quarantine?");
        assert_eq!(question, headings("release mail quarantine"));
        let first = question.iter().take(3);
        assert!(first.clone().any(|one| *one == "Quarantine"), "{first:?}");
        let unknown = headings("xyzzyplugh subscribers slow");
        assert_eq!(unknown, headings("slow subscribers"));
        assert!(!headings("what is it").is_empty());
    }

    #[test]
    fn nothing_is_found_for_nothing() {
        assert!(search("  ").is_empty());
        assert!(search("xyzzyplugh").is_empty());
    }

    #[test]
    fn an_excerpt_contains_the_word() {
        let found = search("mosquitto_sub");
        let has_word = |one: &FoundSection| one.excerpt.to_lowercase().contains("mosquitto_sub");
        assert!(found.iter().any(has_word));
    }
}
