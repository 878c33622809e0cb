//! What an operator does by the HTTP API, done: journal and quarantine, learning, users.

use std::sync::Arc;

use gatepost_listeners::gateway::{Gateway, MailPayload, journal};
use gatepost_listeners::http::operations::{
    Done, Lesson, OperationError, Operations, Quarantined, Search,
};
use gatepost_message::{Action, MessageId, Verdict};
use gatepost_rules::bayes::{Class, Learned, Relearn, Sample};
use gatepost_rules::mail::Mail;
use gatepost_store::{Change, JournalEntry, QuarantineEntry, Store, StoreError};
use gatepost_users::Users;
use serde_json::{Value, json};

use crate::learning::{Learner, Lessons};

/// How far back a search looks, in messages.
const SEARCHED_MAX: usize = 20_000;

/// The operator's part of the rooms. Cheap to clone.
#[derive(Clone)]
pub(super) struct Operator {
    pub(super) gateway: Gateway,
    pub(super) store: Store,
    pub(super) users: Users,
    pub(super) learner: Arc<Learner>,
    pub(super) lessons: Arc<Lessons>,
    /// The form in which mail is published.
    pub(super) payload: MailPayload,
}

impl Operator {
    /// Runs what blocks on the database on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OperationError> + Send + 'static,
    ) -> Result<T, OperationError> {
        let operator = self.clone();
        tokio::task::spawn_blocking(move || work(&operator))
            .await
            .unwrap_or_else(|error| Err(OperationError::Failed(error.to_string())))
    }

    fn entry(&self, id: MessageId) -> Result<QuarantineEntry, OperationError> {
        let found = self.store.quarantined(id).map_err(failed)?;
        found.ok_or(OperationError::NotFound)
    }

    fn teach(&self, id: MessageId, lesson: Lesson) -> Result<&'static str, OperationError> {
        let entry = self.entry(id)?;
        let settings = self.lessons.settings().bayes;
        let sample = Sample::of(&Mail::parse(&entry.body), &settings);
        let class = match lesson {
            Lesson::Spam => Class::Spam,
            Lesson::Ham => Class::Ham,
        };
        let bayes = &self.learner.learning.bayes;
        let learned = bayes.learn(&sample, class, Relearn::Change, &settings);
        self.learner
            .keep()
            .and_then(|()| self.learner.settle())
            .map_err(|error| OperationError::Failed(error.to_string()))?;
        Ok(match learned {
            Learned::New => "new",
            Learned::Changed => "changed",
            Learned::Before => "before",
            Learned::Off => "off",
        })
    }
}

fn failed(error: StoreError) -> OperationError {
    OperationError::Failed(error.to_string())
}

fn shown(entries: Vec<JournalEntry>) -> Vec<Value> {
    entries.iter().map(journal::to_json).collect()
}

/// A search, ready to be compared.
struct Wanted {
    text: String,
    verdict: Option<Action>,
}

impl Wanted {
    fn of(search: &Search) -> Self {
        Self {
            text: search.text.to_lowercase(),
            verdict: search.verdict.parse().ok(),
        }
    }

    fn finds(&self, entry: &JournalEntry) -> bool {
        if self.verdict.is_some_and(|verdict| verdict != entry.action) {
            return false;
        }
        if self.text.is_empty() {
            return true;
        }
        let holds = |text: &str| text.to_lowercase().contains(&self.text);
        let envelope = &entry.envelope;
        holds(&entry.id.to_string())
            || holds(&entry.reason)
            || holds(&envelope.peer.to_string())
            || entry.subject.as_deref().is_some_and(holds)
            || entry
                .topic
                .as_ref()
                .is_some_and(|topic| holds(topic.as_str()))
            || envelope.sender.as_deref().is_some_and(holds)
            || envelope.recipients.iter().any(|recipient| holds(recipient))
            || entry.hits.iter().any(|hit| holds(&hit.name))
    }
}

impl Operations for Operator {
    fn messages(&self, search: Search) -> Done<'_, Vec<Value>> {
        Box::pin(self.blocking(move |operator| {
            let wanted = Wanted::of(&search);
            // Without conditions the newest are all that is asked for.
            let all = wanted.text.is_empty() && wanted.verdict.is_none();
            let looked_at = if all { search.count } else { SEARCHED_MAX };
            let entries = operator.store.journal_recent(looked_at).map_err(failed)?;
            let found = entries.into_iter().filter(|entry| wanted.finds(entry));
            Ok(shown(found.take(search.count).collect()))
        }))
    }

    fn story(&self, id: MessageId) -> Done<'_, Value> {
        Box::pin(self.blocking(move |operator| {
            let entry = operator.store.journal_entry(id).map_err(failed)?;
            entry
                .as_ref()
                .map(journal::to_json)
                .ok_or(OperationError::NotFound)
        }))
    }

    fn quarantine(&self, count: usize) -> Done<'_, Vec<Value>> {
        Box::pin(
            self.blocking(move |operator| {
                operator.store.quarantine(count).map(shown).map_err(failed)
            }),
        )
    }

    fn quarantined(&self, id: MessageId) -> Done<'_, Quarantined> {
        Box::pin(self.blocking(move |operator| {
            let entry = operator.entry(id)?;
            Ok(Quarantined {
                story: journal::to_json(&entry.story),
                text: Mail::parse(&entry.body).readable_text(),
                source: entry.body,
            })
        }))
    }

    fn release(&self, id: MessageId) -> Done<'_, (Verdict, u64)> {
        Box::pin(async move {
            let entry = self.blocking(move |operator| operator.entry(id)).await?;
            let topic = entry.story.topic.clone().ok_or(OperationError::NoTopic)?;
            let outcome = self.gateway.release(entry, topic, self.payload).await;
            Ok((outcome.verdict, outcome.deliveries))
        })
    }

    fn delete(&self, id: MessageId) -> Done<'_, ()> {
        Box::pin(async move {
            self.blocking(move |operator| operator.entry(id).map(drop))
                .await?;
            let ticket = self
                .store
                .submit([Change::Unquarantine(id)])
                .map_err(failed)?;
            ticket.committed().await.map_err(failed)
        })
    }

    fn learn(&self, id: MessageId, lesson: Lesson) -> Done<'_, &'static str> {
        Box::pin(self.blocking(move |operator| operator.teach(id, lesson)))
    }

    fn users(&self) -> Value {
        json!({ "users": self.users.list() })
    }
}
