//! What an operator does by the HTTP API, done: journal and quarantine, learning, users.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_bans::Bans;
use gatepost_broker::{Broker, StepOutcome, TraceStep};
use gatepost_gateway::{Gateway, MailPayload, RuleHits, journal};
use gatepost_learning::bayes::{Class, Learned, Relearn, Sample};
use gatepost_listeners::http::operations::{
    AdminChange, Done, Lesson, OperationError, Operations, Quarantined, Search,
};
use gatepost_mail::Mail;
use gatepost_message::{Action, Format, MessageId, Verdict};
use gatepost_rules::{Problem, RuleTime, Severity};
use gatepost_store::{Change, JournalEntry, QuarantineEntry, Store, StoreError};
use gatepost_users::ANONYMOUS;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::reload;
use crate::audit::{AuditEntry, AuditLog};
use crate::learning::{Learner, LearnerThread};

/// How far back a search looks, in messages.
const SEARCHED_MAX: usize = 20_000;
/// The mails, the last kept, on which the slowest rules are found.
const MAILS_SURVEYED: usize = 20;
/// No longer is looked for them.
const SURVEY_TIME_MAX: Duration = Duration::from_secs(5);

/// The handles that operations need. Cheap to clone.
#[derive(Clone)]
pub(super) struct Operator {
    pub(super) gateway: Gateway,
    pub(super) store: Store,
    pub(super) learner: Arc<Learner>,
    pub(super) learner_thread: Arc<LearnerThread>,
    /// The form in which mail is published.
    pub(super) payload: MailPayload,
    pub(super) broker: Broker,
    /// What cannot be used of the rule folders that run.
    pub(super) problems: Arc<RwLock<Arc<[Problem]>>>,
    pub(super) reloads: mpsc::Sender<reload::ReloadRequest>,
    pub(super) audit_log: AuditLog,
    pub(super) bans: Bans,
}

impl Operator {
    /// Runs what blocks on the database on a thread that may.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OperationError> + Send + 'static,
    ) -> Result<T, OperationError> {
        let operator = self.clone();
        // Wait for pending writes, so that a reader finds what an earlier answer reported.
        operator.store.flush().await;
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
        let settings = self.learner_thread.settings().bayes;
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

/// One subscriber's part of a message's way.
fn step(step: &TraceStep) -> Value {
    let cause = match step.outcome {
        StepOutcome::Dropped(cause) => Some(cause.name()),
        _ => None,
    };
    json!({
        "client": &*step.client,
        "kind": step.kind,
        "topic": step.published.as_ref().map(|(topic, _)| topic.as_str()),
        "qos": step.published.as_ref().map(|(_, qos)| qos.level()),
        "outcome": step.outcome.name(),
        "cause": cause,
        "said": step.said.as_deref(),
        "unix_ms": unix_ms(step.since),
    })
}

/// The story of a message that the journal does not have.
fn unjudged(id: MessageId, steps: &[TraceStep], more: u64) -> Value {
    let published = steps.iter().find_map(|step| step.published.as_ref());
    let topic = published.map(|(topic, _)| topic.as_str());
    json!({
        "id": id.to_string(),
        "unix_ms": unix_ms(id.time()),
        "action": Action::Accept.name(),
        "topic": topic,
        "reason": "no procedure was asked about it",
        "deliveries": steps.len() as u64 + more,
    })
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

fn problem(problem: &Problem) -> Value {
    json!({
        "rule": problem.rule.as_deref(),
        "file": problem.file.display().to_string(),
        "line": problem.line,
        "severity": problem.severity.name(),
        "cause": problem.cause,
        "reason": problem.reason,
        "mend": problem.mend,
    })
}

/// What people read needs no more than three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
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
            verdict: search.verdict,
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
            || entry.all_topics().iter().any(|topic| holds(topic.as_str()))
            || envelope.sender.as_deref().is_some_and(holds)
            || envelope.recipients.iter().any(|recipient| holds(recipient))
            || entry.hits.iter().any(|hit| holds(&hit.name))
    }
}

impl Operations for Operator {
    fn audit(&self, change: AdminChange) -> Done<'_, ()> {
        Box::pin(self.blocking(move |operator| {
            operator.audit_log.record(&AuditEntry {
                actor: change.user.as_deref().unwrap_or(ANONYMOUS),
                origin: &format!("http {}", change.peer),
                action: &change.action,
                details: change.details,
            });
            Ok(())
        }))
    }

    fn changes(&self, count: usize) -> Done<'_, Vec<Value>> {
        Box::pin(self.blocking(move |operator| {
            let recent = operator.audit_log.recent(count);
            recent.map_err(|error| OperationError::Failed(error.to_string()))
        }))
    }

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
            let trace = operator.broker.trace(id);
            let mut story = match (&entry, &trace) {
                (Some(entry), _) => journal::to_json(entry),
                // Not judged and no mail: the journal does not have it, the broker knows its way.
                (None, Some((steps, more))) => unjudged(id, steps, *more),
                (None, None) => return Err(OperationError::NotFound),
            };
            if let Some((steps, more)) = trace {
                story["steps"] = steps.iter().map(step).collect();
                story["steps_more"] = more.into();
            }
            Ok(story)
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
                story: journal::to_json(&entry.journal),
                text: Mail::parse(&entry.body).readable_text(),
                source: entry.body,
            })
        }))
    }

    fn release(&self, id: MessageId) -> Done<'_, (Verdict, u64)> {
        Box::pin(async move {
            let entry = self.blocking(move |operator| operator.entry(id)).await?;
            if entry.journal.topic.is_none() {
                return Err(OperationError::NoTopic);
            }
            let outcome = self.gateway.release(entry, self.payload).await;
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

    fn allow_sender_of(&self, id: MessageId) -> Done<'_, String> {
        Box::pin(async move {
            let entry = self.blocking(move |operator| operator.entry(id)).await?;
            let sender = entry.journal.envelope.sender;
            let sender = sender.filter(|sender| !sender.is_empty());
            let sender = sender.ok_or(OperationError::NoSender)?;
            let allowed = self.gateway.allow_sender(&sender, true);
            allowed.await.map_err(failed)?;
            Ok(sender)
        })
    }

    fn allow_sender(&self, address: String, allowed: bool) -> Done<'_, ()> {
        Box::pin(async move {
            if !allowed
                && !self
                    .gateway
                    .allowed_senders()
                    .contains(&address.to_lowercase())
            {
                return Err(OperationError::NotFound);
            }
            let changed = self.gateway.allow_sender(&address, allowed);
            changed.await.map_err(failed)
        })
    }

    fn allowed_senders(&self) -> Vec<String> {
        self.gateway.allowed_senders()
    }

    fn rules(&self, count: usize) -> Done<'_, Value> {
        Box::pin(async move {
            let statistics = self.gateway.procedures().rules().statistics();
            let most = self.gateway.counters().most_hit(count);
            let hit = |(name, hits): &(String, RuleHits)| json!({ "name": name, "messages": hits.messages, "score": rounded(hits.score) });
            let problems = self.problems.read().clone();
            // A rule that asks for what is switched off is a note, and does not run either.
            let is_told =
                |problem: &&Problem| problem.rule.is_some() || problem.severity != Severity::Note;
            let cannot_run = problems.iter().filter(is_told);
            Ok(json!({
                "running": statistics.rules,
                "in_force": self.gateway.procedures().in_force(),
                "not_running": statistics.not_running,
                "files": statistics.files,
                "most_hit": most.iter().map(hit).collect::<Vec<_>>(),
                "problems_total": cannot_run.clone().count(),
                "problems": cannot_run.take(count).map(problem).collect::<Vec<_>>(),
            }))
        })
    }

    fn slowest_rules(&self, count: usize) -> Done<'_, Value> {
        Box::pin(self.blocking(move |operator| {
            let kept = operator.store.originals(MAILS_SURVEYED).map_err(failed)?;
            let is_mail = |kept: &(MessageId, Format, Bytes)| kept.1 == Format::Mail;
            let mails: Vec<Bytes> = kept
                .into_iter()
                .filter(is_mail)
                .map(|(_, _, mail)| mail)
                .collect();
            let rules = operator.gateway.procedures().rules();
            let times = rules.slowest(&mails, count, SURVEY_TIME_MAX);
            let each = |time: &RuleTime| {
                let microseconds = time.time.as_secs_f64() * 1e6 / mails.len().max(1) as f64;
                json!({ "name": &*time.name, "microseconds": rounded(microseconds) })
            };
            Ok(json!({
                "mails": mails.len(),
                "rules": times.iter().map(each).collect::<Vec<_>>(),
            }))
        }))
    }

    fn reload(&self, only_checks: bool) -> Done<'_, Value> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let request = reload::ReloadRequest { only_checks, reply };
            let ending = || OperationError::Failed("the server is about to end".to_owned());
            self.reloads.send(request).await.map_err(|_| ending())?;
            let report = answer.await.map_err(|_| ending())?;
            serde_json::to_value(report).map_err(|error| OperationError::Failed(error.to_string()))
        })
    }
}
