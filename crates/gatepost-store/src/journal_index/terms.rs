//! The terms of journal entries: small numbers that the index stores instead of texts.
//!
//! A text has a term for each three consecutive characters in lower case, so a part of it is found
//! wherever it begins. The verdict, and each rule and topic as a whole, have a term of their own. A
//! term is a hash: an entry that has all terms of a search may still not match, so the search
//! compares each entry, but an entry that lacks one of them cannot match.
//!
//! [`EntryTerms::add`] must cover every field that a search compares. A change of these terms makes
//! existing indexes wrong, so it needs another [`FORMAT`](super::file::FORMAT).

use std::collections::BTreeSet;

use gatepost_message::{Action, TopicFilter};
use hashbrown::HashSet;

use crate::JournalEntry;

/// The bits of a term; a mail has about 250 of them, and a journal some ten thousand.
const TERM_BITS: u32 = 25;
/// The bits of a character of a term's text.
const CHARACTER_BITS: u32 = 5;
/// The characters of a term's text.
const TEXT_CHARACTERS: u32 = TERM_BITS / CHARACTER_BITS;
const ALPHABET: &[u8; 1 << CHARACTER_BITS] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The offset and the prime of the hash FNV-1a with 64 bits.
const HASH_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// The kinds of terms, so that a rule is not found by a topic of the same name.
#[derive(Clone, Copy)]
enum TermKind {
    Characters,
    Verdict,
    Rule,
    Topic,
}

/// The terms that every entry has which a search finds. Without terms, any entry may match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalTerms(BTreeSet<u32>);

impl JournalTerms {
    /// Requires a text that contains `part`, in any case. A part of less than three characters
    /// requires nothing.
    pub fn require_text(&mut self, part: &str) {
        each_of_text(part, |term| {
            self.0.insert(term);
        });
    }

    /// Requires this verdict.
    pub fn require_verdict(&mut self, verdict: Action) {
        self.0
            .insert(whole(TermKind::Verdict, verdict.name().as_bytes()));
    }

    /// Requires a rule of this name, in any case.
    pub fn require_rule(&mut self, name: &str) {
        let name = name.to_lowercase();
        self.0.insert(whole(TermKind::Rule, name.as_bytes()));
    }

    /// Requires a topic that matches the filter.
    pub fn require_topic(&mut self, filter: &TopicFilter) {
        if !filter.has_wildcard() {
            let topic = whole(TermKind::Topic, filter.as_str().as_bytes());
            self.0.insert(topic);
            return;
        }
        // `a/#` matches `a` too, so that slash is no part of every match.
        let levels = filter.as_str();
        let levels = levels.strip_suffix("/#").unwrap_or(levels);
        for literal in levels.split(['+', '#']) {
            self.require_text(literal);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The FTS5 query for rows with all terms.
    pub(super) fn query(&self) -> String {
        let mut query = String::new();
        for (number, term) in self.0.iter().enumerate() {
            if number > 0 {
                query.push_str(" AND ");
            }
            query.push('"');
            push_text(&mut query, *term);
            query.push('"');
        }
        query
    }
}

/// The terms of some entries, each once.
#[derive(Default)]
pub(super) struct EntryTerms(HashSet<u32>);

impl EntryTerms {
    /// Adds the terms of one entry.
    pub(super) fn add(&mut self, entry: &JournalEntry) {
        let envelope = &entry.envelope;
        self.add_text(&entry.id.to_string());
        self.add_text(&entry.reason);
        self.add_text(&envelope.peer.to_string());
        let texts = [
            &entry.subject,
            &envelope.sender,
            &envelope.user,
            &envelope.client,
        ];
        for text in texts.into_iter().flatten().chain(&envelope.recipients) {
            self.add_text(text);
        }
        for topic in entry.all_topics() {
            self.add_text(topic.as_str());
            self.0
                .insert(whole(TermKind::Topic, topic.as_str().as_bytes()));
        }
        for hit in &entry.hits {
            let name = hit.name.to_lowercase();
            self.add_text(&name);
            self.0.insert(whole(TermKind::Rule, name.as_bytes()));
        }
        let verdict = whole(TermKind::Verdict, entry.action.name().as_bytes());
        self.0.insert(verdict);
    }

    fn add_text(&mut self, text: &str) {
        each_of_text(text, |term| {
            self.0.insert(term);
        });
    }

    /// The text that FTS5 divides into the terms.
    pub(super) fn text(&self) -> String {
        let mut text = String::with_capacity(self.0.len() * (TEXT_CHARACTERS as usize + 1));
        for term in &self.0 {
            push_text(&mut text, *term);
            text.push(' ');
        }
        text
    }
}

/// Visits the terms of each three consecutive characters.
fn each_of_text(text: &str, mut visit: impl FnMut(u32)) {
    let (mut first, mut second) = (None, None);
    for third in text.to_lowercase().chars() {
        if let (Some(first), Some(second)) = (first, second) {
            let mut hash = TermHash::new(TermKind::Characters);
            for character in [first, second, third] {
                hash.add(u64::from(u32::from(character)));
            }
            visit(hash.term());
        }
        (first, second) = (second, Some(third));
    }
}

fn whole(kind: TermKind, bytes: &[u8]) -> u32 {
    let mut hash = TermHash::new(kind);
    for byte in bytes {
        hash.add(u64::from(*byte));
    }
    hash.term()
}

fn push_text(text: &mut String, term: u32) {
    for character in 0..TEXT_CHARACTERS {
        let digit = (term >> (character * CHARACTER_BITS)) as usize % ALPHABET.len();
        text.push(char::from(ALPHABET[digit]));
    }
}

/// FNV-1a, which is the same in every version of the program; its high bits are mixed best.
struct TermHash(u64);

impl TermHash {
    const fn new(kind: TermKind) -> Self {
        Self((HASH_OFFSET ^ kind as u64).wrapping_mul(HASH_PRIME))
    }

    const fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(HASH_PRIME);
    }

    const fn term(self) -> u32 {
        // The low bits depend on the low bits of the numbers only, the highest on the last least.
        ((self.0 ^ (self.0 >> 32)) & ((1 << TERM_BITS) - 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> BTreeSet<u32> {
        let mut terms = JournalTerms::default();
        terms.require_text(text);
        terms.0
    }

    #[test]
    fn the_terms_of_a_part_are_terms_of_the_text() {
        let text = of_text("Ωmega Straße\0info@example.org");
        for part in ["ωMEG", "aße\0i", "STRA", "@example", "org"] {
            assert!(of_text(part).is_subset(&text), "{part}");
        }
        for other in ["strasse", "org.", "example.com"] {
            assert!(!of_text(other).is_subset(&text), "{other}");
        }
        assert!(of_text("ab").is_empty());
    }

    #[test]
    fn a_filter_asks_for_its_literal_parts() {
        let of_filter = |filter| {
            let mut terms = JournalTerms::default();
            terms.require_topic(&TopicFilter::new(filter).expect("a filter"));
            terms.0
        };
        assert!(of_filter("#").is_empty());
        assert!(of_filter("+/a/+").is_subset(&of_text("b/a/c")));
        assert!(of_filter("home/#").is_subset(&of_text("home")));
        assert!(of_filter("+/temperature").is_subset(&of_text("kitchen/temperature")));
        assert!(!of_filter("+/temperature").is_subset(&of_text("kitchen/humidity")));
        let mut rule = JournalTerms::default();
        rule.require_rule("home");
        assert_ne!(of_filter("home"), rule.0);
    }

    #[test]
    fn common_terms_do_not_collide() {
        let mut found = BTreeSet::new();
        let mut count = 0;
        for first in 'a'..='z' {
            for second in 'a'..='z' {
                for third in 'a'..='z' {
                    found.extend(of_text(&String::from_iter([first, second, third])));
                    count += 1;
                }
            }
        }
        // 17,576 of 33,554,432 numbers: about 5 are expected to be shared.
        assert!(count - found.len() < 30, "{}", count - found.len());
    }
}
