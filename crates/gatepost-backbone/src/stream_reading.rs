//! Reading of a stream for as long as a connection lasts.
//!
//! The engine can pause or lose a consumer without a sign that the client library notices. Its
//! reader would then wait without end, and this node would receive nothing more of the stream.
//! Therefore, a reader that receives nothing asks for the last message of the stream at intervals.
//! If a message that was there at one question has not arrived at the next one, the reader fails,
//! so that the connection is closed, and reading begins again after what was stored.

use std::time::{Duration, Instant};

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::error::BackboneError;

/// The interval of questions while nothing arrives. A message takes less time from the stream to
/// its reader, and an election of the engine too.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// The time for the answers, in which the reader does not read.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// A message of a stream.
pub(crate) struct ReceivedMessage {
    pub(crate) message: Message,
    pub(crate) sequence: u64,
    /// The messages after it that the engine has not delivered yet.
    pub(crate) pending: u64,
}

/// Reads a stream in order. After an interruption, messages may be read again.
pub(crate) struct StreamReader {
    stream: Stream,
    messages: Ordered,
    /// The subjects that are read, all if empty.
    subjects: Vec<String>,
    /// The name of this reading in errors.
    action: &'static str,
    /// The last message that was received, or the one after which reading began.
    reached: u64,
    /// The time of the last question, or of the last message.
    asked: Instant,
    /// A message that was in the stream at the last question, and had not arrived.
    missing: Option<u64>,
}

impl StreamReader {
    /// Reads what the stream has after this sequence.
    pub(crate) async fn after(
        stream: &Stream,
        sequence: u64,
        subjects: Vec<String>,
        action: &'static str,
    ) -> Result<Self, BackboneError> {
        let deliver_policy = DeliverPolicy::ByStartSequence {
            start_sequence: sequence + 1,
        };
        Self::begin(stream, deliver_policy, sequence, subjects, action).await
    }

    /// Reads the last message of each subject, and then all later ones.
    pub(crate) async fn last_of_each(
        stream: &Stream,
        subjects: Vec<String>,
        action: &'static str,
    ) -> Result<Self, BackboneError> {
        Self::begin(stream, DeliverPolicy::LastPerSubject, 0, subjects, action).await
    }

    async fn begin(
        stream: &Stream,
        deliver_policy: DeliverPolicy,
        reached: u64,
        subjects: Vec<String>,
        action: &'static str,
    ) -> Result<Self, BackboneError> {
        let config = OrderedConfig {
            deliver_policy,
            filter_subjects: subjects.clone(),
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| BackboneError::request(action, error))?;
        let messages = consumer.messages().await;
        Ok(Self {
            stream: stream.clone(),
            messages: messages.map_err(|error| BackboneError::request(action, error))?,
            subjects,
            action,
            reached,
            asked: Instant::now(),
            missing: None,
        })
    }

    /// Waits for a message. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<ReceivedMessage, BackboneError> {
        loop {
            let until_question = ASK_EVERY.saturating_sub(self.asked.elapsed());
            match tokio::time::timeout(until_question, self.messages.next()).await {
                Ok(next) => return self.received(next),
                Err(_) => self.ask().await?,
            }
        }
    }

    /// A message that has arrived already.
    pub(crate) fn try_next(&mut self) -> Option<Result<ReceivedMessage, BackboneError>> {
        let next = self.messages.next().now_or_never()?;
        Some(self.received(next))
    }

    fn received<E: ToString>(
        &mut self,
        next: Option<Result<Message, E>>,
    ) -> Result<ReceivedMessage, BackboneError> {
        let Some(message) = next else {
            let name = &self.stream.cached_info().config.name;
            return Err(BackboneError::Lost(format!("the stream {name} ended")));
        };
        let message = message.map_err(|error| BackboneError::request(self.action, error))?;
        let info = message.info();
        let info = info.map_err(|error| BackboneError::request(self.action, error))?;
        let (sequence, pending) = (info.stream_sequence, info.pending);
        self.reached = self.reached.max(sequence);
        self.asked = Instant::now();
        self.missing = None;
        Ok(ReceivedMessage {
            message,
            sequence,
            pending,
        })
    }

    /// Fails if a message is missing that was missing at the last question.
    async fn ask(&mut self) -> Result<(), BackboneError> {
        self.asked = Instant::now();
        // Whether the engine answers is checked elsewhere.
        let last = last_of(&self.stream, &self.subjects, self.reached);
        let last = tokio::time::timeout(ANSWERED_WITHIN, last).await;
        let Ok(Some(last)) = last else {
            return Ok(());
        };
        let missing = (last > self.reached).then_some(last);
        if let (Some(before), Some(last)) = (self.missing, missing)
            && last >= before
        {
            return Err(BackboneError::StandsStill {
                stream: self.stream.cached_info().config.name.clone(),
                reached: self.reached,
                last,
            });
        }
        self.missing = missing;
        Ok(())
    }
}

/// The sequence of the last message with one of these subjects, all if there are none. If it is not
/// after `reached`, it may be that of a message with another subject. `None` if it is not known.
async fn last_of(stream: &Stream, subjects: &[String], reached: u64) -> Option<u64> {
    let last = stream.get_info().await.ok()?.state.last_sequence;
    if last <= reached {
        return Some(last);
    }
    // The stream may have removed that message, or it may have another subject.
    let all = [">".to_owned()];
    let subjects = if subjects.is_empty() { &all } else { subjects };
    let mut last = 0;
    for subject in subjects {
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => last = last.max(message.sequence),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
            Err(_) => return None,
        }
    }
    Some(last)
}
