//! The journal of all nodes as one list, and the story of one message.
//!
//! Each node answers with its newest matches, and with the id down to which these are all of its
//! matches. The highest of these ids is the horizon: down to there, the matches of all nodes are
//! known, and later entries are left to the next page. The next page is named by one id, as that
//! of a single server, because ids of different nodes differ and are ordered by time.

use std::cmp::Reverse;
use std::time::Duration;

use gatepost_message::MessageId;
use serde::Deserialize;
use serde_json::Value;

use super::asking::{Asked, NodeAnswers, unanswered};
use super::question::{AskedSearch, NodeQuestion};
use crate::error::OperationError;
use crate::operations::Operations;
use crate::request::{JournalPage, Search};

/// The time after which a search on this node alone returns the matches found so far.
const OWN_SEARCH_TIME_MAX: Duration = Duration::from_secs(5);

/// The part of one node.
#[derive(Debug, Clone, Default, Deserialize)]
struct NodePage {
    messages: Vec<Value>,
    /// The id down to which these are all matches; `None` if there are no others.
    next: Option<u64>,
    compared: usize,
}

/// An entry, the node that has it, and its id.
type EntryOfNode = (MessageId, u8, Value);

impl Operations {
    /// Journal entries of judged messages that a search finds, newest first: those of all nodes, or
    /// of one.
    pub async fn messages(
        &self,
        search: Search,
        node: Option<u8>,
    ) -> Result<JournalPage, OperationError> {
        let question = NodeQuestion::Journal(AskedSearch::from(&search));
        let one = match self.asked(node)? {
            Asked::All(nodes) => {
                let answers = self.ask_all(nodes, &question).await?;
                return Ok(merged(answers, search.count));
            }
            Asked::One(node) => Some(node),
            Asked::Alone => None,
        };
        let answer = self.ask_one(one, question, OWN_SEARCH_TIME_MAX).await?;
        let mut page: NodePage = answer.read()?;
        if let Some(node) = one {
            page.messages
                .iter_mut()
                .for_each(|entry| note_node(entry, node));
        }
        Ok(JournalPage {
            messages: page.messages,
            next: page.next.map(MessageId::from_number),
            compared: page.compared,
            unanswered: one.map(|_| Vec::new()),
        })
    }

    /// One message's journal entry, with what happened to it at each subscriber (`steps`), as far
    /// as its node still has it.
    pub async fn story(&self, id: MessageId, node: Option<u8>) -> Result<Value, OperationError> {
        let question = NodeQuestion::Story(id.number());
        let (node, answer) = self.ask_about(id, node, question).await?;
        let mut story = answer.content;
        if let Some(node) = node {
            note_node(&mut story, node);
        }
        Ok(story)
    }
}

fn note_node(entry: &mut Value, node: u8) {
    entry["node"] = node.into();
}

fn merged(mut answers: NodeAnswers, count: usize) -> JournalPage {
    let mut pages = Vec::new();
    for (node, answer) in answers.given {
        match answer.read::<NodePage>() {
            Ok(page) => pages.push((node, page)),
            Err(error) => answers.unanswered.push(unanswered(node, error)),
        }
    }
    let compared = pages.iter().map(|(_, page)| page.compared).sum();
    let (messages, next) = merge(pages, count);
    JournalPage {
        messages,
        next,
        compared,
        unanswered: Some(answers.unanswered),
    }
}

/// The newest entries of these pages, and the id before which the next page begins.
fn merge(pages: Vec<(u8, NodePage)>, count: usize) -> (Vec<Value>, Option<MessageId>) {
    let horizon = pages.iter().filter_map(|(_, page)| page.next).max();
    let horizon = horizon.map(MessageId::from_number);
    let mut entries: Vec<EntryOfNode> = Vec::new();
    for (node, page) in pages {
        for entry in page.messages {
            let id = entry["id"].as_str().and_then(|id| id.parse().ok());
            // An entry without an id comes from no release.
            let Some(id) = id.filter(|id| horizon.is_none_or(|horizon| *id >= horizon)) else {
                continue;
            };
            entries.push((id, node, entry));
        }
    }
    // A message that was put into quarantine is in the journal of each node: the entry of the node
    // that received it comes first and remains.
    entries.sort_by_key(|(id, node, _)| (Reverse(*id), id.node() != *node, *node));
    entries.dedup_by(|(id, _, entry), (before, _, first)| id == before && is_one(entry, first));
    for (_, node, entry) in &mut entries {
        note_node(entry, *node);
    }
    let mut next = horizon;
    if entries.len() > count {
        // Servers that had the same number once may have given the same id. The next page begins
        // after an id, so this one has all entries of its last id.
        let last = entries.get(count.saturating_sub(1)).map(|(id, ..)| *id);
        let rest = entries.iter().skip(count);
        let same = rest.take_while(|(id, ..)| Some(*id) == last).count();
        if entries.len() > count + same {
            entries.truncate(count + same);
            next = last;
        }
    }
    (entries.into_iter().map(|(.., entry)| entry).collect(), next)
}

/// Whether two entries of an id are of one message, which is known by what it had when it arrived:
/// its verdict may be changed on one of the nodes already, and scores may be rounded on their way.
fn is_one(entry: &Value, other: &Value) -> bool {
    let fields = [
        "listener",
        "peer",
        "sender",
        "recipients",
        "subject",
        "size",
    ];
    fields.iter().all(|field| entry[field] == other[field])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::question::NodeAnswer;
    use super::*;

    /// The answer of a node with these ids, newest first, which compares so many entries at most.
    fn page(
        node: u8,
        ids: &[u64],
        before: Option<u64>,
        count: usize,
        compared_max: usize,
    ) -> NodePage {
        let rest = ids.iter().copied();
        let rest: Vec<u64> = rest
            .filter(|id| before.is_none_or(|before| *id < before))
            .collect();
        let taken = count.min(compared_max).min(rest.len());
        let entry = |id: &u64| {
            let id = MessageId::from_number(*id);
            json!({ "id": id.to_string(), "subject": format!("of node {node}") })
        };
        NodePage {
            messages: rest[..taken].iter().map(entry).collect(),
            next: (taken < rest.len()).then(|| rest[taken - 1]),
            compared: taken,
        }
    }

    fn id_of(entry: &Value) -> u64 {
        let id: MessageId = entry["id"].as_str().expect("text").parse().expect("an id");
        id.number()
    }

    #[test]
    fn the_pages_of_all_nodes_have_each_entry_once_and_in_order() {
        // Three nodes with equal times, one of them with an id of another one, and an empty node.
        let nodes: [Vec<u64>; 4] = [
            (1..90).rev().map(|number| number << 9 | 2).collect(),
            (30..60).rev().map(|number| number << 9 | 4).collect(),
            (1..40)
                .rev()
                .map(|number| number << 9 | if number == 35 { 2 } else { 6 })
                .collect(),
            Vec::new(),
        ];
        let mut expected: Vec<u64> = nodes.iter().flatten().copied().collect();
        expected.sort_unstable_by_key(|id| Reverse(*id));
        for count in [1, 2, 3, 7, 50, 1_000] {
            for compared_max in [1, 4, 1_000] {
                let (mut found, mut before) = (Vec::new(), None);
                loop {
                    let pages = (1..).zip(&nodes);
                    let pages = pages.map(|(node, ids)| {
                        // Each node is differently fast.
                        let compared_max = compared_max + usize::from(node);
                        (node, page(node, ids, before, count, compared_max))
                    });
                    let (entries, next) = merge(pages.collect(), count);
                    assert!(entries.len() <= count + 1, "{count} {compared_max}");
                    found.extend(entries.iter().map(id_of));
                    let Some(next) = next else { break };
                    assert!(before.is_none_or(|before| next.number() < before));
                    before = Some(next.number());
                }
                assert_eq!(found, expected, "{count} {compared_max}");
            }
        }
    }

    #[test]
    fn an_answer_of_a_later_version_is_read_or_reported() {
        let id = MessageId::from_number(1 << 20 | 1 << 1);
        let entry = json!({ "id": id.to_string(), "later": 1 });
        let extended = json!({ "messages": [entry], "next": null, "compared": 1, "later": 1 });
        let given = [(1, extended), (2, json!({ "pages": [] }))];
        let given = given.map(|(node, content)| (node, NodeAnswer { content }));
        let page = merged(
            NodeAnswers {
                given: given.into(),
                unanswered: Vec::new(),
            },
            10,
        );
        assert_eq!(page.messages.len(), 1);
        assert_eq!(page.messages[0]["later"], 1);
        let unanswered = page.unanswered.expect("a cluster");
        assert_eq!(unanswered.len(), 1);
        assert_eq!(unanswered[0].node, Some(2));
        let reason = &unanswered[0].reason;
        assert!(
            reason.starts_with("node 2: nodes of this cluster do not understand"),
            "{reason}"
        );
    }

    #[test]
    fn a_quarantined_message_that_all_nodes_have_is_listed_once() {
        let id = MessageId::from_number(1 << 20 | 2 << 1);
        let pages = [1, id.node(), 3].map(|node| {
            // The first node has read that the message was released.
            let verdict = if node == 1 { "accept" } else { "quarantine" };
            let entry = json!({ "id": id.to_string(), "size": 7, "action": verdict });
            let page = NodePage {
                messages: vec![entry],
                ..NodePage::default()
            };
            (node, page)
        });
        let (entries, next) = merge(pages.into(), 10);
        assert_eq!(next, None);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0]["node"], id.node());
    }
}
