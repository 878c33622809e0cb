//! The subscriptions of this node at the NATS servers, and the proof that the other nodes know
//! them.
//!
//! A NATS server informs the others of a new subscription over the same connection over which it
//! then sends messages. A question that is published after the subscription therefore reaches each
//! other node after its own NATS server knows the subscription. When all nodes have answered,
//! everything that they publish from then on reaches this node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use gatepost_message::TopicFilter;
use smallvec::SmallVec;
use tokio::sync::{mpsc, oneshot};

use crate::error::BackboneError;
use crate::interest::Changes;
use crate::receiving::Incoming;
use crate::shared::Shared;

/// The length of an answer: the node, and the number of the question.
const ANSWER_BYTES: usize = 9;

/// Announces the changes of interest for as long as the connection lasts.
pub(crate) async fn run(
    shared: Arc<Shared>,
    client: Client,
    subscriptions: mpsc::Sender<Incoming>,
    first: Changes,
) -> BackboneError {
    match Announcer::open(shared, client, subscriptions).await {
        Ok(announcer) => match announcer.run(first).await {
            Ok(never) => never,
            Err(error) => error,
        },
        Err(error) => error,
    }
}

/// Answers the questions of other nodes.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    client: Client,
    mut questions: Subscriber,
) -> BackboneError {
    while let Some(question) = questions.next().await {
        let (Some(reply), Some(number)) = (question.reply, question.payload.first_chunk::<8>())
        else {
            continue;
        };
        let mut answer = vec![shared.node];
        answer.extend_from_slice(number);
        if let Err(error) = client.publish(reply, answer.into()).await {
            return BackboneError::request("publishing", error);
        }
    }
    BackboneError::Lost("the questions ended".to_owned())
}

/// The subscription to one subject.
struct SubjectSubscription {
    /// Filters that need it.
    filters: usize,
    /// Dropping it ends the subscription.
    _end: oneshot::Sender<()>,
}

struct Announcer {
    shared: Arc<Shared>,
    client: Client,
    subscriptions: mpsc::Sender<Incoming>,
    answers: Subscriber,
    /// Whether each filter is announced by its first level only.
    filters: HashMap<TopicFilter, bool>,
    subjects: HashMap<String, SubjectSubscription>,
    questions: u64,
}

impl Announcer {
    async fn open(
        shared: Arc<Shared>,
        client: Client,
        subscriptions: mpsc::Sender<Incoming>,
    ) -> Result<Self, BackboneError> {
        let answers = client.subscribe(shared.subjects.answers(shared.node)).await;
        let answers = answers.map_err(|error| BackboneError::request("subscribing", error))?;
        let mut announcer = Self {
            answers,
            filters: HashMap::new(),
            subjects: HashMap::new(),
            questions: 0,
            shared,
            client,
            subscriptions,
        };
        let long_topics = announcer.shared.subjects.long_topics();
        announcer.add_subject(long_topics).await?;
        Ok(announcer)
    }

    async fn run(mut self, first: Changes) -> Result<BackboneError, BackboneError> {
        let mut changes = first;
        loop {
            for (filter, is_wanted) in changes.filters {
                if is_wanted {
                    self.add(filter).await?;
                } else {
                    self.remove(&filter);
                }
            }
            self.confirm().await?;
            self.shared.interest.confirm(changes.number);
            changes = self.shared.interest.next().await;
        }
    }

    fn subjects_of(&self, filter: &TopicFilter, is_coarse: bool) -> SmallVec<[String; 2]> {
        if is_coarse {
            self.shared.subjects.coarse_interest(filter)
        } else {
            self.shared.subjects.interest(filter)
        }
    }

    async fn add(&mut self, filter: TopicFilter) -> Result<(), BackboneError> {
        if self.filters.contains_key(&filter) {
            return Ok(());
        }
        let is_coarse = self.filters.len() >= self.shared.settings.interest_max;
        for subject in self.subjects_of(&filter, is_coarse) {
            self.add_subject(subject).await?;
        }
        self.filters.insert(filter, is_coarse);
        Ok(())
    }

    async fn add_subject(&mut self, subject: String) -> Result<(), BackboneError> {
        if let Some(announced) = self.subjects.get_mut(&subject) {
            announced.filters += 1;
            return Ok(());
        }
        let messages = self.client.subscribe(subject.clone()).await;
        let messages = messages.map_err(|error| BackboneError::request("subscribing", error))?;
        let (end, ended) = oneshot::channel::<()>();
        let incoming: Incoming = Box::pin(messages.take_until(ended));
        let handed_over = self.subscriptions.send(incoming).await;
        handed_over.map_err(|_| BackboneError::Lost("nothing is received".to_owned()))?;
        let announced = SubjectSubscription {
            filters: 1,
            _end: end,
        };
        self.subjects.insert(subject, announced);
        Ok(())
    }

    fn remove(&mut self, filter: &TopicFilter) {
        let Some(is_coarse) = self.filters.remove(filter) else {
            return;
        };
        for subject in self.subjects_of(filter, is_coarse) {
            if let Some(announced) = self.subjects.get_mut(&subject) {
                announced.filters -= 1;
                if announced.filters == 0 {
                    self.subjects.remove(&subject);
                }
            }
        }
    }

    /// Waits until the other nodes' servers know the subscriptions so far.
    async fn confirm(&mut self) -> Result<(), BackboneError> {
        let mut missing: HashSet<u8> = self.shared.known_nodes.answering().into_iter().collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.questions += 1;
        let question = self.questions.to_be_bytes();
        let subjects = &self.shared.subjects;
        let (requests, reply) = (
            subjects.confirmation_requests(),
            subjects.answers(self.shared.node),
        );
        let payload = question.to_vec().into();
        let published = self
            .client
            .publish_with_reply(requests, reply, payload)
            .await;
        published.map_err(|error| BackboneError::request("publishing", error))?;
        let all = async {
            while !missing.is_empty() {
                let Some(answer) = self.answers.next().await else {
                    return;
                };
                let Some(answer) = answer.payload.first_chunk::<ANSWER_BYTES>() else {
                    continue;
                };
                if answer[1..] == question {
                    missing.remove(&answer[0]);
                }
            }
        };
        let wait = self.shared.settings.subscribe_wait_max.duration();
        if tokio::time::timeout(wait, all).await.is_err() {
            let silent: Vec<u8> = missing.into_iter().collect();
            self.shared.note_unconfirmed(&silent);
        }
        Ok(())
    }
}
