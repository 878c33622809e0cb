//! Acknowledgements that must wait before they are sent.
//!
//! An acknowledgement promises durability: it waits for the commit of the acknowledged change, or
//! for a verdict. Acknowledgements are sent in the order of the packets that they answer, so a
//! waiting one delays those after it; answers that promise nothing do not pass through this queue.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use gatepost_broker::{InterestBarrier, Receipt, RetainedOfSubscription};
use gatepost_mqtt::{PacketId, Reason};
use gatepost_store::{StoreError, Ticket};
use smallvec::SmallVec;

/// PUBACK or PUBREC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublishAcknowledgement {
    pub(super) packet_id: PacketId,
    pub(super) reason: Reason,
    /// A text for people, which may be empty.
    pub(super) text: String,
    /// PUBREC instead of PUBACK.
    pub(super) exactly_once: bool,
    /// Whether subscribers have received the message although the reason is a failure: it could not
    /// be retained.
    pub(super) is_delivered: bool,
    /// Whether the topic never permits the publication: a repetition cannot succeed.
    pub(super) is_forbidden: bool,
}

/// The outcome of a SUBSCRIBE.
pub(super) struct SubscribeOutcome {
    pub(super) packet_id: PacketId,
    pub(super) reasons: SmallVec<[Reason; 8]>,
    /// The retained messages that follow the SUBACK.
    pub(super) retained: Vec<RetainedOfSubscription>,
    /// The filters whose replay begins after missing messages.
    pub(super) gaps: Vec<String>,
    /// A text for people, which may be empty.
    pub(super) text: String,
    /// The other nodes learn of the subscriptions; the client learns of them no earlier.
    pub(super) interest: Option<InterestBarrier>,
}

/// The other packets that promise something, in a session that outlives the server.
pub(super) enum SessionAcknowledgement {
    /// PUBREL.
    Release(PacketId, Reason),
    /// PUBCOMP.
    Complete {
        packet_id: PacketId,
        reason: Reason,
        /// Whether it frees a part of the client's quota: its publication came over this
        /// connection.
        counts: bool,
    },
    /// SUBACK, and the retained messages that follow it.
    Subscribed(SubscribeOutcome),
    /// UNSUBACK.
    Unsubscribed(PacketId, SmallVec<[Reason; 8]>),
}

impl SessionAcknowledgement {
    /// The wait for other nodes that is not over yet.
    fn interest(&self) -> Option<&InterestBarrier> {
        let Self::Subscribed(subscribed) = self else {
            return None;
        };
        let interest = subscribed.interest.as_ref();
        interest.filter(|barrier| !barrier.is_reached())
    }

    pub(super) fn waits_for_other_nodes(&self) -> bool {
        self.interest().is_some()
    }
}

/// An acknowledgement that may be sent now.
pub(super) enum DueAcknowledgement {
    Publication(PublishAcknowledgement),
    Session(SessionAcknowledgement),
}

impl DueAcknowledgement {
    /// See [`SessionAcknowledgement::interest`].
    fn interest(&self) -> Option<&InterestBarrier> {
        match self {
            Self::Publication(_) => None,
            Self::Session(step) => step.interest(),
        }
    }

    /// See [`Acknowledgements::unacknowledged`].
    const fn counts(&self) -> bool {
        match self {
            Self::Publication(answer) => !answer.exactly_once,
            Self::Session(step) => {
                matches!(step, SessionAcknowledgement::Complete { counts: true, .. })
            }
        }
    }

    /// See [`Acknowledgements::retained_waiting`].
    fn retained(&self) -> usize {
        match self {
            Self::Session(SessionAcknowledgement::Subscribed(subscribed)) => {
                let retained = &subscribed.retained;
                retained.iter().map(RetainedOfSubscription::len).sum()
            }
            _ => 0,
        }
    }
}

enum AcknowledgementCondition {
    /// The commit of the present batch's publications, whose ticket is not known yet.
    Batch,
    /// The commit of the present batch's changes of the session.
    Session,
    /// The commit of an earlier batch.
    Commit(Ticket),
    /// A verdict.
    Verdict,
    /// The same publication, which an earlier packet brought.
    Repetition,
    /// The other nodes' knowledge of new subscriptions.
    Interest(InterestBarrier),
    /// The acknowledgement waits for nothing and can be sent.
    Open,
    /// The acknowledgement must not be sent, because storing failed.
    Failed,
}

impl AcknowledgementCondition {
    const fn is_without_ticket(&self) -> bool {
        matches!(self, Self::Batch | Self::Session)
    }
}

type Commit = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A change of the session could not be stored.
pub(super) struct UnstoredChange;

/// Acknowledgements in the order of the packets that they answer.
#[derive(Default)]
pub(super) struct Acknowledgements {
    waiting: VecDeque<(AcknowledgementCondition, DueAcknowledgement)>,
    unacknowledged: usize,
    /// A counter, since each SUBSCRIBE reads it, and thousands of acknowledgements may wait.
    retained_waiting: usize,
    /// The number that wait for a ticket that is not known yet.
    without_ticket: usize,
    commit: Option<Commit>,
}

impl Acknowledgements {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The number of waiting acknowledgements that count against the client's quota and are not
    /// counted as received packet identifiers (section 4.9): a PUBREC's identifier is counted as
    /// received already.
    pub(super) const fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    /// The number of retained messages that wait for a SUBACK, counted once per subscription.
    pub(super) const fn retained_waiting(&self) -> usize {
        self.retained_waiting
    }

    /// Adds the acknowledgement of a publication that was passed to the broker.
    pub(super) fn push(&mut self, answer: PublishAcknowledgement) {
        self.put(
            AcknowledgementCondition::Batch,
            DueAcknowledgement::Publication(answer),
        );
    }

    /// Adds the acknowledgement of a publication whose outcome is known.
    pub(super) fn push_decided(&mut self, answer: PublishAcknowledgement) {
        self.put(
            AcknowledgementCondition::Open,
            DueAcknowledgement::Publication(answer),
        );
    }

    /// Adds the acknowledgement of a publication that is being judged; see
    /// [`Acknowledgements::decide`].
    pub(super) fn push_undecided(&mut self, packet_id: PacketId, exactly_once: bool) {
        let answer = PublishAcknowledgement {
            packet_id,
            reason: Reason::SUCCESS,
            text: String::new(),
            exactly_once,
            is_delivered: false,
            is_forbidden: false,
        };
        self.put(
            AcknowledgementCondition::Verdict,
            DueAcknowledgement::Publication(answer),
        );
    }

    /// Adds the acknowledgement of a repetition whose original is not decided yet.
    pub(super) fn push_repetition(&mut self, packet_id: PacketId) {
        let answer = PublishAcknowledgement {
            packet_id,
            reason: Reason::SUCCESS,
            text: String::new(),
            exactly_once: true,
            is_delivered: false,
            is_forbidden: false,
        };
        self.put(
            AcknowledgementCondition::Repetition,
            DueAcknowledgement::Publication(answer),
        );
    }

    /// The packet identifier of the repetition that is the next to be acknowledged.
    pub(super) fn awaited_repetition(&self) -> Option<PacketId> {
        match self.waiting.front() {
            Some((
                AcknowledgementCondition::Repetition,
                DueAcknowledgement::Publication(answer),
            )) => Some(answer.packet_id),
            _ => None,
        }
    }

    /// The state of the publication that the next acknowledgement repeats.
    pub(super) fn decide_repetition(&mut self, receipt: Receipt) {
        let Some((condition, DueAcknowledgement::Publication(answer))) = self.waiting.front_mut()
        else {
            return;
        };
        *condition = match receipt {
            Receipt::Undecided => return,
            Receipt::Submitted(ticket) => AcknowledgementCondition::Commit(ticket),
            Receipt::Received => AcknowledgementCondition::Open,
            Receipt::Unknown => {
                refuse(answer);
                AcknowledgementCondition::Open
            }
        };
    }

    /// Adds the acknowledgement of a change of the session.
    pub(super) fn push_step(&mut self, step: SessionAcknowledgement) {
        self.put(
            AcknowledgementCondition::Session,
            DueAcknowledgement::Session(step),
        );
    }

    /// For a subscription of a session that ends with the server.
    pub(super) fn push_volatile_step(&mut self, step: SessionAcknowledgement) {
        self.put(
            AcknowledgementCondition::Open,
            DueAcknowledgement::Session(step),
        );
    }

    fn put(&mut self, condition: AcknowledgementCondition, acknowledgement: DueAcknowledgement) {
        self.unacknowledged += usize::from(acknowledgement.counts());
        self.retained_waiting += acknowledgement.retained();
        self.without_ticket += usize::from(condition.is_without_ticket());
        self.waiting.push_back((condition, acknowledgement));
    }

    /// The verdict on the first publication that is still being judged. The resulting change of the
    /// session is part of the present batch.
    pub(super) fn decide(&mut self, reason: Reason, text: String, is_forbidden: bool) {
        let undecided = |(condition, _): &&mut (AcknowledgementCondition, DueAcknowledgement)| {
            matches!(condition, AcknowledgementCondition::Verdict)
        };
        if let Some((condition, DueAcknowledgement::Publication(answer))) =
            self.waiting.iter_mut().find(undecided)
        {
            *condition = AcknowledgementCondition::Session;
            self.without_ticket += 1;
            answer.reason = reason;
            answer.text = text;
            answer.is_forbidden = is_forbidden;
        }
    }

    /// Sets the tickets that the present batch waits for, after broker and session were flushed.
    pub(super) fn batch_flushed(
        &mut self,
        publications: Option<&Result<Ticket, StoreError>>,
        session: Option<&Result<Ticket, StoreError>>,
    ) {
        // These are nearly always the last entries; a verdict may arrive after later batches.
        for (condition, acknowledgement) in self.waiting.iter_mut().rev() {
            if self.without_ticket == 0 {
                return;
            }
            let ticket = match condition {
                AcknowledgementCondition::Batch => publications,
                AcknowledgementCondition::Session => session,
                _ => continue,
            };
            self.without_ticket -= 1;
            *condition = match (ticket, acknowledgement) {
                (None, _) => AcknowledgementCondition::Open,
                (Some(Ok(ticket)), _) => AcknowledgementCondition::Commit(ticket.clone()),
                (Some(Err(_)), DueAcknowledgement::Publication(answer)) => {
                    refuse(answer);
                    AcknowledgementCondition::Open
                }
                (Some(Err(_)), DueAcknowledgement::Session(_)) => AcknowledgementCondition::Failed,
            };
        }
    }

    /// The next acknowledgement that may be sent. An error means that a change of the session could
    /// not be stored, so that client and server no longer agree on the session's state.
    pub(super) fn pop_ready(&mut self) -> Option<Result<DueAcknowledgement, UnstoredChange>> {
        let (condition, acknowledgement) = self.waiting.front_mut()?;
        match condition {
            AcknowledgementCondition::Interest(barrier) if !barrier.is_reached() => return None,
            AcknowledgementCondition::Open | AcknowledgementCondition::Interest(_) => {}
            AcknowledgementCondition::Commit(ticket) => {
                match (ticket.outcome()?, acknowledgement) {
                    (Ok(()), _) => {}
                    (Err(_), DueAcknowledgement::Publication(answer)) => refuse(answer),
                    (Err(_), DueAcknowledgement::Session(_)) => return Some(Err(UnstoredChange)),
                }
            }
            AcknowledgementCondition::Failed => return Some(Err(UnstoredChange)),
            AcknowledgementCondition::Batch
            | AcknowledgementCondition::Session
            | AcknowledgementCondition::Verdict
            | AcknowledgementCondition::Repetition => {
                return None;
            }
        }
        if let Some(barrier) = self.waiting.front()?.1.interest() {
            let barrier = barrier.clone();
            self.waiting.front_mut()?.0 = AcknowledgementCondition::Interest(barrier);
            return None;
        }
        let (_, acknowledgement) = self.waiting.pop_front()?;
        self.unacknowledged -= usize::from(acknowledgement.counts());
        self.retained_waiting -= acknowledgement.retained();
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(Ok(acknowledgement))
    }

    /// Waits for the commit, or for the other nodes, that the first acknowledgement waits for.
    pub(super) fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let commit = match self.waiting.front() {
            Some((AcknowledgementCondition::Commit(ticket), _)) => {
                self.commit.get_or_insert_with(|| {
                    let ticket = ticket.clone();
                    Box::pin(async move {
                        // The outcome is read from the ticket.
                        let _ = ticket.committed().await;
                    })
                })
            }
            Some((AcknowledgementCondition::Interest(barrier), _)) => {
                let reached = || Box::pin(barrier.clone().reached()) as Commit;
                self.commit.get_or_insert_with(reached)
            }
            _ => return Poll::Pending,
        };
        let done = commit.as_mut().poll(context);
        if done.is_ready() {
            self.commit = None;
        }
        done
    }
}

/// A publication that could not be stored was not accepted: the sender may try again.
fn refuse(answer: &mut PublishAcknowledgement) {
    answer.reason = Reason::QUOTA_EXCEEDED;
    answer.text = String::from("the message could not be stored; try again later");
}
