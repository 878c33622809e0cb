//! `/dedupe`: of equal messages within a time, the first passes and the others are counted. At the
//! end of the time the last of them is published with the count, so that a burst of alarms becomes
//! two messages, and no repetition is lost silently.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use gatepost_mail::Mail;
use gatepost_message::{Action, Format, Message, Verdict};
use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

use crate::host::{RepetitionLimits, Resources};
use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// The criterion for equal messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DedupeKey {
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
    /// The criterion for equal messages: `content`, `subject` or `topic`.
    pub same: DedupeKey,
    /// Whether numbers count: without them, `load is 91` and `load is 92` are the same.
    pub numbers: bool,
    /// The time after the first message in which equal ones are dropped.
    pub window: Period,
    /// The action for messages that are folded.
    #[serde(with = "crate::text_values")]
    pub action: Action,
    /// Whether the last of them is published at the end of the window, with the user property
    /// `repeated`, the number of folded messages.
    pub summary: bool,
    /// Different messages that are remembered at once; beyond them nothing is folded.
    pub keys_max: usize,
    /// The size of all messages that are held for summaries; a message beyond it is not folded.
    pub bytes_max: ByteSize,
}

impl Default for DedupeSettings {
    fn default() -> Self {
        Self {
            same: DedupeKey::Content,
            numbers: true,
            window: Period::seconds(300),
            action: Action::Drop,
            summary: true,
            keys_max: 10_000,
            bytes_max: ByteSize::mebibytes(64),
        }
    }
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
            (DedupeKey::Topic, _) => {}
            (DedupeKey::Subject, mail) => {
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
            (DedupeKey::Content, Some(mail)) => {
                add(mail.subject().as_bytes());
                add(mail.readable_text().as_bytes());
            }
            (DedupeKey::Content, None) => add(&message.body),
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

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let key = self.key(call.message);
        let repetitions = &self.resources.host.memory.repetitions;
        let limits = RepetitionLimits {
            window: self.settings.window.duration(),
            keys_max: self.settings.keys_max,
            summary: self.settings.summary,
            bytes_max: self.settings.bytes_max.as_usize(),
        };
        let folded = repetitions.fold(key, call.message, limits, Instant::now());
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
