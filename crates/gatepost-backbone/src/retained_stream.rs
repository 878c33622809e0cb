//! The stream of retained messages: reading it, and writing to it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, StorageType, Stream};
use async_nats::jetstream::{self, Context};
use gatepost_broker::{Broker, Publisher};
use gatepost_message::{Publication, Qos, TopicFilter};
use tokio::sync::watch;

use crate::encoding::{self, EncodingError};
use crate::error::BackboneError;
use crate::message_size::content_bytes_max;
use crate::receiving::follow_clock;
use crate::retained::RetainDecision;
use crate::shared::Shared;
use crate::stream_creation::make_stream;
use crate::stream_reading::{ReceivedMessage, StreamReader};
use crate::unreadable::READ_AGAIN_EVERY;

/// The time for which the removal of a retained message is kept. A node that was disconnected for
/// longer publishes the message again.
const REMOVAL_KEPT: Duration = Duration::from_hours(24 * 30);
/// Messages that are sent before their acknowledgements are waited for.
const SENT_AT_ONCE: usize = 256;
/// The pause after messages that could not be sent.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Without a message for so long the stream counts as read.
const READ_SILENCE: Duration = Duration::from_secs(3);
/// The stream's name for operators.
const DESCRIPTION: &str = "the stream of retained messages";
const READING: &str = "reading the retained messages";

/// The stream, which is made if it is not there.
pub(crate) async fn open(shared: &Shared, context: &Context) -> Result<Stream, BackboneError> {
    let config = Config {
        name: shared.subjects.stream("RETAINED"),
        description: Some("the retained messages of a Gatepost cluster".to_owned()),
        subjects: vec![shared.subjects.all_retained()],
        max_messages_per_subject: 1,
        storage: StorageType::File,
        num_replicas: usize::from(shared.settings.replicas),
        allow_direct: true,
        allow_message_ttl: true,
        ..Config::default()
    };
    make_stream(context, config).await
}

/// Reads the stream for as long as the connection lasts. `is_read` becomes true when its end was
/// reached.
pub(crate) async fn read(
    shared: Arc<Shared>,
    broker: Broker,
    stream: Stream,
    is_read: watch::Sender<bool>,
) -> BackboneError {
    let mut reader = RetainedReader {
        publisher: broker.node_publisher(),
        shared,
        broker,
        is_read,
    };
    loop {
        let Err(error) = reader.run(&stream).await;
        if !matches!(error, BackboneError::Later { .. }) {
            return error;
        }
        reader.shared.unreadable.note(DESCRIPTION, &error);
        tokio::time::sleep(READ_AGAIN_EVERY).await;
    }
}

struct RetainedReader {
    shared: Arc<Shared>,
    broker: Broker,
    publisher: Publisher,
    is_read: watch::Sender<bool>,
}

impl RetainedReader {
    async fn run(&mut self, stream: &Stream) -> Result<Infallible, BackboneError> {
        let failed = |error| BackboneError::request(READING, error);
        let info = stream.get_info().await.map_err(failed)?;
        let last = info.state.last_sequence;
        if self.shared.stream_position() > last {
            // The stream was removed, and is another one now.
            self.shared.retained.forget();
            self.shared.set_stream_position(0);
        }
        let position = self.shared.stream_position();
        let mut messages = StreamReader::after(stream, position, Vec::new(), READING).await?;
        if position >= last {
            self.shared.unreadable.clear(DESCRIPTION);
            self.reach_end();
        }
        loop {
            let is_reading = !*self.is_read.borrow();
            let next = tokio::time::timeout(READ_SILENCE, messages.next()).await;
            let Ok(next) = next else {
                if is_reading {
                    self.reach_end();
                }
                continue;
            };
            let ReceivedMessage {
                message,
                sequence,
                pending,
            } = next?;
            self.take(sequence, &message)?;
            self.shared.set_stream_position(sequence);
            if is_reading && (pending == 0 || sequence >= last) {
                self.reach_end();
            }
        }
    }

    fn take(&mut self, sequence: u64, message: &jetstream::Message) -> Result<(), BackboneError> {
        let (origin, publications) = match encoding::read(message.payload.clone()) {
            Ok(read) => read,
            // A node that passed over it would take the topic for one that no node has written.
            Err(error @ EncodingError::Version(_)) => {
                let part = format!("message {sequence} of {DESCRIPTION}");
                return Err(BackboneError::unreadable(&part, error));
            }
            Err(error) => {
                self.shared.note_malformed(error);
                return Ok(());
            }
        };
        self.shared.unreadable.clear(DESCRIPTION);
        for publication in publications {
            if !publication.topic.is_internal() {
                self.apply(origin.node, publication);
            }
        }
        // The stream keeps it, whatever this node's disk does.
        let _ = self.publisher.flush();
        Ok(())
    }

    fn apply(&mut self, node: u8, publication: Publication) {
        follow_clock(publication.id);
        let ours = self.local_retained(&publication);
        let retained = &self.shared.retained;
        let id = ours.as_ref().map(|ours| ours.id);
        match retained.decide_stored(&publication, node, id) {
            RetainDecision::Ignore => {}
            RetainDecision::Retain => {
                self.publisher.retain(publication);
            }
            // The log brings these to the subscribers.
            RetainDecision::Publish if publication.qos > Qos::AtMostOnce => {
                self.publisher.retain(publication);
            }
            RetainDecision::Publish => {
                self.shared.count_received();
                self.publisher.publish(publication);
            }
            RetainDecision::SendOurs => {
                if let Some(ours) = ours {
                    retained.begin(&ours);
                    retained.send(&ours);
                }
            }
        }
    }

    /// The message that this node retains under the same topic, if that must be known.
    fn local_retained(&self, publication: &Publication) -> Option<Arc<Publication>> {
        let topic = &publication.topic;
        if !self.shared.retained.is_unknown(topic) {
            return None;
        }
        let filter = TopicFilter::new(topic.as_str()).ok()?;
        self.broker.retained(&filter).pop()
    }

    /// The end of the stream is reached: the messages that only this node retains are sent.
    fn reach_end(&self) {
        let retained = &self.shared.retained;
        for ours in self.broker.retained(&TopicFilter::everything()) {
            if retained.is_unknown(&ours.topic) {
                retained.begin(&ours);
                retained.send(&ours);
            }
        }
        self.is_read.send_replace(true);
    }
}

/// Writes to the stream for as long as the connection lasts, once it has been read.
pub(crate) async fn write(
    shared: Arc<Shared>,
    broker: Broker,
    context: Context,
    mut is_read: watch::Receiver<bool>,
) -> BackboneError {
    if is_read.wait_for(|is_read| *is_read).await.is_err() {
        return BackboneError::Lost("the retained messages ended".to_owned());
    }
    loop {
        let mut acknowledgements = Vec::new();
        let mut has_failed = false;
        for publication in shared.retained.next_unsent(SENT_AT_ONCE).await {
            let Some(message) = stored_form(&shared, &publication) else {
                shared.retained.note_sent(&publication);
                continue;
            };
            if message.0 > content_bytes_max(&context.client()) {
                shared.retained.note_sent(&publication);
                broker.note_backbone_drops(1);
                tracing::warn!(target: "backbone", topic = publication.topic.as_str(),
                    "a retained message is larger than the NATS servers take: raise their \
                     max_payload");
                continue;
            }
            let subject = shared.subjects.retained(&publication.topic);
            match context.send_publish(subject, message.1).await {
                Ok(acknowledgement) => acknowledgements.push((publication, acknowledgement)),
                Err(error) => {
                    note_unsent(&error);
                    has_failed = true;
                    shared.retained.send_again(publication);
                }
            }
        }
        for (publication, acknowledgement) in acknowledgements {
            match acknowledgement.await {
                Ok(_) => shared.retained.note_sent(&publication),
                Err(error) => {
                    note_unsent(&error);
                    has_failed = true;
                    shared.retained.send_again(publication);
                }
            }
        }
        if has_failed {
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }
}

fn note_unsent(error: &dyn std::fmt::Display) {
    tracing::warn!(target: "backbone", %error,
        "a retained message is not stored for the other nodes yet; it is tried again");
}

/// A retained message as the stream stores it, with its length; `None` where it has expired.
fn stored_form(shared: &Shared, publication: &Publication) -> Option<(usize, PublishMessage)> {
    let mut buffer = encoding::begin(shared.next_origin());
    encoding::push(&mut buffer, publication);
    let length = buffer.len();
    let message = PublishMessage::build().payload(buffer.freeze());
    if publication.payload.is_empty() {
        return Some((length, message.ttl(REMOVAL_KEPT)));
    }
    match publication.expiry_seconds_left(SystemTime::now()) {
        None => Some((length, message)),
        Some(0) => None,
        Some(seconds) => {
            let left = Duration::from_secs(u64::from(seconds));
            Some((length, message.ttl(left)))
        }
    }
}
