//! Compares journal entries with a search.

use gatepost_message::Action;
use gatepost_store::JournalEntry;

use crate::request::Search;

/// A search whose text is in lower case.
pub(crate) struct JournalFilter {
    text: String,
    verdict: Option<Action>,
}

impl JournalFilter {
    pub(crate) fn new(search: &Search) -> Self {
        Self {
            text: search.text.to_lowercase(),
            verdict: search.verdict,
        }
    }

    /// Whether every entry matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.verdict.is_none()
    }

    pub(crate) fn matches(&self, entry: &JournalEntry) -> bool {
        if self.verdict.is_some_and(|verdict| verdict != entry.action) {
            return false;
        }
        if self.text.is_empty() {
            return true;
        }
        let contains = |text: &str| text.to_lowercase().contains(&self.text);
        let envelope = &entry.envelope;
        let mut recipients = envelope.recipients.iter();
        contains(&entry.id.to_string())
            || contains(&entry.reason)
            || contains(&envelope.peer.to_string())
            || entry.subject.as_deref().is_some_and(contains)
            || entry
                .all_topics()
                .iter()
                .any(|topic| contains(topic.as_str()))
            || envelope.sender.as_deref().is_some_and(contains)
            || recipients.any(|recipient| contains(recipient))
            || entry.hits.iter().any(|hit| contains(&hit.name))
    }
}
