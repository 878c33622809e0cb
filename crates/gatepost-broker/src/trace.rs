//! Traces of single publications: the subscribers that each one went to, and its outcome there.
//!
//! Only messages that an operator may inspect are traced: those that a listener submitted with a
//! promise or for a verdict. Publications among MQTT clients are counted and not traced, so that
//! the fast path costs one comparison. Deliveries to a mailbox or to the next hop are recorded in
//! the same trace by the code that makes them.
//!
//! A subscriber keeps its unfinished steps ([`OpenSteps`]), by a number of its own: the sequence of
//! a QoS 1 or 2 delivery, the running number of a QoS 0 one, the message's id at a reader. The code
//! that ends a delivery records the outcome.
//!
//! Bounds: the number of messages ([`Traces::new`]), [`STEPS_MAX`] subscribers of each,
//! [`PENDING_MAX`] open steps of each subscriber. Steps beyond these bounds are only counted.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use gatepost_message::{MessageId, Publication, Qos, Topic};
use parking_lot::Mutex;

use crate::counters::DropCause;

/// Subscribers that are named for one message.
const STEPS_MAX: usize = 200;
/// Deliveries of one subscriber whose end is still awaited.
const PENDING_MAX: usize = 64;

/// The known outcome of a publication at one subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// Written to its connection; at QoS 0 there is no acknowledgement.
    Sent,
    /// Sent or stored, and not yet acknowledged.
    Waiting,
    /// The subscriber acknowledged it.
    Acknowledged,
    /// The subscriber was not connected, and QoS 0 is not queued.
    NotConnected,
    /// Its session ended before it was acknowledged.
    SessionEnded,
    /// The subscriber did not receive it.
    Dropped(DropCause),
    /// It is stored in a mailbox.
    Kept,
    /// The next hop accepted it.
    HandedOn,
    /// The next hop refused it.
    Refused,
}

impl StepOutcome {
    /// The name in the HTTP API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Waiting => "waiting",
            Self::Acknowledged => "acknowledged",
            Self::NotConnected => "not_connected",
            Self::SessionEnded => "session_ended",
            Self::Dropped(_) => "dropped",
            Self::Kept => "kept",
            Self::HandedOn => "handed_on",
            Self::Refused => "refused",
        }
    }
}

/// One step of a message's trace: at a subscriber, a mailbox or the next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// The client id, the name of a reader, the user whose mailbox it is, the address at the next
    /// hop.
    pub client: Arc<str>,
    /// `mqtt`, `websocket`, `sse`, `json`, `mailbox`, `next hop`.
    pub kind: Cow<'static, str>,
    /// The topic and QoS of the publication; `None` for mailbox and next hop.
    pub published: Option<(Topic, Qos)>,
    /// Its outcome.
    pub outcome: StepOutcome,
    /// The reply of the next hop.
    pub said: Option<Arc<str>>,
    /// The time since which the outcome holds.
    pub since: SystemTime,
}

#[derive(Default)]
struct TraceSteps {
    named: Vec<TraceStep>,
    more: u64,
}

/// The trace of one message; several publications may share it.
#[derive(Default)]
pub(crate) struct Trace(Mutex<TraceSteps>);

impl Trace {
    fn note(self: &Arc<Self>, step: impl FnOnce() -> TraceStep) -> Option<OpenStep> {
        let mut steps = self.0.lock();
        if steps.named.len() >= STEPS_MAX {
            steps.more += 1;
            return None;
        }
        let index = steps.named.len();
        steps.named.push(step());
        let trace = Arc::clone(self);
        Some(OpenStep { trace, index })
    }

    /// Records the outcome at a session.
    #[allow(clippy::ptr_arg)] // cloned only for a trace that is not full
    pub(crate) fn at_session(
        self: &Arc<Self>,
        client_id: &Arc<str>,
        kind: &Cow<'static, str>,
        publication: &Publication,
        qos: Qos,
        outcome: StepOutcome,
    ) -> Option<OpenStep> {
        self.note(|| TraceStep {
            client: client_id.clone(),
            kind: kind.clone(),
            published: Some((publication.topic.clone(), qos)),
            outcome,
            said: None,
            since: SystemTime::now(),
        })
    }

    /// Records the delivery to a reader with this name.
    pub(crate) fn at_reader(
        self: &Arc<Self>,
        name: &str,
        kind: &'static str,
        publication: &Publication,
    ) -> Option<OpenStep> {
        self.note(|| TraceStep {
            client: name.into(),
            kind: kind.into(),
            published: Some((publication.topic.clone(), Qos::AtMostOnce)),
            outcome: StepOutcome::Waiting,
            said: None,
            since: SystemTime::now(),
        })
    }
}

impl Trace {
    /// Records the outcome at a mailbox or the next hop.
    pub(crate) fn at_destination(
        self: &Arc<Self>,
        receiver: &str,
        kind: &'static str,
        outcome: StepOutcome,
        said: Option<&str>,
    ) {
        self.note(|| TraceStep {
            client: receiver.into(),
            kind: kind.into(),
            published: None,
            outcome,
            said: said.map(Arc::from),
            since: SystemTime::now(),
        });
    }
}

/// A step whose end is awaited.
pub(crate) struct OpenStep {
    trace: Arc<Trace>,
    index: usize,
}

impl OpenStep {
    fn settle(&self, outcome: StepOutcome) {
        if let Some(step) = self.trace.0.lock().named.get_mut(self.index) {
            step.outcome = outcome;
            step.since = SystemTime::now();
        }
    }
}

/// The open steps of one subscriber, in rising order of their numbers.
#[derive(Default)]
pub(crate) struct OpenSteps(VecDeque<(u64, OpenStep)>);

impl OpenSteps {
    pub(crate) fn add(&mut self, number: u64, step: Option<OpenStep>) {
        let Some(step) = step else { return };
        if self.0.len() >= PENDING_MAX {
            self.0.pop_front();
        }
        self.0.push_back((number, step));
    }

    /// Records the end of the delivery of this number, if it is traced.
    pub(crate) fn settle(&mut self, number: u64, outcome: StepOutcome) {
        if let Ok(at) = self.0.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, step)) = self.0.remove(at)
        {
            step.settle(outcome);
        }
    }

    /// The same for all deliveries whose numbers are above `after` and up to `last`.
    pub(crate) fn settle_range(&mut self, after: u64, last: u64, outcome: StepOutcome) {
        self.0.retain(|(number, step)| {
            let is_in = *number > after && *number <= last;
            if is_in {
                step.settle(outcome);
            }
            !is_in
        });
    }
}

/// The open steps of a queue of QoS 1 and 2: steps that are open at its end were not acknowledged.
#[derive(Default)]
pub(crate) struct AcknowledgementSteps(Option<Box<OpenSteps>>);

impl AcknowledgementSteps {
    pub(crate) fn add(&mut self, sequence: u64, step: Option<OpenStep>) {
        if step.is_some() {
            self.0.get_or_insert_default().add(sequence, step);
        }
    }

    pub(crate) fn settle(&mut self, sequence: u64, outcome: StepOutcome) {
        if let Some(pending) = &mut self.0 {
            pending.settle(sequence, outcome);
        }
    }
}

impl Drop for AcknowledgementSteps {
    fn drop(&mut self) {
        for (_, step) in self.0.take().into_iter().flat_map(|pending| pending.0) {
            step.settle(StepOutcome::SessionEnded);
        }
    }
}

/// The last traced messages.
pub(crate) struct Traces {
    messages_max: usize,
    messages: Mutex<TracedMessages>,
}

#[derive(Default)]
struct TracedMessages {
    by_message: HashMap<MessageId, Arc<Trace>>,
    order: VecDeque<MessageId>,
}

impl Traces {
    pub(crate) fn new(messages_max: usize) -> Self {
        Self {
            messages_max,
            messages: Mutex::default(),
        }
    }

    /// The trace of this message: a new one, or the one that an earlier publication of it began.
    pub(crate) fn begin(&self, message: MessageId) -> Option<Arc<Trace>> {
        if self.messages_max == 0 {
            return None;
        }
        let mut messages = self.messages.lock();
        if let Some(trace) = messages.by_message.get(&message) {
            return Some(trace.clone());
        }
        if messages.order.len() >= self.messages_max
            && let Some(oldest) = messages.order.pop_front()
        {
            messages.by_message.remove(&oldest);
        }
        let trace = Arc::<Trace>::default();
        messages.order.push_back(message);
        messages.by_message.insert(message, trace.clone());
        Some(trace)
    }

    /// The steps of a message and the number of further subscribers; `None` if the trace is no
    /// longer remembered.
    pub(crate) fn of(&self, message: MessageId) -> Option<(Vec<TraceStep>, u64)> {
        let trace = self.messages.lock().by_message.get(&message).cloned()?;
        let steps = trace.0.lock();
        Some((steps.named.clone(), steps.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_message_makes_room() {
        let traces = Traces::new(2);
        let ids = [(); 3].map(|()| MessageId::next());
        for id in ids {
            assert!(traces.begin(id).is_some());
        }
        assert!(traces.of(ids[0]).is_none());
        assert_eq!(traces.of(ids[2]), Some((Vec::new(), 0)));
        assert!(Traces::new(0).begin(ids[0]).is_none());
    }

    #[test]
    fn steps_end_by_number_or_range_and_beyond_the_bound_are_counted() {
        let trace = Arc::<Trace>::default();
        let topic = Topic::new("a").expect("a topic");
        let publication = Publication::new(topic, "x");
        let mut pending = OpenSteps::default();
        for number in 1..=4 {
            pending.add(number, trace.at_reader("r", "sse", &publication));
        }
        pending.settle(1, StepOutcome::Sent);
        pending.settle_range(1, 3, StepOutcome::Dropped(DropCause::Stalled));
        for _ in 4..STEPS_MAX + 7 {
            let _ = trace.at_reader("r", "sse", &publication);
        }
        let steps = trace.0.lock();
        let outcomes: Vec<_> = steps.named[..4].iter().map(|step| step.outcome).collect();
        let dropped = StepOutcome::Dropped(DropCause::Stalled);
        assert_eq!(
            outcomes,
            [StepOutcome::Sent, dropped, dropped, StepOutcome::Waiting]
        );
        assert_eq!(steps.more, 7);
    }
}
