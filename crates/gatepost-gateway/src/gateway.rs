//! The order in which a message is processed.
//!
//! Every listener whose protocol promises something (SMTP's 250, HTTP's 200) submits here and
//! answers afterwards. The order is fixed: the verdict first, then the publication or the
//! quarantine, then the journal, then the wait. A successful answer therefore means that the
//! quarantine and whatever the broker keeps are on disk. If the disk fails, the sender must
//! try again; the message may be delivered twice but is never lost. The journal is not waited for:
//! it is written with the next commit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatepost_broker::{PublishRefusal, RuleViolation};
use gatepost_message::{
    Action, Format, Listener, Message, MessageId, Publication, Topic, Verdict, edit,
};
use gatepost_procedures::Procedures;
use gatepost_store::{
    JournalEntry, MailboxDelivery, QuarantineEntry, Store, StoreChange, StoreError, Ticket,
};

use crate::allowed_senders::AllowedSenders;
use crate::attachments::Attachments;
use crate::counters::GatewayCounters;
use crate::delayed::{DelayMistake, due_time};
use crate::journal;
use crate::mail_payload::{self, RenderedPayload};
use crate::publication::publication;
use crate::publication_sink::{OtherDestination, PublicationSink};
use crate::sender_lists::SenderLists;
use crate::storage_failure::StorageFailure;

/// The result of a submission.
#[derive(Debug, Clone)]
pub struct SubmissionOutcome {
    /// The verdict of the procedures; `defer` also if the disk failed.
    pub verdict: Verdict,
    /// Number of subscribers that received the message.
    pub deliveries: u64,
    /// The reason of the verdict `defer` if the message could not be stored: some protocols have
    /// separate replies for it.
    pub storage_failure: Option<StorageFailure>,
    /// The violated rule of a topic, if the verdict is `reject` or `defer` for that reason.
    pub violation: Option<RuleViolation>,
}

/// The path from the listeners to procedures, broker and store. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(Arc<GatewayCore>);

struct GatewayCore {
    procedures: Procedures,
    sink: Arc<dyn PublicationSink>,
    store: Store,
    counters: GatewayCounters,
    journal_topic: Topic,
    journals_unjudged: AtomicBool,
    allowed_senders: AllowedSenders,
    sender_lists: SenderLists,
    attachments: OnceLock<Attachments>,
}

/// A message between its arrival and its delivery.
pub(crate) struct GatewaySubmission<'a> {
    /// The message as it arrived; quarantine keeps this form.
    pub(crate) arrived: &'a Message,
    /// The message as procedures changed it; subscribers get this form.
    pub(crate) edited: &'a Message,
    pub(crate) topics: &'a [Topic],
    pub(crate) is_journaled: bool,
}

/// A verdict, and how long the procedures took for it.
pub(crate) struct TimedVerdict {
    pub(crate) verdict: Verdict,
    pub(crate) duration: Duration,
}

impl Gateway {
    /// A gateway that publishes to `sink`.
    pub fn new(procedures: Procedures, sink: Arc<dyn PublicationSink>, store: Store) -> Self {
        let allowed_senders = AllowedSenders::load(&store);
        procedures.provide_allowed_senders(Box::new(allowed_senders.clone()));
        Self(Arc::new(GatewayCore {
            procedures,
            sink,
            allowed_senders,
            sender_lists: SenderLists::load(&store),
            attachments: OnceLock::new(),
            store,
            counters: GatewayCounters::default(),
            journal_topic: journal::topic(),
            journals_unjudged: AtomicBool::new(false),
        }))
    }

    /// The time that a publisher's `delay` names, in Unix seconds.
    pub fn due_unix_seconds(&self, delay: &str) -> Result<u64, DelayMistake> {
        let due = due_time(delay, SystemTime::now(), self.0.sink.delay_max())?;
        let since = due.duration_since(UNIX_EPOCH).unwrap_or_default();
        // Rounded up: never before its time.
        Ok(since.as_millis().div_ceil(1_000) as u64)
    }

    /// Removes a message that waits for its time: by its sequence id, or by its id if it has none.
    /// Returns when that is on disk; `false` where no such message waits.
    pub async fn cancel_delayed(&self, topic: &str, name: &str) -> Result<bool, StoreError> {
        let Some(ticket) = self.0.sink.cancel(topic, name) else {
            return Ok(false);
        };
        ticket?.committed().await?;
        Ok(true)
    }

    /// The procedures, for listeners that call one without publishing.
    pub fn procedures(&self) -> &Procedures {
        &self.0.procedures
    }

    /// Messages and their verdicts since the start.
    pub fn counters(&self) -> &GatewayCounters {
        &self.0.counters
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn sink(&self) -> &dyn PublicationSink {
        &*self.0.sink
    }

    /// Adds an allowed sender or removes it; returns when the change is durable.
    pub async fn allow_sender(&self, address: &str, allowed: bool) -> Result<(), StoreError> {
        let shared = &self.0;
        shared
            .allowed_senders
            .change(&shared.store, address, allowed)
            .await
    }

    /// The allowed senders, sorted.
    pub fn allowed_senders(&self) -> Vec<String> {
        self.0.allowed_senders.addresses()
    }

    pub(crate) fn allowed(&self) -> &AllowedSenders {
        &self.0.allowed_senders
    }

    pub(crate) fn attachment_slot(&self) -> &OnceLock<Attachments> {
        &self.0.attachments
    }

    pub(crate) fn sender_lists(&self) -> &SenderLists {
        &self.0.sender_lists
    }

    /// Accepts a message whose body is the payload, to be published under its own topic.
    pub async fn submit(&self, message: Message) -> SubmissionOutcome {
        let message = Arc::new(message);
        let is_journaled = self.is_journaled(&message);
        let judgement = self.judge(&message).await;
        let edited = match judgement.verdict.edits.as_slice() {
            [] => Arc::clone(&message),
            edits => Arc::new(edit::applied(&message, edits)),
        };
        let rendered = RenderedPayload::of_body(&edited);
        let submission = GatewaySubmission {
            arrived: &message,
            edited: &edited,
            topics: message.topic.as_slice(),
            is_journaled,
        };
        self.finish(submission, None, judgement, &rendered).await
    }

    /// Whether the journal records a message. A payload that no procedure judged (a sensor's
    /// reading that arrived by a web request) is not recorded: such entries would displace the
    /// others.
    pub(crate) fn is_journaled(&self, message: &Message) -> bool {
        let topic = message.topic.as_ref().map(Topic::as_str);
        let (procedures, envelope) = (&self.0.procedures, &message.envelope);
        message.format == Format::Mail
            || self.0.journals_unjudged.load(Ordering::Relaxed)
            || procedures
                .scope_for(envelope.listener, topic, &envelope.recipients)
                .is_some()
    }

    /// Makes the journal record every submission, or only mail and judged messages.
    pub fn set_journal_unjudged(&self, unjudged: bool) {
        self.0.journals_unjudged.store(unjudged, Ordering::Relaxed);
    }

    /// Adds the delivery of `message` to a destination other than a subscriber to its trace.
    pub fn trace_delivery(&self, message: MessageId, destination: OtherDestination<'_>) {
        self.0.sink.trace_delivery(message, destination);
    }

    pub(crate) async fn judge(&self, message: &Arc<Message>) -> TimedVerdict {
        let started = Instant::now();
        let verdict = self.0.procedures.judge(message).await;
        let verdict = self.0.allowed_senders.apply(message, verdict);
        TimedVerdict {
            verdict,
            duration: started.elapsed(),
        }
    }

    /// Publishes or quarantines, journals, and waits until it is durable.
    pub(crate) async fn finish(
        &self,
        submission: GatewaySubmission<'_>,
        for_mailboxes: Option<MailboxDelivery>,
        judgement: TimedVerdict,
        rendered: &RenderedPayload,
    ) -> SubmissionOutcome {
        let GatewaySubmission {
            arrived: message,
            edited,
            topics,
            is_journaled,
        } = submission;
        let TimedVerdict {
            mut verdict,
            duration,
        } = judgement;
        let mut tickets = Vec::new();
        let mut deliveries = 0;
        let mut violation = None;
        if verdict.action.delivers() {
            let of_topic = |topic: &Topic| publication(edited, topic.clone(), rendered, &verdict);
            let publications: Vec<Publication> = topics.iter().map(of_topic).collect();
            let refused = self.publish_all(message.id, publications, &mut deliveries, &mut tickets);
            match refused {
                Some(refusal) => violation = apply_refusal(&mut verdict, refusal),
                None => tickets.extend(for_mailboxes.map(|mail| self.0.store.deliver(mail))),
            }
        }
        // A reload may have put a scope in force since: its message would be lost.
        if is_journaled || verdict.action == Action::Quarantine {
            let entry = JournalEntry {
                subject: rendered.subject.clone(),
                deliveries,
                topics: if topics.len() > 1 {
                    topics.to_vec()
                } else {
                    Vec::new()
                },
                ..journal_entry(message, &verdict, duration)
            };
            self.announce(&entry);
            if entry.action == Action::Quarantine {
                tickets.push(self.quarantine(message, entry));
            } else if let Err(error) = self.write_journal(entry) {
                // An entry is not a promise to the sender, and its commit is not waited for. A
                // store that accepts no more changes is a reason to defer, though.
                tickets.push(Err(error));
            }
        }
        let mut outcome = SubmissionOutcome {
            verdict,
            deliveries,
            storage_failure: None,
            violation,
        };
        if let Err(error) = all_committed(tickets).await {
            // The store logs the cause, once a second.
            tracing::debug!(target: "gateway", message = %message.id, "not stored: {error}");
            let failure = StorageFailure::of(&error);
            outcome.verdict = failure.verdict();
            outcome.storage_failure = Some(failure);
        }
        let listener = message.envelope.listener;
        self.0.counters.count(listener, outcome.verdict.action);
        outcome
    }

    /// Publishes a message under its topics; returns a refusal, if there is one.
    fn publish_all(
        &self,
        message: MessageId,
        publications: Vec<Publication>,
        deliveries: &mut u64,
        tickets: &mut Vec<Result<Ticket, StoreError>>,
    ) -> Option<PublishRefusal> {
        // No topic gets a message that the rule of another one refuses.
        let violated = publications
            .iter()
            .find_map(|publication| self.0.sink.rule_violation(publication));
        if let Some(violated) = violated {
            return Some(PublishRefusal::Rule(violated));
        }
        let mut refused = None;
        for publication in publications {
            let handover = self.0.sink.publish_traced(publication, message);
            *deliveries += handover.deliveries;
            tickets.extend(handover.ticket);
            refused = refused.or(handover.refused);
        }
        refused
    }

    /// Journals and announces a message that was judged for another server, which handles it. Does
    /// not wait for the disk.
    pub fn journal(&self, message: &Message, verdict: &Verdict, duration: Duration) {
        let entry = JournalEntry {
            subject: mail_payload::subject(message),
            ..journal_entry(message, verdict, duration)
        };
        self.announce(&entry);
        self.0
            .counters
            .count(message.envelope.listener, verdict.action);
        if let Err(error) = self.write_journal(entry) {
            tracing::warn!(target: "gateway", message = %message.id, "not journaled: {error}");
        }
    }

    /// Writes an entry to the log and publishes it to the subscribers of the journal's topic.
    pub(crate) fn announce(&self, entry: &JournalEntry) {
        log_verdict(entry);
        self.0.counters.count_hits(&entry.hits);
        self.0.counters.judge_times().count(entry.duration);
        let text = journal::to_text(entry);
        let publication = Publication::new(self.0.journal_topic.clone(), text);
        self.0.sink.publish(publication);
    }

    /// Puts the message into quarantine, with its journal entry.
    pub(crate) fn quarantine(
        &self,
        message: &Message,
        entry: JournalEntry,
    ) -> Result<Ticket, StoreError> {
        let entry = QuarantineEntry {
            journal: entry,
            body: message.body.clone(),
            properties: message.properties.clone(),
            retain: message.retain,
        };
        self.0.store.quarantine_message(entry)
    }

    /// Writes the entry with the next commit.
    fn write_journal(&self, entry: JournalEntry) -> Result<(), StoreError> {
        let change = StoreChange::Journal(Box::new(entry));
        self.0.store.submit_deferred([change])
    }
}

/// Changes the verdict on a message that the broker refuses; returns the violated rule, if that is
/// the reason.
fn apply_refusal(verdict: &mut Verdict, refusal: PublishRefusal) -> Option<RuleViolation> {
    match refusal {
        PublishRefusal::Rule(violated) => {
            verdict.action = if violated.is_temporary() {
                Action::Defer
            } else {
                Action::Reject
            };
            verdict.reason = violated.to_string();
            Some(violated)
        }
        refusal => {
            verdict.action = Action::Defer;
            verdict.reason = format!("{refusal}; try again later");
            None
        }
    }
}

/// Writes a verdict to the log. An accepted reading of a sensor is logged at `debug`, since
/// thousands may arrive each minute.
fn log_verdict(entry: &JournalEntry) {
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                target: "gateway",
                message = %entry.id,
                listener = entry.envelope.listener.name(),
                peer = %entry.envelope.peer,
                verdict = entry.action.name(),
                procedure = entry.procedure,
                size = entry.size,
                deliveries = entry.deliveries,
                "{}", entry.reason
            )
        };
    }
    let is_mail = !matches!(entry.envelope.listener, Listener::Mqtt | Listener::Http);
    if is_mail || entry.action != Action::Accept {
        log!(info);
    } else {
        log!(debug);
    }
}

/// The entry of a judged message before it is delivered.
pub(crate) fn journal_entry(
    message: &Message,
    verdict: &Verdict,
    duration: Duration,
) -> JournalEntry {
    JournalEntry {
        id: message.id,
        envelope: message.envelope.clone(),
        topic: message.topic.clone(),
        topics: Vec::new(),
        subject: None,
        size: message.size,
        action: verdict.action,
        score: verdict.score,
        hits: verdict.hits.clone(),
        reason: verdict.reason.clone(),
        procedure: verdict.procedure.clone(),
        duration,
        deliveries: 0,
    }
}

/// Waits for every commit; a ticket that shares its group with the last costs nothing.
pub(crate) async fn all_committed(
    tickets: Vec<Result<Ticket, StoreError>>,
) -> Result<(), StoreError> {
    for ticket in tickets {
        ticket?.committed().await?;
    }
    Ok(())
}
