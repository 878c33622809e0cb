//! Compares journal entries with a search.

use gatepost_message::{Action, TopicFilter};
use gatepost_store::{JournalEntry, JournalTerms};

use crate::request::Search;

/// A search whose texts are in lower case. Time and place in the journal are not compared here.
pub(crate) struct JournalFilter {
    text: String,
    verdict: Option<Action>,
    rule: String,
    topic: Option<TopicFilter>,
    sender: String,
}

impl JournalFilter {
    pub(crate) fn new(search: &Search) -> Self {
        Self {
            text: search.text.to_lowercase(),
            verdict: search.verdict,
            rule: search.rule.to_lowercase(),
            topic: search.topic.clone(),
            sender: search.sender.to_lowercase(),
        }
    }

    /// Whether every entry matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.verdict.is_none()
            && self.rule.is_empty()
            && self.topic.is_none()
            && self.sender.is_empty()
    }

    /// The terms of every entry that matches. The index knows each field that is compared below.
    pub(crate) fn terms(&self) -> JournalTerms {
        let mut terms = JournalTerms::default();
        terms.require_text(&self.text);
        terms.require_text(&self.sender);
        if let Some(verdict) = self.verdict {
            terms.require_verdict(verdict);
        }
        if !self.rule.is_empty() {
            terms.require_rule(&self.rule);
        }
        if let Some(topic) = &self.topic {
            terms.require_topic(topic);
        }
        terms
    }

    pub(crate) fn matches(&self, entry: &JournalEntry) -> bool {
        // The cheapest first.
        self.verdict.is_none_or(|verdict| verdict == entry.action)
            && self.matches_topic(entry)
            && self.matches_rule(entry)
            && self.matches_sender(entry)
            && self.matches_text(entry)
    }

    fn matches_topic(&self, entry: &JournalEntry) -> bool {
        let Some(filter) = &self.topic else {
            return true;
        };
        let mut topics = entry.all_topics().iter();
        topics.any(|topic| filter.matches(topic.as_str()))
    }

    fn matches_rule(&self, entry: &JournalEntry) -> bool {
        let mut names = entry.hits.iter().map(|hit| &hit.name);
        self.rule.is_empty() || names.any(|name| name.to_lowercase() == self.rule)
    }

    fn matches_sender(&self, entry: &JournalEntry) -> bool {
        let envelope = &entry.envelope;
        let names = [&envelope.sender, &envelope.user, &envelope.client];
        self.sender.is_empty()
            || names
                .into_iter()
                .flatten()
                .any(|name| name.to_lowercase().contains(&self.sender))
    }

    fn matches_text(&self, entry: &JournalEntry) -> bool {
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
