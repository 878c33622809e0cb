//! The quarantine of all nodes as one list.
//!
//! A page of a sorted list that is skipped to needs the order of all messages before it. So the
//! nodes are asked for the order first, which is a few bytes for each message, and then for the
//! entries of the page.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use gatepost_gateway::journal;
use gatepost_mail::Mail;
use gatepost_message::MessageId;
use gatepost_store::JournalEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asking::{Asked, NodeAnswers};
use super::journal::note_node;
use super::limits::{MERGED_MAX, SEARCH_TIME_MAX};
use super::question::NodeQuestion;
use crate::error::OperationError;
use crate::operations::Operations;
use crate::request::{QuarantineOrder, QuarantinePage, QuarantineSearch, Quarantined};

/// The order of a node's messages in quarantine.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct QuarantineKeys {
    keys: Vec<QuarantineKey>,
    found: usize,
    total: usize,
}

/// The place of a message in the order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct QuarantineKey {
    id: u64,
    number: f64,
    text: String,
}

impl QuarantineKey {
    fn of(entry: &JournalEntry, order: QuarantineOrder) -> Self {
        let (mut number, mut text) = (0.0, String::new());
        match order {
            QuarantineOrder::Newest | QuarantineOrder::Oldest => {}
            QuarantineOrder::Score => {
                number = entry.score.map_or(f64::MIN, |score| score.value);
            }
            QuarantineOrder::Size => number = entry.size as f64,
            QuarantineOrder::Sender => {
                let sender = entry.envelope.sender.as_deref().unwrap_or_default();
                text = sender.to_lowercase();
            }
        }
        let id = entry.id.number();
        Self { id, number, text }
    }

    /// The order of a node (`quarantine.rs` beside this folder).
    fn compare(&self, other: &Self, order: QuarantineOrder) -> Ordering {
        let by_id = other.id.cmp(&self.id);
        if order == QuarantineOrder::Oldest {
            return by_id.reverse();
        }
        let by_number = other.number.total_cmp(&self.number);
        by_number
            .then_with(|| self.text.cmp(&other.text))
            .then(by_id)
    }
}

impl Operations {
    /// The journal entries of the messages in quarantine that a search finds, a page of them: those
    /// of all nodes, or of one.
    pub async fn quarantine(
        &self,
        search: QuarantineSearch,
        node: Option<u8>,
    ) -> Result<QuarantinePage, OperationError> {
        let one = match self.asked(node)? {
            Asked::All => return self.quarantine_of_all(search).await,
            Asked::One(node) => Some(node),
            Asked::Alone => None,
        };
        let question = NodeQuestion::QuarantinePage(search);
        let answer = self.ask_one(one, question, SEARCH_TIME_MAX).await?;
        let mut page: QuarantinePage = answer.read()?;
        if let Some(node) = one {
            page.messages
                .iter_mut()
                .for_each(|entry| note_node(entry, node));
            page.unanswered = Some(Vec::new());
        }
        Ok(page)
    }

    async fn quarantine_of_all(
        &self,
        search: QuarantineSearch,
    ) -> Result<QuarantinePage, OperationError> {
        let Some(nodes) = &self.nodes else {
            return Err(OperationError::NotFound);
        };
        let end = search.skip.saturating_add(search.count);
        if end > MERGED_MAX {
            return Err(OperationError::TooFar(MERGED_MAX));
        }
        let question = NodeQuestion::QuarantineKeys(QuarantineSearch {
            skip: 0,
            count: end,
            ..search.clone()
        });
        let NodeAnswers { given, unanswered } = self.ask_all(nodes, &question).await?;
        let (mut keys, mut found, mut total) = (Vec::new(), 0, 0);
        for (node, answer) in given {
            let of_node: QuarantineKeys = answer.read()?;
            found += of_node.found;
            total += of_node.total;
            keys.extend(of_node.keys.into_iter().map(|key| (key, node)));
        }
        keys.sort_by(|(a, one), (b, other)| a.compare(b, search.order).then(one.cmp(other)));
        let page: Vec<(u64, u8)> = keys
            .into_iter()
            .skip(search.skip)
            .take(search.count)
            .map(|(key, node)| (key.id, node))
            .collect();
        let mut ids: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        for (id, node) in &page {
            ids.entry(*node).or_default().push(*id);
        }
        let questions = ids.into_iter();
        let questions = questions.map(|(node, ids)| (node, NodeQuestion::QuarantineEntries(ids)));
        let answers = self.ask_each(questions.collect()).await?;
        let mut entries: HashMap<(u64, u8), Value> = HashMap::new();
        for (node, answer) in answers.given {
            let of_node: Vec<(u64, Value)> = answer.read()?;
            for (id, mut entry) in of_node {
                note_node(&mut entry, node);
                entries.insert((id, node), entry);
            }
        }
        Ok(QuarantinePage {
            // A message that has left the quarantine meanwhile is left out.
            messages: page.iter().filter_map(|key| entries.remove(key)).collect(),
            found,
            total,
            unanswered: Some([unanswered, answers.unanswered].concat()),
        })
    }

    /// The order of this node's messages.
    pub(super) async fn quarantine_keys(
        &self,
        search: QuarantineSearch,
    ) -> Result<QuarantineKeys, OperationError> {
        self.blocking(move |operations| {
            let (entries, found, total) = operations.quarantine_entries_of(&search)?;
            let keys = entries.iter();
            Ok(QuarantineKeys {
                keys: keys
                    .map(|entry| QuarantineKey::of(entry, search.order))
                    .collect(),
                found,
                total,
            })
        })
        .await
    }

    /// The journal entries of messages that are still in quarantine here.
    pub(super) async fn quarantine_entries(
        &self,
        ids: Vec<u64>,
    ) -> Result<Vec<(u64, Value)>, OperationError> {
        self.blocking(move |operations| {
            let mut entries = Vec::with_capacity(ids.len());
            for id in ids {
                let entry = operations.store.journal_entry(MessageId::from_number(id))?;
                entries.extend(entry.map(|entry| (id, journal::to_json(&entry))));
            }
            Ok(entries)
        })
        .await
    }

    /// A message in quarantine, on whichever node.
    pub async fn quarantined(
        &self,
        id: MessageId,
        node: Option<u8>,
    ) -> Result<Quarantined, OperationError> {
        let question = NodeQuestion::Quarantined(id.number());
        let (node, answer) = self.ask_about(id, node, question).await?;
        let mut story = answer.content;
        if let Some(node) = node {
            note_node(&mut story, node);
        }
        let source = answer.body;
        let text = {
            let source = source.clone();
            self.blocking(move |_| Ok(Mail::parse(&source).readable_text()))
        };
        Ok(Quarantined {
            story,
            text: text.await?,
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_the_list_of_one_node() {
        let key = |id, number, text: &str| QuarantineKey {
            id,
            number,
            text: text.to_owned(),
        };
        let sorted = |order, mut keys: Vec<QuarantineKey>| -> Vec<u64> {
            keys.sort_by(|one, other| one.compare(other, order));
            keys.into_iter().map(|key| key.id).collect()
        };
        let same = || vec![key(2, 0.0, ""), key(3, 0.0, ""), key(1, 0.0, "")];
        assert_eq!(sorted(QuarantineOrder::Newest, same()), [3, 2, 1]);
        assert_eq!(sorted(QuarantineOrder::Oldest, same()), [1, 2, 3]);
        let scores = vec![key(1, 5.0, ""), key(2, f64::MIN, ""), key(3, 5.0, "")];
        assert_eq!(sorted(QuarantineOrder::Score, scores), [3, 1, 2]);
        let senders = vec![key(1, 0.0, "b"), key(2, 0.0, "a"), key(3, 0.0, "b")];
        assert_eq!(sorted(QuarantineOrder::Sender, senders), [2, 3, 1]);
    }
}
