//! Acknowledgements that may not go out yet.
//!
//! A PUBACK or PUBREC is a promise: it waits for the commit of what it promises, or for a
//! verdict. Acknowledgements leave in the order of the publications, so one that waits holds
//! back those behind it; answers of other kinds do not wait for them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use gatepost_mqtt::{PacketId, Reason};
use gatepost_store::{StoreError, Ticket};

/// What a publication's sender is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) packet_id: PacketId,
    pub(super) reason: Reason,
    /// For people; empty where there is nothing to say.
    pub(super) text: String,
    /// PUBREC instead of PUBACK.
    pub(super) exactly_once: bool,
}

enum Gate {
    /// The commit of the present batch, whose ticket is not known yet.
    Batch,
    /// The commit of an earlier batch.
    Commit(Ticket),
    /// A verdict.
    Verdict,
    /// Nothing any more.
    Open,
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Acknowledgements in the order of their publications.
#[derive(Default)]
pub(super) struct Answers {
    waiting: VecDeque<(Gate, Answer)>,
    commit: Option<Commit>,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// For a publication that was handed to the broker.
    pub(super) fn push(&mut self, answer: Answer) {
        self.waiting.push_back((Gate::Batch, answer));
    }

    /// For a publication whose fate is known.
    pub(super) fn push_decided(&mut self, answer: Answer) {
        self.waiting.push_back((Gate::Open, answer));
    }

    /// For a publication that is being judged; see [`Answers::decide`].
    pub(super) fn push_undecided(&mut self, packet_id: PacketId, exactly_once: bool) {
        let answer = Answer {
            packet_id,
            reason: Reason::SUCCESS,
            text: String::new(),
            exactly_once,
        };
        self.waiting.push_back((Gate::Verdict, answer));
    }

    /// The verdict on the first publication that is still being judged.
    pub(super) fn decide(&mut self, reason: Reason, text: String) {
        let undecided = |(gate, _): &&mut (Gate, Answer)| matches!(gate, Gate::Verdict);
        if let Some((gate, answer)) = self.waiting.iter_mut().find(undecided) {
            *gate = Gate::Open;
            answer.reason = reason;
            answer.text = text;
        }
    }

    /// The broker was flushed, and this is what the present batch waits for.
    pub(super) fn batch_flushed(&mut self, ticket: Option<Result<Ticket, StoreError>>) {
        let of_batch = |(gate, _): &&mut (Gate, Answer)| matches!(gate, Gate::Batch);
        for (gate, answer) in self
            .waiting
            .iter_mut()
            .rev()
            .take_while(|entry| matches!(entry.0, Gate::Batch | Gate::Open | Gate::Verdict))
            .filter(of_batch)
        {
            *gate = match &ticket {
                Some(Ok(ticket)) => Gate::Commit(ticket.clone()),
                Some(Err(_)) => {
                    refuse(answer);
                    Gate::Open
                }
                None => Gate::Open,
            };
        }
    }

    /// The next acknowledgement that may go out.
    pub(super) fn pop_ready(&mut self) -> Option<Answer> {
        let (gate, answer) = self.waiting.front_mut()?;
        match gate {
            Gate::Open => {}
            Gate::Commit(ticket) => match ticket.outcome()? {
                Ok(()) => {}
                Err(_) => refuse(answer),
            },
            Gate::Batch | Gate::Verdict => return None,
        }
        let (_, answer) = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(answer)
    }

    /// Waits for the commit that the first acknowledgement waits for.
    pub(super) fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((Gate::Commit(ticket), _)) = self.waiting.front() else {
            return Poll::Pending;
        };
        let commit = self.commit.get_or_insert_with(|| {
            let ticket = ticket.clone();
            Box::pin(async move { ticket.committed().await })
        });
        let done = commit.as_mut().poll(context).map(|_| ());
        if done.is_ready() {
            self.commit = None;
        }
        done
    }
}

/// What could not be stored was not taken: the sender may try again.
fn refuse(answer: &mut Answer) {
    answer.reason = Reason::QUOTA_EXCEEDED;
    answer.text = String::from("the message could not be stored; try again later");
}
