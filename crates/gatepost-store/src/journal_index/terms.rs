//! The terms of journal entries: the numbers by which the index knows texts.
//!
//! A text has a term for each three consecutive characters in lower case, so a part of it is found
//! wherever it begins. The verdict, and each rule and topic as a whole, have a term of their own. A
//! term is a hash: an entry that has all terms of a search may still not match, so the search
//! compares each entry, but an entry that lacks one of them cannot match.
//!
//! [`add_entry`] must cover every field that a search compares. A change of these terms makes
//! existing indexes wrong, so it needs another [`FORMAT`](super::file::FORMAT).

use std::collections::BTreeSet;

use gatepost_message::{Action, TopicFilter};

use super::signature::{JournalTerm, Signature, places_of};
use crate::JournalEntry;

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
pub struct JournalTerms(BTreeSet<JournalTerm>);

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
        self.require_text(&name);
        self.0.insert(whole(TermKind::Rule, name.as_bytes()));
    }

    /// Requires a topic that matches the filter.
    pub fn require_topic(&mut self, filter: &TopicFilter) {
        if !filter.has_wildcard() {
            self.require_text(filter.as_str());
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

    /// The places of the bits that a signature must have, in their order.
    pub(super) fn places(&self) -> Vec<usize> {
        places_of(&self.0)
    }
}

/// Adds the terms of an entry to the signature of its block.
pub(super) fn add_entry(signature: &mut Signature, entry: &JournalEntry) {
    let envelope = &entry.envelope;
    add_text(signature, &entry.id.to_string());
    add_text(signature, &entry.reason);
    add_text(signature, &envelope.peer.to_string());
    let texts = [
        &entry.subject,
        &envelope.sender,
        &envelope.user,
        &envelope.client,
    ];
    for text in texts.into_iter().flatten().chain(&envelope.recipients) {
        add_text(signature, text);
    }
    for topic in entry.all_topics() {
        add_text(signature, topic.as_str());
        signature.add(whole(TermKind::Topic, topic.as_str().as_bytes()));
    }
    for hit in &entry.hits {
        let name = hit.name.to_lowercase();
        add_text(signature, &name);
        signature.add(whole(TermKind::Rule, name.as_bytes()));
    }
    signature.add(whole(TermKind::Verdict, entry.action.name().as_bytes()));
}

fn add_text(signature: &mut Signature, text: &str) {
    each_of_text(text, |term| signature.add(term));
}

/// Visits the terms of each three consecutive characters.
fn each_of_text(text: &str, mut visit: impl FnMut(JournalTerm)) {
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

fn whole(kind: TermKind, bytes: &[u8]) -> JournalTerm {
    let mut hash = TermHash::new(kind);
    for byte in bytes {
        hash.add(u64::from(*byte));
    }
    hash.term()
}

/// FNV-1a, which is the same in every version of the program.
struct TermHash(u64);

impl TermHash {
    const fn new(kind: TermKind) -> Self {
        Self((HASH_OFFSET ^ kind as u64).wrapping_mul(HASH_PRIME))
    }

    const fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(HASH_PRIME);
    }

    const fn term(self) -> JournalTerm {
        JournalTerm(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal_index::signature::SIGNATURE_BITS;

    fn of_text(text: &str) -> BTreeSet<JournalTerm> {
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
    fn common_terms_are_spread_over_the_signature() {
        let mut found = BTreeSet::new();
        let mut count = 0_usize;
        for first in 'a'..='z' {
            for second in 'a'..='z' {
                for third in 'a'..='z' {
                    found.extend(of_text(&String::from_iter([first, second, third])));
                    count += 1;
                }
            }
        }
        assert_eq!(found.len(), count);
        // Each place is that of as many terms as any other.
        let mut uses = vec![0_usize; SIGNATURE_BITS];
        for place in found.iter().flat_map(|term| term.places()) {
            uses[place] += 1;
        }
        let expected = 3.0 * count as f64 / SIGNATURE_BITS as f64;
        let squares = uses.iter().map(|&uses| (uses as f64 - expected).powi(2));
        let chi_squared = squares.sum::<f64>() / expected / SIGNATURE_BITS as f64;
        assert!((0.9..1.1).contains(&chi_squared), "{chi_squared}");
    }
}
