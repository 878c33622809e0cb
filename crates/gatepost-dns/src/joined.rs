//! Equal questions to one server, which wait for one answer.
//!
//! Each question of several equal ones would have an id of its own, and a forged answer would need
//! to match only one of them (RFC 5452, section 5). A hundred mails of one sender, which arrive at
//! once, also cause one question in place of a hundred.

use std::collections::HashMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::wire::{Question, Resolved};

type QuestionKey = (SocketAddr, Question);

/// The questions that wait for answers, and the others that wait along.
#[derive(Default)]
pub(crate) struct JoinedQuestions(Mutex<HashMap<QuestionKey, Vec<oneshot::Sender<Resolved>>>>);

/// The role of a question among those that are equal to it.
pub(crate) enum QuestionRole<'a> {
    /// It is sent.
    First(FirstQuestion<'a>),
    /// It waits for the answer of the first one; the channel ends if that gets none.
    Joined(oneshot::Receiver<Resolved>),
}

/// A question that is sent. The others are no longer joined when it is dropped.
pub(crate) struct FirstQuestion<'a> {
    questions: &'a JoinedQuestions,
    key: QuestionKey,
    has_ended: bool,
}

impl JoinedQuestions {
    pub(crate) fn join(&self, server: SocketAddr, question: &Question) -> QuestionRole<'_> {
        let key = (server, question.clone());
        let mut waiting = self.0.lock();
        if let Some(others) = waiting.get_mut(&key) {
            let (sender, answer) = oneshot::channel();
            others.push(sender);
            return QuestionRole::Joined(answer);
        }
        waiting.insert(key.clone(), Vec::new());
        QuestionRole::First(FirstQuestion {
            questions: self,
            key,
            has_ended: false,
        })
    }
}

impl FirstQuestion<'_> {
    /// Gives the answer to the questions that wait for it.
    pub(crate) fn end(mut self, answer: Option<&Resolved>) {
        self.has_ended = true;
        let others = self.questions.0.lock().remove(&self.key);
        for other in others.into_iter().flatten() {
            if let Some(answer) = answer {
                // Fails where the other no longer waits.
                let _ = other.send(answer.clone());
            }
        }
    }
}

impl Drop for FirstQuestion<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.questions.0.lock().remove(&self.key);
        }
    }
}
