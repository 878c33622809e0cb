//! Questions that a node asks another one on behalf of an administrator, and their answers.
//!
//! This module transports them: what is asked and answered are bytes of the caller. A question goes
//! to the subject of one node. Its answer comes in pieces, since a message of the engine has 1 MB
//! at most, in the order in which they were sent. A node that is not running has not subscribed,
//! which the engine reports immediately.
//!
//! Invariants: a node answers a bounded number of questions at once and refuses further ones; an
//! asking node accepts a bounded number of bytes, and waits a bounded time for each piece; a
//! version that a node does not know is refused in words.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subject, Subscriber};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use gatepost_tasks::Task;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::encoding::{EncodingError, Input, VERSION};
use crate::error::BackboneError;
use crate::question_state::{ANSWERS_AT_ONCE, ReceivedQuestion};
use crate::shared::Shared;

/// The most bytes of a question: a message of the engine has 1 MB at most.
const QUESTION_BYTES_MAX: usize = 512 * 1024;
/// The most bytes of an answer that a node accepts. The engine disconnects a client for which more
/// than 64 MB wait.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// The most bytes of a piece.
const PIECE_BYTES_MAX: usize = 128 * 1024;
/// The longest wait for each piece of an answer, which another node reads from its database.
const PIECE_WAIT_MAX: Duration = Duration::from_millis(500);
/// Version, kind and number.
const PIECE_HEAD_BYTES: usize = 6;

/// A question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The node is not running, cannot be reached, or took too long.
    #[error("the node did not answer")]
    NoAnswer,
    /// The node answered that it cannot.
    #[error("{0}")]
    Refused(String),
}

/// The way of questions to other nodes, and of theirs to this one.
#[derive(Clone)]
pub struct NodeQuestions {
    shared: Arc<Shared>,
}

impl NodeQuestions {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The number of this node.
    pub fn this_node(&self) -> u8 {
        self.shared.node
    }

    /// Whether this node is part of its cluster.
    pub fn is_joined(&self) -> bool {
        self.shared.questions.client().is_some()
    }

    /// The other nodes of the cluster, running or not.
    pub fn other_nodes(&self) -> Vec<u8> {
        let mut nodes = self.shared.questions.members.all();
        nodes.retain(|node| *node != self.shared.node);
        nodes
    }

    /// The questions of other nodes, for the first caller.
    pub fn received(&self) -> Option<mpsc::Receiver<ReceivedQuestion>> {
        self.shared.questions.received()
    }

    /// Asks a node.
    pub fn ask(&self, node: u8, question: &[u8]) -> Task<Result<Bytes, QuestionError>> {
        let client = self.shared.questions.client();
        let subject = self.shared.subjects.node_questions(node);
        let mut message = BytesMut::with_capacity(1 + question.len());
        message.put_u8(VERSION);
        message.put_slice(question);
        Box::pin(async move {
            let client = client.ok_or(QuestionError::NoAnswer)?;
            if message.len() > QUESTION_BYTES_MAX {
                let reason = format!("a question has at most {QUESTION_BYTES_MAX} bytes");
                return Err(QuestionError::Refused(reason));
            }
            ask(&client, subject, message.freeze()).await
        })
    }
}

async fn ask(client: &Client, subject: String, question: Bytes) -> Result<Bytes, QuestionError> {
    let unreached = |_| QuestionError::NoAnswer;
    let inbox = client.new_inbox();
    let pieces = client.subscribe(inbox.clone()).await;
    let mut pieces = pieces.map_err(|_| QuestionError::NoAnswer)?;
    let asked = client.publish_with_reply(subject, inbox, question).await;
    asked.map_err(|_| QuestionError::NoAnswer)?;
    let mut answer = BytesMut::new();
    for number in 0.. {
        let piece = tokio::time::timeout(PIECE_WAIT_MAX, pieces.next()).await;
        let piece = piece.map_err(unreached)?.ok_or(QuestionError::NoAnswer)?;
        if piece.status == Some(StatusCode::NO_RESPONDERS) {
            return Err(QuestionError::NoAnswer);
        }
        let piece = read_piece(piece.payload).map_err(|error| {
            QuestionError::Refused(format!("its answer cannot be read: {error}"))
        })?;
        if piece.kind == PieceKind::Refusal {
            let reason = String::from_utf8_lossy(&piece.bytes).into_owned();
            return Err(QuestionError::Refused(reason));
        }
        // A piece is missing where this node read too slowly.
        if piece.number != number {
            return Err(QuestionError::NoAnswer);
        }
        answer.put_slice(&piece.bytes);
        if answer.len() > ANSWER_BYTES_MAX {
            let reason = format!("its answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(QuestionError::Refused(reason));
        }
        if piece.kind == PieceKind::Last {
            break;
        }
    }
    Ok(answer.freeze())
}

/// Answers the questions of other nodes.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    client: Client,
    mut questions: Subscriber,
) -> BackboneError {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            question = questions.next() => {
                let Some(question) = question else {
                    return BackboneError::Lost("the questions of nodes ended".to_owned());
                };
                let is_busy = answers.len() >= ANSWERS_AT_ONCE;
                let answer = answer_one(shared.clone(), client.clone(), question, is_busy);
                let answer: Task = Box::pin(answer);
                if is_busy {
                    answer.await;
                } else {
                    answers.spawn(answer);
                }
            }
            Some(_) = answers.join_next() => {}
        }
    }
}

/// Answers one question, by a refusal if others take all the time.
async fn answer_one(shared: Arc<Shared>, client: Client, question: Message, is_busy: bool) {
    let Some(reply) = question.reply else {
        return;
    };
    let answer = match Input::versioned(question.payload) {
        _ if is_busy => Err("it is answering other questions; try again".to_owned()),
        Ok(question) => shared.questions.answer(question.rest()).await,
        Err(error) => Err(format!("it cannot read the question: {error}")),
    };
    let payload_max = client.server_info().max_payload;
    for piece in pieces_of(answer, PIECE_BYTES_MAX.min(payload_max)) {
        if !is_sent(&client, reply.clone(), piece).await {
            return; // The connection is lost, and the asking node waits no longer.
        }
    }
}

async fn is_sent(client: &Client, subject: Subject, piece: Bytes) -> bool {
    client.publish(subject, piece).await.is_ok()
}

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// More pieces follow.
    Part,
    /// The last piece of the answer.
    Last,
    /// The reason why there is no answer.
    Refusal,
}

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AnswerPiece {
    kind: PieceKind,
    number: u32,
    bytes: Bytes,
}

pub(crate) fn read_piece(bytes: Bytes) -> Result<AnswerPiece, EncodingError> {
    let mut input = Input::versioned(bytes)?;
    let kind = match input.u8()? {
        0 => PieceKind::Part,
        1 => PieceKind::Last,
        2 => PieceKind::Refusal,
        _ => return Err(EncodingError::Malformed),
    };
    Ok(AnswerPiece {
        kind,
        number: input.u32()?,
        bytes: input.rest(),
    })
}

/// The pieces of an answer, each of at most so many bytes; at least one.
pub(crate) fn pieces_of(
    answer: Result<Bytes, String>,
    bytes_max: usize,
) -> impl Iterator<Item = Bytes> {
    let (mut rest, last) = match answer {
        Ok(answer) => (answer, 1),
        Err(reason) => (Bytes::from(reason), 2),
    };
    let room = bytes_max.saturating_sub(PIECE_HEAD_BYTES).max(1);
    let count = rest.len().div_ceil(room).max(1) as u32;
    (0..count).map(move |number| {
        let part = rest.split_to(rest.len().min(room));
        let mut piece = BytesMut::with_capacity(PIECE_HEAD_BYTES + part.len());
        piece.put_u8(VERSION);
        piece.put_u8(if number + 1 == count { last } else { 0 });
        piece.put_u32(number);
        piece.put_slice(&part);
        piece.freeze()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_pieces_of_an_answer_are_the_answer(
            answer in proptest::collection::vec(any::<u8>(), 0..200), bytes_max in 7_usize..60,
        ) {
            let mut whole = Vec::new();
            let mut kinds = Vec::new();
            let pieces = pieces_of(Ok(answer.clone().into()), bytes_max);
            for (expected, bytes) in (0..).zip(pieces) {
                prop_assert!(bytes.len() <= bytes_max);
                let piece = read_piece(bytes).expect("a piece");
                prop_assert_eq!(piece.number, expected);
                kinds.push(piece.kind);
                whole.extend(piece.bytes);
            }
            prop_assert_eq!(whole, answer);
            prop_assert_eq!(kinds.pop(), Some(PieceKind::Last));
            prop_assert!(kinds.iter().all(|kind| *kind == PieceKind::Part));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = read_piece(bytes.into());
        }
    }

    #[test]
    fn a_refusal_is_one_piece_and_a_newer_version_is_refused() {
        let mut pieces = pieces_of(Err("no".to_owned()), PIECE_BYTES_MAX);
        let bytes = pieces.next().expect("a piece");
        assert!(pieces.next().is_none());
        let piece = read_piece(bytes.clone()).expect("a piece");
        assert_eq!(piece.kind, PieceKind::Refusal);
        assert_eq!(&piece.bytes[..], b"no");
        let mut newer = bytes.to_vec();
        newer[0] = VERSION + 1;
        assert_eq!(
            read_piece(newer.into()),
            Err(EncodingError::Version(u32::from(VERSION) + 1))
        );
    }
}
