//! The operations on journal and quarantine, learning, senders, rules and configuration.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_broker::Broker;
use gatepost_gateway::{Gateway, MailPayload, journal};
use gatepost_learning::bayes::{BayesSample, Class, Learned};
use gatepost_mail::Mail;
use gatepost_message::{Format, MessageId};
use gatepost_procedures::RULES_WAIT_MAX;
use gatepost_rules::{RuleProblem, RuleSet};
use gatepost_sinks::MailQueue;
use gatepost_store::{JournalEntry, QuarantineEntry, Store};
use gatepost_users::ANONYMOUS;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::ask_nodes::AskNodes;
use crate::audit_log::{AuditEntry, AuditLog};
use crate::error::OperationError;
use crate::learner::{Learner, LearningError};
use crate::mail_routes::MailRoutes;
use crate::procedure_files::ProcedureFiles;
use crate::recent_log::RecentLog;
use crate::reload::{ReloadReport, ReloadRequest};
use crate::request::AdminChange;
use crate::score_file::RuleScores;
use crate::settings_in_force::SettingsInForce;
use crate::{rules_report, story};

/// The number of newest mails on which the slowest rules are measured.
const MAILS_SURVEYED: usize = 20;
/// The time limit of that measurement.
const SURVEY_TIME_MAX: Duration = Duration::from_secs(5);

/// The handles that operations need. Cheap to clone.
#[derive(Clone)]
pub struct Operations {
    /// Releases messages, and has the allowed senders and the procedures.
    pub gateway: Gateway,
    /// Has the journal and the quarantine.
    pub store: Store,
    /// Learns from quarantined mail.
    pub learner: Arc<Learner>,
    /// The form in which released mail is published.
    pub payload: MailPayload,
    /// Has the subscribers that recently received a message.
    pub broker: Broker,
    /// The problems of the rule folders in force.
    pub problems: Arc<RwLock<Arc<[RuleProblem]>>>,
    /// The channel to the process that performs reloads.
    pub reloads: mpsc::Sender<ReloadRequest>,
    /// Records changes.
    pub audit_log: AuditLog,
    /// The scores of rules that administrators set.
    pub scores: RuleScores,
    /// The files of procedures.
    pub procedure_files: ProcedureFiles,
    /// The latest lines of the log.
    pub log: RecentLog,
    /// The settings in force.
    pub settings: SettingsInForce,
    /// Held during a release by a link.
    pub releases_by_ticket: Arc<tokio::sync::Mutex<()>>,
    /// The other nodes, if this server is one of a cluster.
    pub nodes: Option<Arc<dyn AskNodes>>,
    /// Sends mail of the server itself that was given up, when it is released.
    pub mail: MailQueue,
    /// The destinations of released mail besides topics, if there is a mail listener.
    pub mail_routes: Option<Arc<dyn MailRoutes>>,
}

impl Operations {
    /// Records in the audit log a change that was made. A failure appears in the server's log only,
    /// since the change is in force already.
    pub async fn audit(&self, change: AdminChange) {
        let origin = format!("http {}", change.peer);
        self.record_change(change.user, origin, change.action, change.details)
            .await;
    }

    pub(crate) async fn record_change(
        &self,
        user: Option<String>,
        origin: String,
        action: String,
        details: Value,
    ) {
        let recorded = self.blocking(move |operations| {
            operations.audit_log.record(&AuditEntry {
                actor: user.as_deref().unwrap_or(ANONYMOUS),
                origin: &origin,
                action: &action,
                details,
            });
            Ok(())
        });
        if let Err(error) = recorded.await {
            tracing::error!(
                target: "audit",
                %error,
                "the change could not be recorded in the audit log"
            );
        }
    }

    /// The last changes in the audit log, newest first.
    pub async fn changes(&self, count: usize) -> Result<Vec<Value>, OperationError> {
        self.blocking(move |operations| {
            let recent = operations.audit_log.recent(count);
            recent.map_err(|error| OperationError::Failed(error.to_string()))
        })
        .await
    }

    /// One message's journal entry, with what happened to it at each subscriber (`steps`), as far
    /// as the broker still has it.
    pub(crate) async fn own_story(&self, id: MessageId) -> Result<Value, OperationError> {
        self.blocking(move |operations| {
            let entry = operations.store.journal_entry(id)?;
            let trace = operations.broker.trace(id);
            story::story(id, entry.as_ref(), trace).ok_or(OperationError::NotFound)
        })
        .await
    }

    /// Deletes a message from quarantine.
    pub(crate) async fn delete(&self, id: MessageId) -> Result<(), OperationError> {
        self.blocking(move |operations| operations.entry(id).map(drop))
            .await?;
        let ticket = self.store.unquarantine(id, None)?;
        Ok(ticket.committed().await?)
    }

    /// Learns a quarantined message; returns a word that describes the change.
    pub(crate) async fn learn(
        &self,
        id: MessageId,
        class: Class,
    ) -> Result<&'static str, OperationError> {
        self.blocking(move |operations| {
            let entry = operations.entry(id)?;
            operations.teach(&entry.body, class)
        })
        .await
    }

    /// Learns a mail; returns a word that describes the change.
    pub async fn learn_mail(
        &self,
        mail: Bytes,
        class: Class,
    ) -> Result<&'static str, OperationError> {
        self.blocking(move |operations| operations.teach(&mail, class))
            .await
    }

    /// Accepts mail from the sender of a quarantined message from now on; returns the sender.
    pub(crate) async fn allow_sender_of(&self, id: MessageId) -> Result<String, OperationError> {
        let entry = self
            .blocking(move |operations| operations.entry(id))
            .await?;
        let sender = entry.journal.envelope.sender;
        let sender = sender.filter(|sender| !sender.is_empty());
        let sender = sender.ok_or(OperationError::NoSender)?;
        self.gateway.allow_sender(&sender, true).await?;
        Ok(sender)
    }

    /// Starts or stops accepting mail from this address.
    pub async fn allow_sender(&self, address: String, allowed: bool) -> Result<(), OperationError> {
        let is_allowed = || {
            let senders = self.gateway.allowed_senders();
            senders.contains(&address.to_lowercase())
        };
        if !allowed && !is_allowed() {
            return Err(OperationError::NotFound);
        }
        Ok(self.gateway.allow_sender(&address, allowed).await?)
    }

    /// The addresses whose mail is accepted, sorted.
    pub fn allowed_senders(&self) -> Vec<String> {
        self.gateway.allowed_senders()
    }

    /// The number of rules, the `count` rules that match most often, and those that cannot run.
    pub fn rules(&self, count: usize) -> Value {
        let problems = self.problems.read().clone();
        rules_report::overview(&self.gateway, self.learner.loaded(), &problems, count)
    }

    /// The rules that take longest on the newest stored mails.
    pub async fn slowest_rules(&self, count: usize) -> Result<Value, OperationError> {
        self.blocking(move |operations| {
            let kept = operations.store.originals(MAILS_SURVEYED)?;
            let is_mail = |kept: &(MessageId, Format, Bytes)| kept.1 == Format::Mail;
            let mails: Vec<Bytes> = kept
                .into_iter()
                .filter(is_mail)
                .map(|(_, _, mail)| mail)
                .collect();
            let rules = operations.rules_in_force()?;
            let times = rules.slowest(&mails, count, SURVEY_TIME_MAX);
            Ok(rules_report::slowest(&times, mails.len()))
        })
        .await
    }

    /// Reloads configuration, rules and procedures, and reports the changes. Nothing changes if
    /// `only_checks` is set or the reload is not `possible`.
    pub async fn reload(&self, only_checks: bool) -> Result<ReloadReport, OperationError> {
        let (reply, answer) = oneshot::channel();
        let request = ReloadRequest { only_checks, reply };
        let ending = || OperationError::Failed("the server is shutting down".to_owned());
        self.reloads.send(request).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())
    }

    /// Runs work that blocks on the database, on a thread for such work.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, OperationError> + Send + 'static,
    ) -> Result<T, OperationError> {
        let operations = self.clone();
        // Wait for pending writes, so that a reader finds everything that an earlier reply
        // reported.
        operations.store.flush().await;
        tokio::task::spawn_blocking(move || work(&operations))
            .await
            .unwrap_or_else(|error| Err(OperationError::Failed(error.to_string())))
    }

    /// The rules; loads them if nothing has needed them before. Blocks.
    pub(crate) fn rules_in_force(&self) -> Result<Arc<RuleSet>, OperationError> {
        let rules = self.gateway.procedures().rules().wait(RULES_WAIT_MAX);
        rules.ok_or_else(|| OperationError::Failed("the rules are not loaded".to_owned()))
    }

    pub(crate) fn entry(&self, id: MessageId) -> Result<QuarantineEntry, OperationError> {
        self.store.quarantined(id)?.ok_or(OperationError::NotFound)
    }

    fn teach(&self, mail: &[u8], class: Class) -> Result<&'static str, OperationError> {
        let rules = self.rules_in_force()?;
        let settings = &rules.learning_settings().bayes;
        let sample = BayesSample::of(&Mail::parse(mail), settings);
        let learn = || {
            let learning = self.learner.learning()?;
            let learned = learning.learn_sample(&sample, class, settings)?;
            self.learner.keep()?;
            self.learner.settle()?;
            Ok::<_, LearningError>(learned)
        };
        let learned = learn().map_err(|error| OperationError::Failed(error.to_string()))?;
        Ok(match learned {
            Learned::New => "new",
            Learned::Changed => "changed",
            Learned::Before => "before",
            Learned::Off => "off",
        })
    }
}

pub(crate) fn as_json(entries: impl IntoIterator<Item = JournalEntry>) -> Vec<Value> {
    entries
        .into_iter()
        .map(|entry| journal::to_json(&entry))
        .collect()
}
