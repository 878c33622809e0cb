//! The retained messages that all nodes share: the messages still to be sent, and the handling of
//! received ones.
//!
//! The order of the stream decides: in the end each node has the last message that the stream has
//! of a topic. A node can be ahead of the stream for a moment, because it immediately retains the
//! messages of its own clients, and those of other nodes that arrive live. The stream's copy of the
//! same message then changes nothing, nor do earlier ones of the same origin.
//!
//! A message that was retained while the stream could not be reached has no place in its order yet.
//! It is sent as soon as the stream is read to its end, unless the stream has a later one: then the
//! times of their ids decide.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gatepost_message::{MessageId, Publication, Topic};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;

/// Topics whose versions are remembered; beyond that they are forgotten, and ids alone decide.
const VERSIONS_MAX: usize = 1_000_000;

/// A message of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeVersion {
    node: u8,
    id: MessageId,
}

/// The known versions of a topic's retained message.
struct TopicVersions {
    /// The message that this node retains, or its removal.
    current: NodeVersion,
    /// The last message of each node that this node received, live or by the stream.
    last: SmallVec<[NodeVersion; 2]>,
}

/// The action for a message of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainDecision {
    /// Nothing: it is here, or a later one is.
    Ignore,
    /// To retain it; subscribers have it.
    Retain,
    /// To retain it and to deliver it.
    Publish,
    /// To send what this node retains instead.
    SendOurs,
}

#[derive(Default)]
struct RetainedState {
    topics: HashMap<Topic, TopicVersions>,
    /// Each topic's last message that the stream does not have.
    unsent: BTreeMap<Topic, Arc<Publication>>,
    /// Messages that were sent and not acknowledged yet.
    in_flight: BTreeMap<Topic, Arc<Publication>>,
}

/// The shared retained messages.
pub(crate) struct SharedRetained {
    /// The number of this node.
    node: u8,
    state: Mutex<RetainedState>,
    added: Notify,
}

impl RetainedState {
    fn note(&mut self, topic: &Topic, version: NodeVersion) {
        if self.topics.len() >= VERSIONS_MAX && !self.topics.contains_key(topic) {
            self.topics.clear();
        }
        let versions = self
            .topics
            .entry(topic.clone())
            .or_insert_with(|| TopicVersions {
                current: version,
                last: SmallVec::new(),
            });
        versions.current = version;
        let mut last = versions.last.iter_mut();
        match last.find(|last| last.node == version.node) {
            Some(last) => last.id = last.id.max(version.id),
            None => versions.last.push(version),
        }
    }

    /// Whether this node has received this message, or a later one of its node.
    fn has_seen(&self, topic: &Topic, version: NodeVersion) -> bool {
        let versions = self.topics.get(topic);
        versions.is_some_and(|versions| {
            let mut last = versions.last.iter();
            last.any(|last| last.node == version.node && last.id >= version.id)
        })
    }
}

impl SharedRetained {
    pub(crate) fn new(node: u8) -> Self {
        Self {
            node,
            state: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// A client of this node is about to retain a message.
    pub(crate) fn begin(&self, publication: &Publication) {
        let version = NodeVersion {
            node: self.node,
            id: publication.id,
        };
        self.state.lock().note(&publication.topic, version);
    }

    /// It is to be sent.
    pub(crate) fn send(&self, publication: &Arc<Publication>) {
        let mut state = self.state.lock();
        let topic = publication.topic.clone();
        state.unsent.insert(topic, publication.clone());
        drop(state);
        self.added.notify_one();
    }

    /// It could not be sent: it is to be tried again, unless there is a later one.
    pub(crate) fn send_again(&self, publication: Arc<Publication>) {
        let mut state = self.state.lock();
        state.in_flight.remove(&publication.topic);
        let current = state.topics.get(&publication.topic);
        let is_current = current.is_none_or(|versions| versions.current.id == publication.id);
        if is_current {
            let topic = publication.topic.clone();
            state.unsent.entry(topic).or_insert(publication);
        }
    }

    /// The stream has it, or never will.
    pub(crate) fn note_sent(&self, publication: &Publication) {
        self.state.lock().in_flight.remove(&publication.topic);
    }

    /// A connection begins: messages that were not acknowledged over the last one are sent again.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        for (topic, publication) in std::mem::take(&mut state.in_flight) {
            state.unsent.entry(topic).or_insert(publication);
        }
    }

    /// Topics whose message the stream does not have.
    pub(crate) fn unsent(&self) -> usize {
        let state = self.state.lock();
        state.unsent.len() + state.in_flight.len()
    }

    /// The next messages to send, at least one and at most so many.
    pub(crate) async fn next_unsent(&self, count_max: usize) -> Vec<Arc<Publication>> {
        loop {
            {
                let mut state = self.state.lock();
                let mut batch = Vec::new();
                while batch.len() < count_max
                    && let Some((topic, publication)) = state.unsent.pop_first()
                {
                    state.in_flight.insert(topic, publication.clone());
                    batch.push(publication);
                }
                if !batch.is_empty() {
                    return batch;
                }
            }
            self.added.notified().await;
        }
    }

    /// Decides about a message that was received live from `node`.
    pub(crate) fn decide_live(&self, publication: &Publication, node: u8) -> RetainDecision {
        let version = NodeVersion {
            node,
            id: publication.id,
        };
        let mut state = self.state.lock();
        if state.has_seen(&publication.topic, version) {
            return RetainDecision::Ignore;
        }
        state.note(&publication.topic, version);
        RetainDecision::Publish
    }

    /// Decides about the next message of the stream; `ours` is the id of the message that this node
    /// retains.
    pub(crate) fn decide_stored(
        &self,
        publication: &Publication,
        node: u8,
        ours: Option<MessageId>,
    ) -> RetainDecision {
        let (topic, id) = (&publication.topic, publication.id);
        let version = NodeVersion { node, id };
        let mut state = self.state.lock();
        if let Some(unsent) = state.unsent.get(topic) {
            if unsent.id > id {
                return RetainDecision::Ignore;
            }
            state.unsent.remove(topic);
        }
        let is_old = match state.topics.get(topic) {
            Some(versions) => versions.current.node == node && versions.current.id >= id,
            None => match ours {
                Some(ours) if ours > id => return RetainDecision::SendOurs,
                ours => ours == Some(id),
            },
        };
        if is_old {
            if !state.topics.contains_key(topic) {
                state.note(topic, version);
            }
            return RetainDecision::Ignore;
        }
        let has_seen = state.has_seen(topic, version);
        state.note(topic, version);
        if has_seen {
            RetainDecision::Retain
        } else {
            RetainDecision::Publish
        }
    }

    /// Whether nothing is known of a topic.
    pub(crate) fn is_unknown(&self, topic: &Topic) -> bool {
        !self.state.lock().topics.contains_key(topic)
    }

    /// The stream is another one than before: nothing is known of it.
    pub(crate) fn forget(&self) {
        self.state.lock().topics.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u8 = 1;
    const THEIRS: u8 = 2;

    fn publication(number: u64) -> Publication {
        let mut publication = Publication::new(Topic::new("a").expect("a topic"), "x");
        publication.id = MessageId::from_number(number);
        publication.retain = true;
        publication
    }

    fn publish_here(retained: &SharedRetained, number: u64) -> Arc<Publication> {
        let publication = Arc::new(publication(number));
        retained.begin(&publication);
        retained.send(&publication);
        publication
    }

    #[tokio::test]
    async fn the_streams_order_decides() {
        let retained = SharedRetained::new(OURS);
        let stored = |number, node| retained.decide_stored(&publication(number), node, None);
        publish_here(&retained, 10);
        assert_eq!(retained.next_unsent(9).await.len(), 1);
        // It precedes ours in the stream, so ours follows.
        assert_eq!(stored(9, THEIRS), RetainDecision::Publish);
        assert_eq!(stored(10, OURS), RetainDecision::Retain);
        assert_eq!(stored(10, OURS), RetainDecision::Ignore);
        // After ours.
        assert_eq!(stored(8, THEIRS), RetainDecision::Retain);
    }

    #[test]
    fn an_earlier_message_of_the_same_origin_changes_nothing() {
        let retained = SharedRetained::new(OURS);
        let live = |number| retained.decide_live(&publication(number), THEIRS);
        let stored = |number| retained.decide_stored(&publication(number), THEIRS, None);
        assert_eq!(live(5), RetainDecision::Publish);
        assert_eq!(live(6), RetainDecision::Publish);
        assert_eq!(stored(5), RetainDecision::Ignore);
        assert_eq!(stored(6), RetainDecision::Ignore);
        assert_eq!(stored(7), RetainDecision::Publish, "it did not come live");
        assert_eq!(live(7), RetainDecision::Ignore, "it came by the stream");
    }

    #[tokio::test]
    async fn messages_retained_while_disconnected_are_sent_unless_older() {
        let retained = SharedRetained::new(OURS);
        let stored = |number, ours| {
            let ours = Some(MessageId::from_number(ours));
            retained.decide_stored(&publication(number), THEIRS, ours)
        };
        publish_here(&retained, 10);
        assert_eq!(stored(9, 10), RetainDecision::Ignore);
        assert_eq!(retained.unsent(), 1);
        assert_eq!(stored(11, 10), RetainDecision::Publish);
        assert_eq!(retained.unsent(), 0);
    }

    #[test]
    fn at_a_start_ids_decide() {
        let decide = |number, ours: Option<u64>| {
            let retained = SharedRetained::new(OURS);
            let ours = ours.map(MessageId::from_number);
            retained.decide_stored(&publication(number), THEIRS, ours)
        };
        assert_eq!(decide(5, None), RetainDecision::Publish);
        assert_eq!(decide(5, Some(4)), RetainDecision::Publish);
        assert_eq!(decide(5, Some(5)), RetainDecision::Ignore);
        assert_eq!(decide(5, Some(6)), RetainDecision::SendOurs);
    }

    #[tokio::test]
    async fn a_failure_does_not_bring_an_older_message_back() {
        let retained = SharedRetained::new(OURS);
        publish_here(&retained, 10);
        let first = retained.next_unsent(9).await.remove(0);
        let second = publish_here(&retained, 11);
        retained.send_again(first);
        assert_eq!(retained.next_unsent(9).await, std::slice::from_ref(&second));
        retained.restart();
        assert_eq!(retained.next_unsent(9).await, std::slice::from_ref(&second));
        retained.note_sent(&second);
        assert_eq!(retained.unsent(), 0);
        assert!(!retained.is_unknown(&publication(1).topic));
        retained.forget();
        assert!(retained.is_unknown(&publication(1).topic));
    }
}
