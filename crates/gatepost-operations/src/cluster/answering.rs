//! A node's part in a question, of itself or of another node.

use std::time::Duration;

use bytes::Bytes;
use gatepost_gateway::journal;
use gatepost_message::MessageId;
use serde_json::{Value, json};

use super::limits::{PAGE_BYTES_MAX, SEARCH_TIME_MAX};
use super::question::{self, NodeAnswer, NodeQuestion};
use crate::error::OperationError;
use crate::journal_search;
use crate::operations::Operations;
use crate::request::Search;

impl Operations {
    /// Answers a question of another node. That node has checked the rights of the administrator
    /// who asks: only nodes have the login of the subject on which questions come.
    pub async fn answer(&self, asked: Bytes) -> Bytes {
        let answer = async {
            let question = NodeQuestion::of_bytes(&asked)?.bounded();
            self.carry_out(question, SEARCH_TIME_MAX).await
        };
        question::encode(answer.await)
    }

    pub(super) async fn carry_out(
        &self,
        question: NodeQuestion,
        search_time_max: Duration,
    ) -> Result<NodeAnswer, OperationError> {
        match question {
            NodeQuestion::Journal(asked) => {
                let search = Search::try_from(asked)?;
                self.journal_page(search, search_time_max).await
            }
            NodeQuestion::Story(id) => {
                NodeAnswer::of(&self.own_story(MessageId::from_number(id)).await?)
            }
        }
    }

    /// Entries of the journal of this node, fewer if they are too large for an answer.
    async fn journal_page(
        &self,
        search: Search,
        time_max: Duration,
    ) -> Result<NodeAnswer, OperationError> {
        self.blocking(move |operations| {
            let found = journal_search::search_journal(&operations.store, &search, time_max)?;
            let (mut next, mut bytes) = (found.next, 0);
            let mut messages = Vec::with_capacity(found.entries.len());
            for entry in found.entries {
                if bytes > PAGE_BYTES_MAX {
                    next = messages.last().map(|(id, _)| *id);
                    break;
                }
                bytes += entry_bytes(&entry);
                messages.push((entry.id, journal::to_json(&entry)));
            }
            let messages: Vec<Value> = messages.into_iter().map(|(_, entry)| entry).collect();
            NodeAnswer::of(&json!({
                "messages": messages,
                "next": next.map(MessageId::number),
                "compared": found.compared,
            }))
        })
        .await
    }
}

/// About the bytes of an entry as JSON: the parts that its sender can make long.
fn entry_bytes(entry: &gatepost_store::JournalEntry) -> usize {
    const OTHERS: usize = 512;
    const EACH: usize = 64;
    let texts = entry.envelope.recipients.iter().map(String::len);
    let topics = entry.topics.iter().map(|topic| topic.as_str().len());
    let lengths: usize = texts.chain(topics).sum();
    OTHERS + lengths + EACH * entry.hits.len() + entry.reason.len()
}
