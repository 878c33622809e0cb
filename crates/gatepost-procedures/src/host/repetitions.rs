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
}

/// Messages whose repetitions are folded at present, by the hash of their equal parts.
#[derive(Default)]
pub(crate) struct Repetitions(Mutex<HashMap<u64, Repetition>>);

struct Repetition {
    ends: Instant,
    folded: u64,
    /// The last folded message, if a summary is requested.
    last: Option<Arc<Message>>,
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
        let mut repetitions = self.0.lock();
        let is_full = repetitions.len() >= limits.keys_max;
        match repetitions.entry(key) {
            Entry::Occupied(mut known) if known.get().ends > now => {
                let repetition = known.get_mut();
                repetition.folded += 1;
                repetition.last = limits.summary.then(|| Arc::clone(message));
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
            let mut repetitions = self.0.lock();
            repetitions
                .extract_if(|_, repetition| repetition.ends <= now)
                .map(|(_, repetition)| repetition)
                .collect()
        };
        ended
            .into_iter()
            .filter_map(|repetition| summary(repetition.last.as_deref()?, repetition.folded))
            .collect()
    }

    /// The time until the next window ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let repetitions = self.0.lock();
        let ends = repetitions
            .values()
            .map(|repetition| repetition.ends)
            .min()?;
        Some(ends.saturating_duration_since(Instant::now()))
    }
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
