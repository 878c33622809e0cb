//! The state of questions on behalf of administrators, which outlives a connection.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_nats::Client;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::members::Members;

/// The most questions that a node answers at once.
pub(crate) const ANSWERS_AT_ONCE: usize = 8;
/// The longest time for the answer to one question.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(1);

/// A question of another node.
#[derive(Debug)]
pub struct ReceivedQuestion {
    /// The question, as its node wrote it.
    pub question: Bytes,
    /// The way of the answer.
    pub reply: oneshot::Sender<Bytes>,
}

/// The state of questions, which outlives a connection.
pub(crate) struct QuestionState {
    /// Present while there is a connection.
    client: ArcSwapOption<Client>,
    received: mpsc::Sender<ReceivedQuestion>,
    receiver: Mutex<Option<mpsc::Receiver<ReceivedQuestion>>>,
    pub(crate) members: Members,
}

impl QuestionState {
    pub(crate) fn new() -> Self {
        let (received, receiver) = mpsc::channel(ANSWERS_AT_ONCE);
        Self {
            client: ArcSwapOption::empty(),
            received,
            receiver: Mutex::new(Some(receiver)),
            members: Members::default(),
        }
    }

    /// The connection, if there is one.
    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        self.client.load_full()
    }

    /// The questions of other nodes, for the first caller.
    pub(crate) fn received(&self) -> Option<mpsc::Receiver<ReceivedQuestion>> {
        self.receiver.lock().take()
    }

    pub(crate) fn join(&self, client: &Client) {
        self.client.store(Some(Arc::new(client.clone())));
    }

    pub(crate) fn leave(&self) {
        self.client.store(None);
    }

    /// The answer of this node.
    pub(crate) async fn answer(&self, question: Bytes) -> Result<Bytes, String> {
        let (reply, answer) = oneshot::channel();
        let received = ReceivedQuestion { question, reply };
        if self.received.try_send(received).is_err() {
            return Err("it is starting, or answering other questions".to_owned());
        }
        match tokio::time::timeout(ANSWER_TIME_MAX, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err("the question could not be answered".to_owned()),
            Err(_) => Err("the answer took too long".to_owned()),
        }
    }
}
