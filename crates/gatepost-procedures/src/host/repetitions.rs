//! Repeated messages that `/dedupe` folds. The table is in memory and survives a reload.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_mail::Mail;
use gatepost_message::{Format, Message, Properties, Publication, Qos};
use parking_lot::Mutex;

/// The limits of `/dedupe`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepetitionLimits {
    /// The time after the first message in which its repetitions are dropped.
    pub(crate) window: Duration,
    /// Different messages that are remembered at once; beyond them nothing is folded.
    pub(crate) keys_max: usize,
    /// Whether the last repetition is published at the end of the window.
    pub(crate) summary: bool,
    /// Bytes of the messages that are held for summaries; a message beyond them is not folded.
    pub(crate) bytes_max: usize,
}

/// Messages whose repetitions are folded at present, by the hash of their equal parts.
#[derive(Default)]
pub(crate) struct Repetitions(Mutex<FoldedMessages>);

#[derive(Default)]
struct FoldedMessages {
    by_key: HashMap<u64, Repetition>,
    /// Bytes of the messages in it.
    bytes: usize,
}

struct Repetition {
    ends: Instant,
    folded: u64,
    /// The last folded message, if a summary is requested.
    last: Option<Arc<Message>>,
}

impl Repetition {
    fn bytes(&self) -> usize {
        self.last.as_deref().map_or(0, bytes_of)
    }
}

impl Repetitions {
    /// Counts a message; returns its number among the folded ones, or `None` for the first.
    pub(crate) fn fold(
        &self,
        key: u64,
        message: &Arc<Message>,
        limits: RepetitionLimits,
        now: Instant,
    ) -> Option<u64> {
        let mut messages = self.0.lock();
        let FoldedMessages { by_key, bytes } = &mut *messages;
        let is_full = by_key.len() >= limits.keys_max;
        match by_key.entry(key) {
            Entry::Occupied(mut known) if known.get().ends > now => {
                let repetition = known.get_mut();
                let last = limits.summary.then(|| Arc::clone(message));
                let others = *bytes - repetition.bytes();
                let held = others + last.as_deref().map_or(0, bytes_of);
                if last.is_some() && held > limits.bytes_max {
                    return None;
                }
                *bytes = held;
                repetition.folded += 1;
                repetition.last = last;
                Some(repetition.folded)
            }
            // A window that has ended is first summarised by `end`; the next window begins with a
            // later message.
            Entry::Occupied(known) if known.get().last.is_some() => None,
            Entry::Vacant(_) if is_full => None,
            entry => {
                let ends = now + limits.window;
                entry.insert_entry(Repetition {
                    ends,
                    folded: 0,
                    last: None,
                });
                None
            }
        }
    }

    /// Removes the windows that have ended, and returns the summaries to publish.
    pub(crate) fn end(&self, now: Instant) -> Vec<Publication> {
        let ended: Vec<Repetition> = {
            let mut messages = self.0.lock();
            let FoldedMessages { by_key, bytes } = &mut *messages;
            by_key
                .extract_if(|_, repetition| repetition.ends <= now)
                .map(|(_, repetition)| repetition)
                .inspect(|repetition| *bytes -= repetition.bytes())
                .collect()
        };
        ended
            .into_iter()
            .filter_map(|repetition| summary(repetition.last.as_deref()?, repetition.folded))
            .collect()
    }

    /// The time until the next window ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let messages = self.0.lock();
        let ends = messages
            .by_key
            .values()
            .map(|repetition| repetition.ends)
            .min()?;
        Some(ends.saturating_duration_since(Instant::now()))
    }
}

/// The bytes that hold a message, without the small fields of its envelope.
fn bytes_of(message: &Message) -> usize {
    let properties = message.properties.as_deref();
    let user = properties.map_or(&[][..], |properties| properties.user.as_slice());
    let user = user.iter().map(|(name, value)| name.len() + value.len());
    message.body.len() + user.sum::<usize>() + size_of::<Message>()
}

/// The last repetition with its count; `None` for a message without a topic.
fn summary(last: &Message, folded: u64) -> Option<Publication> {
    let mut publication = Publication::new(last.topic.clone()?, last.body.clone());
    let mut properties = last.properties.as_deref().cloned().unwrap_or_default();
    if last.format == Format::Mail {
        let mail = Mail::parse(&last.body);
        publication.payload = format!("{}\n\n{}", mail.subject(), mail.readable_text()).into();
        properties = Properties {
            content_type: Some("text/plain; charset=utf-8".to_owned()),
            payload_is_text: Some(true),
            user: vec![("subject".to_owned(), mail.subject())],
            ..Properties::default()
        };
    }
    properties
        .user
        .push(("repeated".to_owned(), folded.to_string()));
    publication.qos = Qos::AtLeastOnce;
    publication.retain = last.retain;
    publication.properties = Some(Box::new(properties));
    Some(publication)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gatepost_message::{Envelope, Listener, Peer, Topic};

    fn message(bytes: usize) -> Arc<Message> {
        let envelope = Envelope::new(Listener::Mqtt, Peer::Local);
        let body = Bytes::from(vec![b'x'; bytes]);
        let topic = Topic::new("a").ok();
        Arc::new(Message::new(envelope, topic, Format::Payload, body))
    }

    #[test]
    fn messages_that_are_held_for_summaries_are_bounded() {
        let repetitions = Repetitions::default();
        let window = Duration::from_mins(1);
        let limits = RepetitionLimits {
            window,
            keys_max: 10,
            summary: true,
            bytes_max: 15_000,
        };
        let now = Instant::now();
        let fold = |key, bytes, at| repetitions.fold(key, &message(bytes), limits, at);
        assert_eq!((fold(1, 9_000, now), fold(2, 9_000, now)), (None, None));
        assert_eq!(
            (fold(1, 9_000, now), fold(1, 9_000, now)),
            (Some(1), Some(2))
        );
        assert_eq!(
            fold(2, 9_000, now),
            None,
            "there is no space for a second one"
        );
        assert_eq!(fold(2, 100, now), Some(1));
        assert_eq!(fold(1, 16_000, now), None);
        assert_eq!(repetitions.end(now + window).len(), 2);
        let later = now + window;
        assert_eq!(
            (fold(2, 9_000, later), fold(2, 9_000, later)),
            (None, Some(1))
        );
        let unheld = RepetitionLimits {
            summary: false,
            bytes_max: 0,
            ..limits
        };
        let fold = || repetitions.fold(3, &message(9_000), unheld, later);
        assert_eq!((fold(), fold()), (None, Some(1)));
    }
}
