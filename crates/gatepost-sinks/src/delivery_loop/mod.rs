//! The work of a sink whose messages are independent of each other: the sink sends as many at once
//! as its settings allow, repeats each until it is delivered or given up, and acknowledges it. A
//! sink with digests collects the messages of a period and sends them as one.

mod repeating;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gatepost_broker::{
    Authorization, Broker, DisconnectCause, RequestedFilter, RetainHandling, SubscribeOptions,
};
use gatepost_message::{Qos, Topic};
use gatepost_store::{StoreError, Ticket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::attempt::{AttemptBackoff, RequestPace, explained};
use crate::frame::{SinkDelivery, SinkFrame};
use crate::session::{SinkSession, SinkSubscription};
use crate::settings::SinkSettings;
use crate::status::{SinkProgress, SinkState};
use crate::transport::SinkTransport;

/// The longest time for which a stopping sink waits for attempts that have begun.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);

/// The schedule of a sink that collects messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DigestSchedule {
    /// The time from one digest to the next.
    pub(crate) every: Duration,
    /// Messages in one.
    pub(crate) messages_max: u16,
}

/// Messages that leave together, in their order.
type Batch = Vec<SinkDelivery>;

/// The commits of acknowledgements that are not on disk yet, in their order. Each counts as a
/// message under way, so a crash repeats no more messages than the sink may send at once, however
/// slow the disk is.
type UncommittedAcks = VecDeque<Ticket>;

/// The outcome of the attempts at a batch.
enum AttemptEnding {
    /// The message is delivered or given up, and may be acknowledged.
    Done,
    /// The sink is being stopped; the message is delivered again later.
    Unfinished,
    /// The destination no longer exists.
    Gone,
    /// The batch must be divided.
    Divide,
}

/// The reason why a sink has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    /// The sink was stopped.
    Stopped,
    /// The server no longer exists.
    Gone,
}

/// The reason why a session is no longer served.
enum ServiceEnd {
    Work(WorkEnd),
    Session(DisconnectCause),
}

/// A running sink.
pub(crate) struct DeliveryLoop {
    pub(crate) broker: Broker,
    pub(crate) settings: SinkSettings,
    pub(crate) transport: Box<dyn SinkTransport>,
    /// The rights of the sink's user; `None` for a sink of the config.
    pub(crate) authorization: Option<Arc<dyn Authorization>>,
    pub(crate) concurrency: u16,
    /// `None` where each message is sent separately.
    pub(crate) digest: Option<DigestSchedule>,
    pub(crate) progress: Arc<SinkProgress>,
    pub(crate) dead_letter: Option<Topic>,
    pub(crate) pace: RequestPace,
    pub(crate) stop: watch::Receiver<bool>,
}

impl DeliveryLoop {
    /// Runs until the sink is stopped, or the destination no longer exists. If the session is lost,
    /// a new one is opened.
    pub(crate) async fn run(self) -> WorkEnd {
        let this = Arc::new(self);
        let mut backoff = AttemptBackoff::new(&this.settings.retry);
        while !*this.stop.borrow() {
            let opened = SinkSession::open(&this.broker, &this.settings, &this.wanted()).await;
            this.progress.opened();
            let why = match opened {
                Ok(mut session) => {
                    this.progress.set_state(SinkState::Running);
                    backoff.succeeded();
                    let ended = this.serve(&mut session).await;
                    this.progress.end_all_deliveries();
                    session.close();
                    match ended {
                        ServiceEnd::Work(end) => return end,
                        ServiceEnd::Session(DisconnectCause::ShuttingDown) => {
                            return WorkEnd::Stopped;
                        }
                        ServiceEnd::Session(cause) => explained(cause).to_owned(),
                    }
                }
                Err(error) => error.to_string(),
            };
            this.note_failure(&why, SinkState::Starting);
            this.sleep(Instant::now() + backoff.pause()).await;
        }
        WorkEnd::Stopped
    }

    fn wanted(&self) -> SinkSubscription {
        let options = SubscribeOptions {
            // Retained messages are not events.
            retain_handling: RetainHandling::DoNotSend,
            retain_as_published: true,
            ..SubscribeOptions::at(Qos::AtLeastOnce)
        };
        let filters = self.settings.filters.iter();
        let filters = filters.filter_map(|text| RequestedFilter::new(text).ok());
        SinkSubscription {
            filters: filters.map(|filter| (filter, options)).collect(),
            in_flight_max: self.in_flight_max(),
            frame_bytes_max: None,
            kind: self.transport.kind(),
            authorization: self.authorization.clone(),
        }
    }

    /// Messages that the sink may be at.
    fn in_flight_max(&self) -> u16 {
        match self.digest {
            Some(digest) => digest.messages_max,
            None => self.concurrency,
        }
    }

    /// Serves the session until the sink stops or the session ends.
    async fn serve(self: &Arc<Self>, session: &mut SinkSession) -> ServiceEnd {
        let mut stop = self.stop.clone();
        let mut at_work: JoinSet<(Batch, AttemptEnding)> = JoinSet::new();
        let mut uncommitted = UncommittedAcks::new();
        let mut collected = Batch::new();
        // The time of the last digest is not stored: after a restart, the next one is sent early.
        let mut next_digest = Instant::now();
        let mut is_gone = false;
        let ended = loop {
            if is_gone && self.transport.ends_when_gone() {
                break ServiceEnd::Work(WorkEnd::Gone);
            }
            while uncommitted
                .front()
                .is_some_and(|ack| ack.outcome().is_some())
            {
                uncommitted.pop_front();
            }
            let under_way = at_work.len() + uncommitted.len();
            let is_ready = !collected.is_empty() && under_way == 0 && !is_gone;
            tokio::select! {
                // In this order: what arrives after the stop is for the sink that follows, and a
                // digest has all messages that wait.
                biased;
                _ = stop.wait_for(|&stop| stop) => break ServiceEnd::Work(WorkEnd::Stopped),
                Some(done) = at_work.join_next() => match done {
                    Ok(done) => is_gone |= self.settle(session, done, &mut uncommitted),
                    Err(error) => {
                        tracing::error!(target: "sinks", sink = self.settings.name, %error,
                            "an attempt panicked; unfinished messages are delivered again");
                        break ServiceEnd::Session(DisconnectCause::Broken);
                    }
                },
                Some(_) = first_commit(&uncommitted) => {}
                handed = session.next(), if self.has_room(under_way, &collected) && !is_gone => {
                    match handed {
                        Ok(SinkFrame::Delivery(delivery)) if !self.transport.accepts(&delivery) => {
                            session.complete(&delivery);
                        }
                        Ok(SinkFrame::Delivery(delivery)) => {
                            self.progress.began(delivery.id);
                            match self.digest {
                                Some(_) => collected.push(*delivery),
                                None => self.begin(&mut at_work, vec![*delivery]),
                            }
                        }
                        Ok(SinkFrame::Release(packet_id)) => session.released(packet_id),
                        Err(cause) => break ServiceEnd::Session(cause),
                    }
                }
                () = tokio::time::sleep_until(next_digest), if is_ready => {
                    let every = self.digest.map(|digest| digest.every).unwrap_or_default();
                    next_digest = Instant::now() + every;
                    self.begin(&mut at_work, std::mem::take(&mut collected));
                }
            }
        };
        // Requests that have begun may finish: an answer that arrives now avoids a repetition.
        let finish = async {
            while let Some(done) = at_work.join_next().await {
                if let Ok(done) = done {
                    self.settle(session, done, &mut uncommitted);
                }
            }
        };
        let _ = tokio::time::timeout(STOP_TIME_MAX, finish).await;
        ended
    }

    /// Whether another message may be taken from the session.
    fn has_room(&self, under_way: usize, collected: &[SinkDelivery]) -> bool {
        match self.digest {
            Some(digest) => collected.len() < usize::from(digest.messages_max),
            None => under_way < usize::from(self.concurrency),
        }
    }

    /// Begins the attempts at a batch.
    fn begin(self: &Arc<Self>, at_work: &mut JoinSet<(Batch, AttemptEnding)>, batch: Batch) {
        let this = Arc::clone(self);
        at_work.spawn(async move {
            let ending = this.deliver(&batch).await;
            (batch, ending)
        });
    }

    /// Acknowledges a finished batch; returns whether the destination no longer exists.
    fn settle(
        &self,
        session: &SinkSession,
        (batch, ending): (Batch, AttemptEnding),
        uncommitted: &mut UncommittedAcks,
    ) -> bool {
        match ending {
            AttemptEnding::Done => {
                let mut ticket = None;
                for delivery in &batch {
                    self.progress.end_delivery(delivery.id);
                    ticket = session.complete(delivery);
                }
                // The session submits again the changes that the store refused.
                uncommitted.extend(ticket.and_then(Result::ok));
                false
            }
            AttemptEnding::Unfinished | AttemptEnding::Divide => false,
            AttemptEnding::Gone => true,
        }
    }

    /// Counts a failure, and logs the first failure of a series.
    fn note_failure(&self, reason: &str, state: SinkState) {
        if self.progress.failed(reason, state) {
            tracing::warn!(target: "sinks", sink = self.settings.name, reason,
                "a sink does not deliver");
        }
    }

    /// Sleeps until then; returns `false` if the sink is stopped.
    async fn sleep(&self, until: Instant) -> bool {
        if until <= Instant::now() {
            return !*self.stop.borrow();
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|&stop| stop) => false,
            () = tokio::time::sleep_until(until) => true,
        }
    }
}

/// Waits for the first of these commits; `None` if there is none.
async fn first_commit(uncommitted: &UncommittedAcks) -> Option<Result<(), StoreError>> {
    Some(uncommitted.front()?.committed().await)
}

#[cfg(test)]
mod tests;
