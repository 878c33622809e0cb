//! Questions of a node to another one, and answers, as bytes.
//!
//! A question is JSON. An answer is the length of a JSON text in 4 bytes, and the text. The
//! transport has a version for both.
//!
//! Nodes of different versions ask each other while a cluster is upgraded:
//!
//! - A node refuses a question with a field that it does not know, because the answer would be
//!   wrong without it. The other node then reports that this one must be updated. So a later
//!   version writes a new field only where the question needs it.
//! - Fields of an answer that a node does not know are left out or passed on, so a later version
//!   may add some. It removes none.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gatepost_message::{Action, MessageId, TopicFilter};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits::ENTRIES_MAX;
use crate::error::OperationError;
use crate::request::Search;

/// A question to a node. Messages are named by the numbers of their ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum NodeQuestion {
    /// Entries of the journal.
    Journal(AskedSearch),
    /// The story of a message.
    Story(u64),
}

/// A search in the journal.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AskedSearch {
    text: String,
    verdict: Option<String>,
    rule: String,
    topic: Option<String>,
    sender: String,
    since: Option<std::time::SystemTime>,
    until: Option<std::time::SystemTime>,
    before: Option<u64>,
    count: usize,
}

impl AskedSearch {
    /// Limits the number of entries.
    pub(super) fn bound(&mut self, count_max: usize) {
        self.count = self.count.min(count_max);
    }
}

impl From<&Search> for AskedSearch {
    fn from(search: &Search) -> Self {
        Self {
            text: search.text.clone(),
            verdict: search.verdict.map(|verdict| verdict.name().to_owned()),
            rule: search.rule.clone(),
            topic: search.topic.as_ref().map(|topic| topic.as_str().to_owned()),
            sender: search.sender.clone(),
            since: search.since,
            until: search.until,
            before: search.before.map(MessageId::number),
            count: search.count,
        }
    }
}

impl TryFrom<AskedSearch> for Search {
    type Error = OperationError;

    fn try_from(asked: AskedSearch) -> Result<Self, OperationError> {
        let verdict = asked.verdict.map(|name| name.parse::<Action>());
        let topic = asked.topic.map(|filter| TopicFilter::new(&filter));
        Ok(Self {
            text: asked.text,
            verdict: verdict.transpose().map_err(unreadable)?,
            rule: asked.rule,
            topic: topic.transpose().map_err(unreadable)?,
            sender: asked.sender,
            since: asked.since,
            until: asked.until,
            before: asked.before.map(MessageId::from_number),
            count: asked.count,
        })
    }
}

/// The answer of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeAnswer {
    pub(super) content: Value,
}

impl NodeAnswer {
    pub(super) fn of(answer: &impl Serialize) -> Result<Self, OperationError> {
        let content = serde_json::to_value(answer);
        Ok(Self {
            content: content.map_err(unreadable)?,
        })
    }

    /// The answer in this form.
    pub(super) fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, OperationError> {
        serde_json::from_value(self.content).map_err(unreadable)
    }
}

impl NodeQuestion {
    /// The question with counts that an answer permits.
    pub(super) fn bounded(mut self) -> Self {
        if let Self::Journal(asked) = &mut self {
            asked.bound(ENTRIES_MAX);
        }
        self
    }

    pub(super) fn bytes(&self) -> Result<Bytes, OperationError> {
        let bytes = serde_json::to_vec(self).map_err(unreadable)?;
        Ok(bytes.into())
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, OperationError> {
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

/// An answer as bytes.
pub(super) fn encode(answer: Result<NodeAnswer, OperationError>) -> Bytes {
    let content = answer.map(|answer| answer.content);
    let text = serde_json::to_vec(&content).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(4 + text.len());
    bytes.put_u32(text.len() as u32);
    bytes.put_slice(&text);
    bytes.freeze()
}

/// An answer of bytes, which is an error if the node answered with one.
pub(super) fn decode(mut bytes: Bytes) -> Result<NodeAnswer, OperationError> {
    let cut = || OperationError::Failed("the answer of a node ends too early".to_owned());
    if bytes.len() < 4 {
        return Err(cut());
    }
    let length = bytes.get_u32() as usize;
    if bytes.len() < length {
        return Err(cut());
    }
    let text = bytes.split_to(length);
    let content: Result<Value, OperationError> =
        serde_json::from_slice(&text).map_err(unreadable)?;
    Ok(NodeAnswer { content: content? })
}

fn unreadable(error: impl std::fmt::Display) -> OperationError {
    OperationError::Failed(format!(
        "nodes of this cluster do not understand each other, update them: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_and_an_error_read_back() {
        let answer = NodeAnswer {
            content: json!({ "messages": [1] }),
        };
        assert_eq!(decode(encode(Ok(answer.clone()))), Ok(answer));
        for error in [
            OperationError::NotFound,
            OperationError::Nowhere("x".to_owned()),
            OperationError::NoSender,
            OperationError::Conflict("y".into()),
        ] {
            assert_eq!(decode(encode(Err(error.clone()))), Err(error));
        }
    }

    /// The bytes that version 1.0 writes; a change needs another version.
    #[test]
    fn questions_and_answers_are_as_before() {
        let search = AskedSearch {
            text: "x".to_owned(),
            verdict: Some("reject".to_owned()),
            rule: "GTUBE".to_owned(),
            topic: Some("a/#".to_owned()),
            sender: "b@example.org".to_owned(),
            since: Some(std::time::UNIX_EPOCH),
            until: None,
            before: Some(7),
            count: 50,
        };
        let written = "{\"journal\":{\"text\":\"x\",\"verdict\":\"reject\",\"rule\":\"GTUBE\",\
            \"topic\":\"a/#\",\"sender\":\"b@example.org\",\
            \"since\":{\"secs_since_epoch\":0,\"nanos_since_epoch\":0},\"until\":null,\
            \"before\":7,\"count\":50}}";
        for (question, written) in [
            (NodeQuestion::Journal(search), written),
            (NodeQuestion::Story(7), "{\"story\":7}"),
        ] {
            assert_eq!(question.bytes().expect("written"), written);
            let read = NodeQuestion::of_bytes(written.as_bytes()).expect("read");
            assert_eq!(format!("{read:?}"), format!("{question:?}"));
        }
        let framed = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let content = json!({ "messages": [], "next": 7, "compared": 3 });
        assert_eq!(
            encode(Ok(NodeAnswer { content })),
            framed("{\"Ok\":{\"compared\":3,\"messages\":[],\"next\":7}}")
        );
        assert_eq!(
            encode(Err(OperationError::NotFound)),
            framed("{\"Err\":\"not_found\"}")
        );
    }

    #[test]
    fn a_question_that_a_later_version_extends_is_refused() {
        let further = b"{\"journal\":{\"text\":\"x\",\"count\":1,\"later\":1}}";
        let error = NodeQuestion::of_bytes(further).expect_err("refused");
        assert!(error.to_string().contains("update them"), "{error}");
        let before = b"{\"journal\":{\"text\":\"x\",\"count\":1}}";
        assert!(
            NodeQuestion::of_bytes(before).is_ok(),
            "fields may be missing"
        );
    }

    #[test]
    fn an_incomplete_answer_or_an_unknown_question_is_an_error() {
        let whole = encode(NodeAnswer::of(&"text"));
        for length in 0..whole.len() {
            assert!(decode(whole.slice(..length)).is_err(), "{length}");
        }
        assert!(NodeQuestion::of_bytes(b"{\"another\": 1}").is_err());
        assert!(NodeQuestion::of_bytes(b"").is_err());
    }

    #[test]
    fn a_search_reads_back() {
        let search = Search {
            text: "x".to_owned(),
            verdict: Some(Action::Reject),
            topic: TopicFilter::new("a/#").ok(),
            since: Some(std::time::SystemTime::now()),
            before: Some(MessageId::next()),
            count: 7,
            ..Search::default()
        };
        let question = NodeQuestion::Journal(AskedSearch::from(&search));
        let bytes = question.bytes().expect("written");
        let read = NodeQuestion::of_bytes(&bytes).expect("read");
        let NodeQuestion::Journal(asked) = read else {
            panic!("another question: {read:?}");
        };
        let read = Search::try_from(asked).expect("a search");
        assert_eq!(format!("{read:?}"), format!("{search:?}"));
    }
}
