//! State of a connection that publishes: its topics, and the publications that are judged.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use gatepost_broker::{Publisher, RecordedSender, RuleViolation, TopicSlot, VerdictReporter};
use gatepost_gateway::{Gateway, SubmissionOutcome};
use gatepost_message::{Action, Listener, Message, MessageId, Qos, Topic};
use gatepost_mqtt::{PacketId, Reason};
use gatepost_store::{StoreError, Ticket};
use tokio::time::{Instant, Sleep, sleep_until};

use super::settings::OnReject;

/// Publications of one connection that may wait for a verdict.
const JUDGED_MAX: usize = 64;

/// Whether a scope applies to a topic, as long as the procedures do not change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TopicScope {
    Unknown,
    None,
    Applies,
}

/// A publication with its verdict.
pub(super) struct JudgedPublication {
    pub(super) outcome: SubmissionOutcome,
    message: MessageId,
    pub(super) packet_id: Option<PacketId>,
    exactly_once: bool,
}

/// A publication before its verdict.
pub(super) struct WaitingPublication {
    pub(super) message: Message,
    pub(super) packet_id: Option<PacketId>,
    /// For subscriptions with No Local.
    pub(super) sender: RecordedSender,
}

type Judging = Pin<Box<dyn Future<Output = JudgedPublication> + Send>>;

/// The state of a connection that publishes.
pub(super) struct PublishingState {
    pub(super) publisher: Publisher,
    verdicts: VerdictReporter,
    /// The topics by alias, less one; empty if the client has not set the alias.
    pub(super) aliases: Vec<Box<str>>,
    /// The scopes by topic slot.
    scopes: Vec<TopicScope>,
    /// The generations of topics and procedures that `scopes` belongs to.
    scopes_of: (u64, u64),
    judging: Option<Judging>,
    /// The topic of the publication that is being judged.
    judging_topic: Option<Topic>,
    pub(super) waiting: VecDeque<WaitingPublication>,
    /// The timer that delays the next read; made once, for the few connections that need it.
    gathering: Option<Pin<Box<Sleep>>>,
}

impl PublishingState {
    pub(super) fn new(publisher: Publisher, verdicts: VerdictReporter) -> Self {
        Self {
            publisher,
            verdicts,
            aliases: Vec::new(),
            scopes: Vec::new(),
            scopes_of: (0, 0),
            judging: None,
            judging_topic: None,
            waiting: VecDeque::new(),
            gathering: None,
        }
    }

    pub(super) fn flush(&mut self) -> Option<Result<Ticket, StoreError>> {
        let ticket = self.publisher.flush();
        if let Some(until) = self.publisher.gathers_until() {
            let until = Instant::from_std(until);
            match &mut self.gathering {
                Some(timer) => timer.as_mut().reset(until),
                None => self.gathering = Some(Box::pin(sleep_until(until))),
            }
        }
        ticket
    }

    /// Waits until the client may be read again.
    pub(super) fn poll_gathered(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.gathering {
            Some(timer) if !timer.is_elapsed() => timer.as_mut().poll(context),
            _ => Poll::Ready(()),
        }
    }

    pub(super) fn is_congested(&self) -> bool {
        self.publisher.is_congested()
    }

    pub(super) fn poll_relief(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.publisher.poll_relief(context)
    }

    pub(super) fn is_waiting_for_verdicts(&self) -> bool {
        self.waiting.len() >= JUDGED_MAX
    }

    /// Whether a scope applies; looked up once for each topic and set of procedures.
    pub(super) fn is_judged(&mut self, slot: TopicSlot, gateway: &Gateway) -> bool {
        let procedures = gateway.procedures();
        let current = (self.publisher.topics_epoch(), procedures.generation());
        if self.scopes_of != current {
            self.scopes.clear();
            self.scopes_of = current;
        }
        if self.scopes.len() <= slot.index() {
            self.scopes.resize(slot.index() + 1, TopicScope::Unknown);
        }
        let scope = &mut self.scopes[slot.index()];
        if *scope == TopicScope::Unknown {
            let topic = self.publisher.topic(slot).as_str();
            *scope = match procedures.scope_for(Listener::Mqtt, Some(topic), &[]) {
                Some(_) => TopicScope::Applies,
                None => TopicScope::None,
            };
        }
        *scope == TopicScope::Applies
    }

    /// Whether an earlier publication on this topic waits for a verdict, which a later one must not
    /// overtake \[MQTT-4.6.0-5\].
    pub(super) fn is_awaited(&self, slot: TopicSlot) -> bool {
        if self.judging.is_none() {
            return false;
        }
        let topic = Some(self.publisher.topic(slot));
        let mut waiting = self.waiting.iter();
        self.judging_topic.as_ref() == topic
            || waiting.any(|waiting| waiting.message.topic.as_ref() == topic)
    }

    /// Waits for the next verdict. Publications of one client are judged one after the other, so
    /// that their order is kept.
    pub(super) fn poll_verdict(&mut self, context: &mut Context<'_>) -> Poll<JudgedPublication> {
        let Some(judging) = &mut self.judging else {
            return Poll::Pending;
        };
        let judged = std::task::ready!(judging.as_mut().poll(context));
        self.judging = None;
        Poll::Ready(judged)
    }

    /// Reports the result of an exactly-once publication to the session: a publication that was not
    /// accepted must not count as received when its sender repeats it.
    pub(super) fn settle(&self, judged: &JudgedPublication, on_reject: OnReject) {
        if let Some(packet_id) = judged.packet_id.filter(|_| judged.exactly_once) {
            let ends = on_reject == OnReject::Disconnect
                && judged.outcome.verdict.action == Action::Reject;
            let is_taken = !ends && !reason(&judged.outcome, on_reject).is_error();
            self.verdicts.settle(packet_id, judged.message, is_taken);
        }
    }

    pub(super) fn judge_next(&mut self, gateway: &Gateway) {
        if self.judging.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            self.judging_topic.clone_from(&next.message.topic);
            self.judging = Some(judge(gateway.clone(), next));
        }
    }

    /// Judges and delivers the remaining publications of a connection that has ended.
    pub(super) fn finish_in_background(
        mut self: Box<Self>,
        gateway: Option<Gateway>,
        on_reject: OnReject,
    ) {
        let Some(gateway) = gateway else { return };
        if self.judging.is_none() && self.waiting.is_empty() {
            return;
        }
        gatepost_tasks::spawn(async move {
            if let Some(judging) = self.judging.take() {
                let judged = judging.await;
                self.settle(&judged, on_reject);
            }
            while let Some(next) = self.waiting.pop_front() {
                let judged = judge(gateway.clone(), next).await;
                self.settle(&judged, on_reject);
            }
        });
    }
}

fn judge(gateway: Gateway, publication: WaitingPublication) -> Judging {
    Box::pin(async move {
        let WaitingPublication {
            message,
            packet_id,
            sender,
        } = publication;
        let exactly_once = message.qos == Qos::ExactlyOnce;
        let judged = JudgedPublication {
            message: message.id,
            outcome: gateway.submit(message).await,
            packet_id,
            exactly_once,
        };
        drop(sender);
        judged
    })
}

/// The verdict in MQTT's terms.
pub(super) fn reason(outcome: &SubmissionOutcome, on_reject: OnReject) -> Reason {
    if let Some(violation) = &outcome.violation {
        return reason_of_violation(violation);
    }
    match outcome.verdict.action {
        Action::Accept | Action::Tag if outcome.deliveries == 0 => Reason::NO_MATCHING_SUBSCRIBERS,
        Action::Accept | Action::Tag | Action::Drop | Action::Quarantine => Reason::SUCCESS,
        Action::Reject if on_reject == OnReject::PayloadFormatInvalid => {
            Reason::PAYLOAD_FORMAT_INVALID
        }
        Action::Reject => Reason::NOT_AUTHORIZED,
        Action::Defer => Reason::QUOTA_EXCEEDED,
    }
}

/// The violated rule of a topic in MQTT's terms. PUBACK and PUBREC may carry neither "packet too
/// large" nor "retain not supported" (tables 3-4 and 3-5).
pub(super) const fn reason_of_violation(violation: &RuleViolation) -> Reason {
    match violation {
        RuleViolation::PayloadTooLarge(_) | RuleViolation::TooMany(_) => Reason::QUOTA_EXCEEDED,
        RuleViolation::Schema(_) => Reason::PAYLOAD_FORMAT_INVALID,
        RuleViolation::Retained => Reason::NOT_AUTHORIZED,
    }
}
