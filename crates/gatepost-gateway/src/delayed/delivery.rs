//! The delivery of messages whose time has come.
//!
//! Messages that are due are published in batches. The publications of a batch and the removals of
//! its messages are one commit, so that a failure repeats both and loses none. A message that is
//! refused gets a time for its next attempt, and the others do not wait for it.

use std::time::{Duration, SystemTime};

use gatepost_broker::{PublishRefusal, Publisher};
use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};
use tokio::sync::watch;

use super::DelayedMessages;
use super::stored::{self, FoundMessage};
use super::waiting::{DuePosition, WaitingMessage, unix_ms};

/// The longest sleep: the clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(30);
/// The pause before the store is checked again.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Messages that share a commit.
const BATCH_MESSAGES_MAX: usize = 100;
/// The bytes of their topics and payloads; a larger message is delivered alone.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// The outcome of an attempt.
enum AttemptOutcome {
    /// The message is published, or can never be: it is removed.
    Done,
    /// It is tried again: after this time, if that is known.
    Later(Option<Duration>),
}

/// Messages that were published together.
struct PublishedBatch {
    /// The messages that the commit removes.
    messages: Vec<(DuePosition, WaitingMessage)>,
    /// The commit of the publications and the removals.
    ticket: Option<Result<Ticket, StoreError>>,
}

impl DelayedMessages {
    /// Publishes each message at its time, until `is_down` returns true.
    pub async fn run(self, mut is_down: watch::Receiver<bool>) {
        loop {
            let pause = self.publish_due().await;
            tokio::select! {
                _ = is_down.wait_for(|&is_down| is_down) => return,
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Publishes the messages that are due, and returns the time until the next check.
    async fn publish_due(&self) -> Duration {
        loop {
            let now = SystemTime::now();
            let next = self.state().waiting.next_attempt_unix_ms();
            let Some(next) = next else {
                return SLEEP_MAX;
            };
            let left = Duration::from_millis(next.saturating_sub(unix_ms(now)));
            if !left.is_zero() {
                return left.min(SLEEP_MAX);
            }
            // Subscribers would get the messages, and again after each attempt.
            if self.0.store.readiness().is_err() {
                return STORE_PAUSE;
            }
            self.publish_batch(now).await;
        }
    }

    fn take_due(&self, now: SystemTime) -> Vec<(DuePosition, WaitingMessage)> {
        let waiting = &mut self.state().waiting;
        waiting.take_due(now, BATCH_MESSAGES_MAX, BATCH_BYTES_MAX)
    }

    /// Publishes some of the messages that are due. Each of them is removed, or gets a time for its
    /// next attempt.
    async fn publish_batch(&self, now: SystemTime) {
        // From here on they can be neither replaced nor cancelled.
        let due = self.take_due(now);
        let batch = self.publish_together(due, now);
        let stored = match batch.ticket {
            None => Ok(()),
            Some(Ok(ticket)) => ticket.committed().await,
            Some(Err(error)) => Err(error),
        };
        if let Err(error) = stored {
            tracing::debug!(target: "gateway", %error, "delayed messages are published again");
            for (place, message) in batch.messages {
                self.put_off(place, message, now, None);
            }
        }
    }

    /// Publishes these messages, and submits them with their removals. Those that are refused wait
    /// for their next attempt.
    fn publish_together(
        &self,
        due: Vec<(DuePosition, WaitingMessage)>,
        now: SystemTime,
    ) -> PublishedBatch {
        let core = &self.0;
        let mut messages = Vec::new();
        let mut publisher = core.broker.publisher();
        for (place, message) in due {
            let outcome = match stored::read(&core.store, place) {
                Ok(FoundMessage::Whole(publication)) => {
                    attempt(&mut publisher, publication, &message)
                }
                Ok(FoundMessage::Unreadable) => {
                    tracing::error!(target: "gateway", topic = message.topic, id = %place.id,
                        "a delayed message is damaged and is not delivered; its record stays in \
                         the database");
                    continue;
                }
                // It has failed, was never acknowledged, and its time is long over.
                Ok(FoundMessage::Absent) if place.is_overdue() => continue,
                // Its commit may be in progress.
                Ok(FoundMessage::Absent) => AttemptOutcome::Later(None),
                Err(error) => {
                    tracing::warn!(target: "gateway", %error, "a delayed message cannot be read");
                    AttemptOutcome::Later(None)
                }
            };
            match outcome {
                AttemptOutcome::Done => {
                    publisher.add_changes([stored::removal(place)]);
                    messages.push((place, message));
                }
                AttemptOutcome::Later(wait) => self.put_off(place, message, now, wait),
            }
        }
        PublishedBatch {
            messages,
            ticket: publisher.flush_effects(),
        }
    }

    fn put_off(
        &self,
        place: DuePosition,
        mut message: WaitingMessage,
        now: SystemTime,
        wait: Option<Duration>,
    ) {
        message.put_off(now, wait);
        self.state().put_back(&self.0.store, place, message);
    }
}

/// Publishes one message.
fn attempt(
    publisher: &mut Publisher,
    mut publication: Publication,
    message: &WaitingMessage,
) -> AttemptOutcome {
    let topic = &message.topic;
    publication.id = MessageId::next();
    let is_kept = publisher.keeps(&publication);
    let refusal = match publisher.publish(publication).refused {
        // A publication that could not be retained has still reached its subscribers.
        None | Some(PublishRefusal::Retain) => return AttemptOutcome::Done,
        Some(refusal) => refusal,
    };
    match &refusal {
        // The rules of its topic have changed since it was accepted.
        PublishRefusal::Rule(violation) if !violation.is_temporary() => {
            tracing::warn!(target: "gateway", topic, "a delayed message is dropped: {violation}");
            return AttemptOutcome::Done;
        }
        // Readers of the history would get it with each attempt.
        PublishRefusal::Queues if is_kept => {
            tracing::warn!(target: "gateway", topic,
                "a delayed message is in the history only: {refusal}");
            return AttemptOutcome::Done;
        }
        _ => {}
    }
    if message.failures == 0 {
        tracing::warn!(target: "gateway", topic,
            "a delayed message is not yet delivered: {refusal}");
    }
    let seconds = match &refusal {
        PublishRefusal::Rule(violation) => violation.retry_seconds(),
        _ => None,
    };
    AttemptOutcome::Later(seconds.map(Duration::from_secs))
}
