//! `/dedupe`: of messages that say the same within a time, the first passes and the others are
//! counted. At the end of the time the last of them is published with its count, so that a storm
//! of alarms is two messages, and nothing of it is lost in silence.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::{Action, Format, Message, Properties, Publication, Qos, Verdict};
use gatepost_rules::mail::Mail;
use gatepost_settings::Period;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::host::{Host, Resources};
use crate::procedure::{Answer, Call, Failure, Needs, Procedure};

/// What makes two messages the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Same {
    /// Topic and content: a mail's subject and readable text, else the payload.
    #[default]
    Content,
    /// Topic, sender and a mail's subject.
    Subject,
    /// The topic alone.
    Topic,
}

/// `[procedure."/dedupe"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DedupeSettings {
    /// What makes two messages the same: `content`, `subject` or `topic`.
    pub same: Same,
    /// Whether numbers count: without them, `load is 91` and `load is 92` are the same.
    pub numbers: bool,
    /// How long after the first the others are folded.
    pub window: Period,
    /// What becomes of those that are folded.
    #[serde(with = "crate::settings::as_text")]
    pub action: Action,
    /// Whether the last of them is published at the end of the window, with the user property
    /// `repeated`: how many were folded.
    pub summary: bool,
    /// Different messages that are remembered at once; beyond them nothing is folded.
    pub keys_max: usize,
}

impl Default for DedupeSettings {
    fn default() -> Self {
        Self {
            same: Same::Content,
            numbers: true,
            window: Period::seconds(300),
            action: Action::Drop,
            summary: true,
            keys_max: 10_000,
        }
    }
}

/// What is being folded.
#[derive(Default)]
pub(crate) struct Storms(Mutex<HashMap<u64, Storm>>);

struct Storm {
    ends: Instant,
    folded: u64,
    /// The last that was folded, where a summary is wanted.
    last: Option<Arc<Message>>,
}

pub(crate) struct Dedupe {
    name: Arc<str>,
    settings: DedupeSettings,
    resources: Arc<Resources>,
}

impl Dedupe {
    pub(crate) fn new(name: &str, settings: DedupeSettings, resources: &Arc<Resources>) -> Self {
        Self {
            name: name.into(),
            settings,
            resources: Arc::clone(resources),
        }
    }

    fn key(&self, message: &Message) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        message
            .topic
            .as_ref()
            .map(gatepost_message::Topic::as_str)
            .hash(&mut hasher);
        let mut add = |text: &[u8]| {
            if self.settings.numbers {
                text.hash(&mut hasher);
            } else {
                without_numbers(text).hash(&mut hasher);
            }
        };
        let mail = (message.format == Format::Mail).then(|| Mail::parse(&message.body));
        match (self.settings.same, mail) {
            (Same::Topic, _) => {}
            (Same::Subject, mail) => {
                add(message
                    .envelope
                    .sender
                    .as_deref()
                    .unwrap_or_default()
                    .as_bytes());
                if let Some(mail) = mail {
                    add(mail.subject().as_bytes());
                }
            }
            (Same::Content, Some(mail)) => {
                add(mail.subject().as_bytes());
                add(mail.readable_text().as_bytes());
            }
            (Same::Content, None) => add(&message.body),
        }
        hasher.finish()
    }
}

fn without_numbers(text: &[u8]) -> Vec<u8> {
    text.iter()
        .copied()
        .filter(|byte| !byte.is_ascii_digit())
        .collect()
}

impl Procedure for Dedupe {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn judge(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let key = self.key(call.message);
        let storms = &self.resources.host.memory.storms;
        let folded = storms.fold(key, call.message, &self.settings, Instant::now());
        Ok(match folded {
            None => Verdict::accept().into(),
            Some(count) => {
                let window = self.settings.window;
                let reason =
                    format!("the same was published less than {window} ago ({count} folded)");
                Verdict::new(self.settings.action, reason).into()
            }
        })
    }
}

impl Storms {
    /// Counts a message; which of those folded it is, or nothing for the first.
    fn fold(
        &self,
        key: u64,
        message: &Arc<Message>,
        settings: &DedupeSettings,
        now: Instant,
    ) -> Option<u64> {
        let mut storms = self.0.lock();
        let is_full = storms.len() >= settings.keys_max;
        match storms.entry(key) {
            Entry::Occupied(mut known) if known.get().ends > now => {
                let storm = known.get_mut();
                storm.folded += 1;
                storm.last = settings.summary.then(|| Arc::clone(message));
                Some(storm.folded)
            }
            // What has ended and is not told yet is told by `end` first; its next time begins
            // with the message after that.
            Entry::Occupied(known) if known.get().last.is_some() => None,
            Entry::Vacant(_) if is_full => None,
            entry => {
                let ends = now + settings.window.duration();
                entry.insert_entry(Storm {
                    ends,
                    folded: 0,
                    last: None,
                });
                None
            }
        }
    }

    /// Publishes what ended until now.
    pub(crate) fn end(&self, now: Instant, host: &Host) {
        let ended: Vec<Storm> = {
            let mut storms = self.0.lock();
            storms
                .extract_if(|_, storm| storm.ends <= now)
                .map(|(_, storm)| storm)
                .collect()
        };
        let Some(outlet) = &host.outlet else { return };
        for storm in ended {
            if let Some(publication) = storm.last.and_then(|last| summary(&last, storm.folded)) {
                outlet.publish(publication);
            }
        }
    }

    /// When the next one ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let storms = self.0.lock();
        let ends = storms.values().map(|storm| storm.ends).min()?;
        Some(ends.saturating_duration_since(Instant::now()))
    }
}

/// The last of a storm, with its count; nothing for a message without a topic.
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
