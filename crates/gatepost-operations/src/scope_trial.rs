//! A trial of a whole scope: what it would do with one message, with the text of a procedure as an
//! administrator has edited it.
//!
//! The scope runs beside the one in force, with counters of its own and copies of stored values, so
//! nothing is delivered, published or stored, and no figure of the server changes.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, MessageId, Peer, Topic, Verdict};
use gatepost_procedures::{ProcedureArguments, Procedures};
use serde::Serialize;

use crate::error::OperationError;
use crate::operations::Operations;
use crate::originals::JudgedOriginal;
use crate::procedure_changes::{ProcedureProblem, name_of};

/// The newest stored messages, which a trial may name.
const STORED_MESSAGES: usize = 200;

/// The message of a trial.
#[derive(Debug, Clone)]
pub enum TriedMessage {
    /// One that is completely stored.
    Stored(MessageId),
    /// A mail with this sender and these recipients.
    Mail {
        /// The whole mail.
        text: String,
        /// The envelope's sender.
        sender: String,
        /// The envelope's recipients.
        recipients: Vec<String>,
    },
    /// A payload on a topic.
    Payload {
        /// The payload.
        text: String,
        /// The topic.
        topic: Topic,
    },
}

/// A stored message that a trial may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialMessage {
    /// Its id.
    pub id: String,
    /// Its subject, or its topic.
    pub name: String,
}

/// One procedure of the scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeStep {
    /// The path.
    pub procedure: String,
    /// Its own verdict; `None` if the scope ended before it.
    pub verdict: Option<&'static str>,
    /// Whether it failed, and the verdict is the one for failures.
    pub has_failed: bool,
}

/// The outcome of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScopeTrial {
    /// The problems of the edited text.
    pub problems: Vec<ProcedureProblem>,
    /// The message's id and the verdict on it; `None` if the text does not compile.
    pub verdict: Option<(MessageId, Verdict)>,
    /// The procedures of the scope, in order.
    pub steps: Vec<ScopeStep>,
}

impl Operations {
    /// Every scope with the procedures that it runs.
    pub fn scopes(&self) -> Vec<(String, Vec<String>)> {
        self.gateway.procedures().scopes()
    }

    /// The stored messages that a trial may name, newest first.
    pub async fn trial_messages(&self) -> Result<Vec<TrialMessage>, OperationError> {
        self.blocking(|operations| {
            let stored = JudgedOriginal::newest(&operations.store, STORED_MESSAGES)?;
            let messages = stored.iter().rev().map(|one| TrialMessage {
                id: one.story.id.to_string(),
                name: name_of(one),
            });
            Ok(messages.collect())
        })
        .await
    }

    /// Runs a scope on a message, with another text of a procedure if `edited` has its path and
    /// text. [`OperationError::NotFound`] if there is no such scope or message.
    pub async fn try_scope(
        &self,
        scope: String,
        message: TriedMessage,
        edited: Option<(String, String)>,
    ) -> Result<ScopeTrial, OperationError> {
        if edited.is_some() {
            self.expect_editable()?;
        }
        let mut scopes = self.scopes().into_iter();
        let (_, members) = scopes
            .find(|(path, _)| *path == scope)
            .ok_or(OperationError::NotFound)?;
        let prepared = self.blocking(move |operations| {
            let message = operations.tried_message(message)?;
            let (candidate, problems) = if let Some((path, text)) = edited {
                operations.candidate(&path, &text)?
            } else {
                let host = operations.trial_host()?;
                let present = operations.gateway.procedures();
                (present.candidate("", None, host).0, Vec::new())
            };
            Ok((message, candidate, problems))
        });
        let (message, candidate, problems) = prepared.await?;
        let Some(candidate) = candidate else {
            return Ok(ScopeTrial {
                problems,
                ..ScopeTrial::default()
            });
        };
        let called = candidate.call(&scope, message.clone(), ProcedureArguments::none());
        let answer = called
            .await
            .map_err(|error| OperationError::Failed(error.to_string()))?;
        Ok(ScopeTrial {
            problems,
            verdict: Some((message.id, answer.verdict)),
            steps: steps_of(&candidate, members),
        })
    }

    fn tried_message(&self, tried: TriedMessage) -> Result<Arc<Message>, OperationError> {
        let message = match tried {
            TriedMessage::Stored(id) => {
                let stored = JudgedOriginal::newest(&self.store, STORED_MESSAGES)?;
                let found = stored.iter().find(|one| one.story.id == id);
                found.ok_or(OperationError::NotFound)?.message()
            }
            TriedMessage::Mail {
                text,
                sender,
                recipients,
            } => {
                let envelope = Envelope {
                    sender: Some(sender),
                    recipients,
                    ..Envelope::new(Listener::Smtp, Peer::Local)
                };
                Message::new(envelope, None, Format::Mail, Bytes::from(text))
            }
            TriedMessage::Payload { text, topic } => {
                let envelope = Envelope::new(Listener::Mqtt, Peer::Local);
                Message::new(envelope, Some(topic), Format::Payload, Bytes::from(text))
            }
        };
        Ok(Arc::new(message))
    }
}

/// The candidate has judged this message only, so its counters are the steps.
fn steps_of(candidate: &Procedures, members: Vec<String>) -> Vec<ScopeStep> {
    let counted = candidate.status().procedures;
    let step = |procedure: String| {
        let counters = counted.iter().find(|one| one.path == procedure);
        let verdicts = counters.map(|one| one.verdicts.iter());
        let mut verdicts = verdicts.into_iter().flatten();
        ScopeStep {
            verdict: verdicts
                .find(|&(_, &count)| count > 0)
                .map(|(name, _)| *name),
            has_failed: counters.is_some_and(|one| one.errors > 0),
            procedure,
        }
    };
    members.into_iter().map(step).collect()
}
