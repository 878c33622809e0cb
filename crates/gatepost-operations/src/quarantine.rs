//! The quarantine as a list, searched, sorted and paged through, and one message of it.
//!
//! In a cluster, each node has all messages in quarantine, so it asks no other one.

use std::cmp::Reverse;

use gatepost_gateway::journal;
use gatepost_mail::Mail;
use gatepost_message::MessageId;
use gatepost_store::JournalEntry;
use serde_json::Value;

use crate::ask_nodes::UnansweredNode;
use crate::error::OperationError;
use crate::operations::{Operations, as_json};
use crate::request::{QuarantineOrder, QuarantinePage, QuarantineSearch, Quarantined, Search};
use crate::search::JournalFilter;

impl Operations {
    /// The journal entries of the messages in quarantine that a search finds, a page of them: all,
    /// or those that one node received.
    pub async fn quarantine(
        &self,
        search: QuarantineSearch,
        node: Option<u8>,
    ) -> Result<QuarantinePage, OperationError> {
        self.check_node(node)?;
        let node = node.filter(|_| self.nodes.is_some());
        self.blocking(move |operations| {
            let (entries, found, total) = operations.quarantine_entries_of(&search, node)?;
            let ids: Vec<MessageId> = entries.iter().map(|entry| entry.id).collect();
            let mut messages = as_json(entries);
            for (entry, id) in messages.iter_mut().zip(ids) {
                operations.note_receiver(entry, id);
            }
            Ok(QuarantinePage {
                messages,
                found,
                total,
                unanswered: operations.unread_part(),
            })
        })
        .await
    }

    /// A message in quarantine.
    pub async fn quarantined(&self, id: MessageId) -> Result<Quarantined, OperationError> {
        self.blocking(move |operations| {
            let entry = operations.entry(id)?;
            let mut story = journal::to_json(&entry.journal);
            operations.note_receiver(&mut story, id);
            Ok(Quarantined {
                story,
                text: Mail::parse(&entry.body).readable_text(),
                source: entry.body,
            })
        })
        .await
    }

    /// In a cluster, notes the node that received a message.
    fn note_receiver(&self, entry: &mut Value, id: MessageId) {
        if self.nodes.is_some() {
            entry["node"] = id.node().into();
        }
    }

    /// The part that may be missing: what other nodes have received since this one has been without
    /// its cluster. `None` without a cluster.
    fn unread_part(&self) -> Option<Vec<UnansweredNode>> {
        let nodes = self.nodes.as_ref()?;
        let missing = UnansweredNode {
            node: None,
            reason: "this node is not part of its cluster, so later messages of other nodes are \
                     missing"
                .to_owned(),
        };
        Some(
            (!nodes.is_joined())
                .then_some(missing)
                .into_iter()
                .collect(),
        )
    }

    /// The entries of the page, and the numbers of those that match and of all. Blocks.
    fn quarantine_entries_of(
        &self,
        search: &QuarantineSearch,
        node: Option<u8>,
    ) -> Result<(Vec<JournalEntry>, usize, usize), OperationError> {
        let filter = JournalFilter::new(&Search {
            text: search.text.clone(),
            ..Search::default()
        });
        if filter.is_empty() && search.order == QuarantineOrder::Newest && node.is_none() {
            let total = self.store.quarantine_count()?;
            let entries = self.store.quarantine_page(search.skip, search.count)?;
            return Ok((entries, total, total));
        }
        // The quarantine is bounded by store.quarantine_max and an entry is small.
        let mut entries = self.store.quarantine(usize::MAX)?;
        entries.retain(|entry| node.is_none_or(|node| entry.id.node() == node));
        let total = match node {
            Some(_) => entries.len(),
            None => self.store.quarantine_count()?,
        };
        entries.retain(|entry| filter.is_empty() || filter.matches(entry));
        sort(&mut entries, search.order);
        let found = entries.len();
        let page = entries.into_iter().skip(search.skip).take(search.count);
        Ok((page.collect(), found, total))
    }
}

/// The entries are sorted newest first, and stay so among equals.
fn sort(entries: &mut [JournalEntry], order: QuarantineOrder) {
    match order {
        QuarantineOrder::Newest => {}
        QuarantineOrder::Oldest => entries.reverse(),
        QuarantineOrder::Score => {
            let score = |entry: &JournalEntry| entry.score.map_or(f64::MIN, |score| score.value);
            entries.sort_by(|a, b| score(b).total_cmp(&score(a)));
        }
        QuarantineOrder::Size => entries.sort_by_key(|entry| Reverse(entry.size)),
        QuarantineOrder::Sender => entries.sort_by_cached_key(|entry| {
            let sender = entry.envelope.sender.as_deref().unwrap_or_default();
            sender.to_lowercase()
        }),
    }
}
