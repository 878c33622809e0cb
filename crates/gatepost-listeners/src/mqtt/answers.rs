//! Answers that may not go out yet.
//!
//! An acknowledgement is a promise: it waits for the commit of what it promises, or for a verdict.
//! Acknowledgements leave in the order of what they answer, so one that waits holds back those
//! behind it; answers that promise nothing do not pass through here.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use gatepost_broker::SubscribeOptions;
use gatepost_message::Publication;
use gatepost_mqtt::{PacketId, Reason};
use gatepost_store::{StoreError, Ticket};
use smallvec::SmallVec;

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

/// What topics kept for new subscriptions.
pub(super) type Retained = Vec<(Vec<Arc<Publication>>, SubscribeOptions)>;

/// What else is a promise, where the session outlives the server.
pub(super) enum Step {
    /// PUBREL.
    Release(PacketId, Reason),
    /// PUBCOMP.
    Complete(PacketId, Reason),
    /// SUBACK, and what follows it.
    Subscribed(PacketId, SmallVec<[Reason; 8]>, Retained),
    /// UNSUBACK.
    Unsubscribed(PacketId, SmallVec<[Reason; 8]>),
}

/// An answer whose time has come.
pub(super) enum Ready {
    Publication(Answer),
    Step(Step),
}

impl Ready {
    /// See [`Answers::unacknowledged`].
    const fn counts(&self) -> bool {
        match self {
            Self::Publication(answer) => !answer.exactly_once,
            Self::Step(step) => matches!(step, Step::Complete(..)),
        }
    }
}

enum Gate {
    /// The commit of the present batch's publications, whose ticket is not known yet.
    Batch,
    /// The commit of the present batch's changes of the session.
    Session,
    /// The commit of an earlier batch.
    Commit(Ticket),
    /// A verdict.
    Verdict,
    /// Nothing any more.
    Open,
    /// Nothing: it cannot go out.
    Failed,
}

impl Gate {
    const fn is_without_ticket(&self) -> bool {
        matches!(self, Self::Batch | Self::Session)
    }
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// A change of the session could not be stored.
pub(super) struct Unstored;

/// Acknowledgements in the order of what they answer.
#[derive(Default)]
pub(super) struct Answers {
    waiting: VecDeque<(Gate, Ready)>,
    unacknowledged: usize,
    /// How many wait for a ticket that is not known yet.
    without_ticket: usize,
    commit: Option<Commit>,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Of these, the ones that count against the client's quota and that no received packet
    /// identifier stands for (§ 4.9): a PUBREC's identifier is received already.
    pub(super) const fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    /// For a publication that was handed to the broker.
    pub(super) fn push(&mut self, answer: Answer) {
        self.put(Gate::Batch, Ready::Publication(answer));
    }

    /// For a publication whose fate is known.
    pub(super) fn push_decided(&mut self, answer: Answer) {
        self.put(Gate::Open, Ready::Publication(answer));
    }

    /// For a publication that is being judged; see [`Answers::decide`].
    pub(super) fn push_undecided(&mut self, packet_id: PacketId, exactly_once: bool) {
        let answer = Answer {
            packet_id,
            reason: Reason::SUCCESS,
            text: String::new(),
            exactly_once,
        };
        self.put(Gate::Verdict, Ready::Publication(answer));
    }

    /// For a change of the session.
    pub(super) fn push_step(&mut self, step: Step) {
        self.put(Gate::Session, Ready::Step(step));
    }

    fn put(&mut self, gate: Gate, ready: Ready) {
        self.unacknowledged += usize::from(ready.counts());
        self.without_ticket += usize::from(gate.is_without_ticket());
        self.waiting.push_back((gate, ready));
    }

    /// The verdict on the first publication that is still being judged. What it changed in the
    /// session is part of the present batch.
    pub(super) fn decide(&mut self, reason: Reason, text: String) {
        let undecided = |(gate, _): &&mut (Gate, Ready)| matches!(gate, Gate::Verdict);
        if let Some((gate, Ready::Publication(answer))) = self.waiting.iter_mut().find(undecided) {
            *gate = Gate::Session;
            self.without_ticket += 1;
            answer.reason = reason;
            answer.text = text;
        }
    }

    /// Broker and session were flushed, and this is what the present batch waits for.
    pub(super) fn batch_flushed(
        &mut self,
        publications: Option<&Result<Ticket, StoreError>>,
        session: Option<&Result<Ticket, StoreError>>,
    ) {
        // Nearly always the last ones; a verdict may come after later batches.
        for (gate, ready) in self.waiting.iter_mut().rev() {
            if self.without_ticket == 0 {
                return;
            }
            let ticket = match gate {
                Gate::Batch => publications,
                Gate::Session => session,
                _ => continue,
            };
            self.without_ticket -= 1;
            *gate = match (ticket, ready) {
                (None, _) => Gate::Open,
                (Some(Ok(ticket)), _) => Gate::Commit(ticket.clone()),
                (Some(Err(_)), Ready::Publication(answer)) => {
                    refuse(answer);
                    Gate::Open
                }
                (Some(Err(_)), Ready::Step(_)) => Gate::Failed,
            };
        }
    }

    /// The next answer that may go out. An error where a change of the session could not be
    /// stored: what the two sides know of each other is no longer the same.
    pub(super) fn pop_ready(&mut self) -> Option<Result<Ready, Unstored>> {
        let (gate, ready) = self.waiting.front_mut()?;
        match gate {
            Gate::Open => {}
            Gate::Commit(ticket) => match (ticket.outcome()?, ready) {
                (Ok(()), _) => {}
                (Err(_), Ready::Publication(answer)) => refuse(answer),
                (Err(_), Ready::Step(_)) => return Some(Err(Unstored)),
            },
            Gate::Failed => return Some(Err(Unstored)),
            Gate::Batch | Gate::Session | Gate::Verdict => return None,
        }
        let (_, ready) = self.waiting.pop_front()?;
        self.unacknowledged -= usize::from(ready.counts());
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(Ok(ready))
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
