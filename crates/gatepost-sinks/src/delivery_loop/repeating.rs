//! The attempts at a batch, until it is delivered or given up.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{AttemptEnding, DeliveryLoop};
use crate::attempt::{AttemptBackoff, AttemptFailure};
use crate::frame::SinkDelivery;
use crate::given_up::give_up;
use crate::status::SinkState;
use crate::transport::RemainingRecipients;

impl DeliveryLoop {
    /// Delivers a batch, in parts where it cannot leave as a whole. Parts that have left before the
    /// sink is stopped are repeated later, with the others.
    pub(super) async fn deliver(&self, batch: &[SinkDelivery]) -> AttemptEnding {
        // Not the ages of the messages: a digest has collected them for as long as its settings
        // want.
        let digest_began = self.digest.map(|_| self.broker.time_for_ages());
        let oldest = batch.iter().map(|delivery| delivery.id.time()).min();
        let born = digest_began.or(oldest);
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.deliver_part(part, born).await {
                AttemptEnding::Done => {}
                AttemptEnding::Divide => {
                    let (first, rest) = part.split_at(part.len() / 2);
                    parts.extend([rest, first]);
                }
                ending => return ending,
            }
        }
        AttemptEnding::Done
    }

    /// Repeats attempts until these messages are delivered or given up. `born` is the time from
    /// which their age counts.
    async fn deliver_part(
        &self,
        batch: &[SinkDelivery],
        born: Option<SystemTime>,
    ) -> AttemptEnding {
        let mut backoff = AttemptBackoff::new(&self.settings.retry);
        let mut remaining = RemainingRecipients::default();
        let mut attempts = 0;
        loop {
            if !self.sleep(self.pace.place()).await {
                return AttemptEnding::Unfinished;
            }
            if !self.may_be_sent(batch) {
                return AttemptEnding::Done;
            }
            attempts += 1;
            let failure = match self.transport.attempt(batch, &mut remaining).await {
                Ok(()) => {
                    self.progress.delivered(batch.len());
                    return AttemptEnding::Done;
                }
                Err(failure) => failure,
            };
            let reason = failure.to_string();
            let wait = match failure {
                AttemptFailure::Gone(_) => {
                    self.note_failure(&reason, SinkState::Gone);
                    return AttemptEnding::Gone;
                }
                AttemptFailure::TooMany(_) if batch.len() > 1 => return AttemptEnding::Divide,
                AttemptFailure::Refused(_) | AttemptFailure::TooMany(_) => {
                    self.progress.failed(&reason, SinkState::Running);
                    None
                }
                AttemptFailure::Again { wait, .. } => {
                    self.note_failure(&reason, SinkState::Retrying);
                    self.next_attempt(born, attempts, wait, &mut backoff)
                }
            };
            let Some(pause) = wait else {
                if self.give_up(batch, &remaining, attempts, &reason).await {
                    return AttemptEnding::Done;
                }
                return AttemptEnding::Unfinished;
            };
            if !self.sleep(Instant::now() + pause).await {
                return AttemptEnding::Unfinished;
            }
        }
    }

    /// Whether the messages may be sent now, which may have changed since the last attempt.
    fn may_be_sent(&self, batch: &[SinkDelivery]) -> bool {
        if let Some(rights) = &self.authorization
            && batch.iter().any(|one| !rights.may_receive(&one.topic))
        {
            return false;
        }
        // A message that expires after a digest has collected it is still part of the digest.
        let has_expired = self.digest.is_none() && batch.iter().any(SinkDelivery::has_expired);
        if has_expired {
            self.progress.expired();
        }
        !has_expired
    }

    /// The pause before the next attempt; `None` if no attempt is left.
    pub(super) fn next_attempt(
        &self,
        born: Option<SystemTime>,
        attempts: u32,
        wait: Option<Duration>,
        backoff: &mut AttemptBackoff,
    ) -> Option<Duration> {
        let retry = &self.settings.retry;
        // Not the clock's time: if that is set far ahead, no message is given up for it.
        let now = self.broker.time_for_ages();
        let age = born.and_then(|born| now.duration_since(born).ok());
        let age_max = retry.age_max.duration();
        let is_old = !age_max.is_zero() && age.unwrap_or_default() >= age_max;
        let is_last = retry.attempts_max > 0 && attempts >= retry.attempts_max;
        if is_old || is_last {
            return None;
        }
        if let Some(wait) = wait {
            self.pace.wait(wait);
        }
        Some(backoff.pause().max(wait.unwrap_or_default()))
    }

    /// Gives the batch up; tries again if a dead letter cannot be stored. Returns `false` if the
    /// sink is stopped before that.
    async fn give_up(
        &self,
        batch: &[SinkDelivery],
        remaining: &RemainingRecipients,
        attempts: u32,
        reason: &str,
    ) -> bool {
        let mut backoff = AttemptBackoff::new(&self.settings.retry);
        let (name, dead_letter) = (&self.settings.name, self.dead_letter.as_ref());
        for delivery in batch {
            while !(self.transport.keep(delivery, remaining, reason).await
                && give_up(&self.broker, name, dead_letter, delivery, attempts, reason).await)
            {
                if !self.sleep(Instant::now() + backoff.pause()).await {
                    return false;
                }
            }
            self.progress.gave_up();
        }
        true
    }
}
