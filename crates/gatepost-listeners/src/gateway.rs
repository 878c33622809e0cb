//! From a message to what became of it: judge, publish or keep aside, note, wait until durable.
//!
//! Every listener whose protocol promises something (SMTP's 250, HTTP's 200) submits here and
//! answers afterwards. The order is fixed: the verdict first, then the publication or the
//! quarantine, then the journal, then the wait. An answer of success therefore means that the
//! quarantine and whatever the broker keeps are on disk; if the disk fails, the sender is asked to
//! try again, and may deliver twice but never loses. The journal is only good to know: nobody waits
//! for it, and it goes with the next commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_message::{Action, Format, Message, MessageId, Publication, Topic, Verdict, edit};
use gatepost_procedures::Procedures;
use gatepost_store::{Change, JournalEntry, QuarantineEntry, Store, StoreError, Ticket};

mod allowed;
mod aside;
mod counters;
pub mod journal;
mod mail;
mod outlet;
mod release;

use allowed::AllowedSenders;
pub use counters::{Counters, ListenerCounts, RuleHits};
pub use mail::MailPayload;
use mail::Rendered;
pub use outlet::{Elsewhere, Handed, Outlet};

/// What became of a message.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the procedures said; `defer` as well where the disk failed.
    pub verdict: Verdict,
    /// Subscribers that it was handed to.
    pub deliveries: u64,
}

/// The way from the listeners to procedures, broker and store. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(Arc<Rooms>);

struct Rooms {
    procedures: Procedures,
    outlet: Arc<dyn Outlet>,
    store: Store,
    counters: Counters,
    journal_topic: Topic,
    journals_unjudged: AtomicBool,
    allowed: AllowedSenders,
}

impl Gateway {
    /// Joins the rooms.
    pub fn new(procedures: Procedures, outlet: Arc<dyn Outlet>, store: Store) -> Self {
        Self(Arc::new(Rooms {
            procedures,
            outlet,
            allowed: AllowedSenders::load(&store),
            store,
            counters: Counters::default(),
            journal_topic: journal::topic(),
            journals_unjudged: AtomicBool::new(false),
        }))
    }

    /// The judges, for those who call one without publishing.
    pub fn procedures(&self) -> &Procedures {
        &self.0.procedures
    }

    /// What came in and what became of it, since the start.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Takes a message whose body is the payload, to be published under its own topic.
    pub async fn submit(&self, message: Message) -> Outcome {
        let message = Arc::new(message);
        let is_noted = self.is_noted(&message);
        let judged = self.judge(&message).await;
        let edited = match judged.verdict.edits.as_slice() {
            [] => Arc::clone(&message),
            edits => Arc::new(edit::applied(&message, edits)),
        };
        let rendered = Rendered::as_it_is(&edited);
        let topics = message.topic.as_slice();
        let way = Way {
            arrived: &message,
            leaving: &edited,
            topics,
            is_noted,
        };
        self.finish(way, Vec::new(), judged, &rendered).await
    }

    /// Whether the journal has it. What no procedure judged and is no mail (a sensor's reading
    /// that came by a web request) is no news, and would push out what is.
    fn is_noted(&self, message: &Message) -> bool {
        let topic = message.topic.as_ref().map(Topic::as_str);
        let (procedures, envelope) = (&self.0.procedures, &message.envelope);
        message.format == Format::Mail
            || self.0.journals_unjudged.load(Ordering::Relaxed)
            || procedures
                .scope_for(envelope.listener, topic, &envelope.recipients)
                .is_some()
    }

    /// Has the journal note everything that is submitted, or only what was judged and mail.
    pub fn set_journal_unjudged(&self, unjudged: bool) {
        self.0.journals_unjudged.store(unjudged, Ordering::Relaxed);
    }

    /// Takes a mail, to be published under each of `topics` in the form `payload`. The first
    /// topic is the one that scopes see.
    pub async fn submit_mail(
        &self,
        message: Message,
        topics: Vec<Topic>,
        payload: MailPayload,
    ) -> Outcome {
        let mail = self.judge_mail(message, topics).await;
        self.carry_out(mail, payload).await
    }

    /// Has a mail judged, and does nothing yet: for a sender who gets one answer for recipients
    /// that several scopes judge.
    pub async fn judge_mail(&self, mut message: Message, topics: Vec<Topic>) -> JudgedMail {
        message.topic = topics.first().cloned();
        let message = Arc::new(message);
        let judged = self.judge(&message).await;
        JudgedMail {
            message,
            topics,
            kept: Vec::new(),
            judged,
        }
    }

    /// Does with a mail what its verdict says.
    pub async fn carry_out(&self, mail: JudgedMail, payload: MailPayload) -> Outcome {
        let JudgedMail {
            message,
            topics,
            kept,
            judged,
        } = mail;
        let rendered = mail::render(&message, payload, &judged.verdict).await;
        let way = Way {
            arrived: &message,
            leaving: &message,
            topics: &topics,
            is_noted: true,
        };
        self.finish(way, kept, judged, &rendered).await
    }

    /// Remembers for the story of `message` what became of it elsewhere than at a subscriber.
    pub fn note_elsewhere(&self, message: MessageId, elsewhere: Elsewhere<'_>) {
        self.0.outlet.note_elsewhere(message, elsewhere);
    }

    async fn judge(&self, message: &Arc<Message>) -> Judged {
        let started = Instant::now();
        let verdict = self.0.procedures.judge(message).await;
        let verdict = self.0.allowed.considered(message, verdict);
        Judged {
            verdict,
            duration: started.elapsed(),
        }
    }

    /// Publishes or keeps, notes, and waits.
    async fn finish(
        &self,
        way: Way<'_>,
        kept: Vec<Change>,
        judged: Judged,
        rendered: &Rendered,
    ) -> Outcome {
        let Way {
            arrived: message,
            leaving,
            topics,
            is_noted,
        } = way;
        let Judged { verdict, duration } = judged;
        let mut tickets = Vec::new();
        let mut deliveries = 0;
        if verdict.action.delivers() {
            for topic in topics {
                let publication = publication(leaving, topic.clone(), rendered, &verdict);
                let handed = self.0.outlet.publish_traced(publication, message.id);
                deliveries += handed.deliveries;
                tickets.extend(handed.ticket);
            }
            if !kept.is_empty() {
                tickets.push(self.0.store.submit(kept));
            }
        }
        let story = JournalEntry {
            subject: rendered.subject.clone(),
            deliveries,
            topics: if topics.len() > 1 {
                topics.to_vec()
            } else {
                Vec::new()
            },
            ..story(message, &verdict, duration)
        };
        if is_noted {
            self.tell(&story);
            if story.action == Action::Quarantine {
                tickets.push(self.quarantine(message, story));
            } else if let Err(error) = self.write_down(story) {
                // A story is no promise to anybody, and nobody waits for its commit. A store that
                // takes no more is a reason to defer, though.
                tickets.push(Err(error));
            }
        }
        let mut outcome = Outcome {
            verdict,
            deliveries,
        };
        if let Err(error) = all_committed(tickets).await {
            tracing::error!(target: "gateway", message = %message.id, "not stored: {error}");
            let reason = "the message could not be stored; try again later";
            outcome.verdict = Verdict::new(Action::Defer, reason);
        }
        let listener = message.envelope.listener;
        self.0.counters.count(listener, outcome.verdict.action);
        outcome
    }

    /// Notes a message that was judged for someone else, who decides what becomes of it: in the
    /// journal and before those who watch, without waiting for the disk.
    pub fn note(&self, message: &Message, verdict: &Verdict, duration: Duration) {
        let story = JournalEntry {
            subject: mail::subject(message),
            ..story(message, verdict, duration)
        };
        self.tell(&story);
        self.0
            .counters
            .count(message.envelope.listener, verdict.action);
        if let Err(error) = self.write_down(story) {
            tracing::warn!(target: "gateway", message = %message.id, "not noted: {error}");
        }
    }

    /// Says in the log and to those who watch what became of a message.
    fn tell(&self, story: &JournalEntry) {
        tracing::info!(
            target: "gateway",
            message = %story.id,
            listener = story.envelope.listener.name(),
            peer = %story.envelope.peer,
            verdict = story.action.name(),
            procedure = story.procedure,
            size = story.size,
            deliveries = story.deliveries,
            "{}", story.reason
        );
        self.0.counters.count_hits(&story.hits);
        let text = journal::to_text(story);
        let publication = Publication::new(self.0.journal_topic.clone(), text);
        self.0.outlet.publish(publication);
    }

    /// Keeps the message aside, with its story.
    fn quarantine(&self, message: &Message, story: JournalEntry) -> Result<Ticket, StoreError> {
        let entry = QuarantineEntry {
            story,
            body: message.body.clone(),
            properties: message.properties.clone(),
            retain: message.retain,
        };
        self.0.store.submit([Change::Quarantine(Box::new(entry))])
    }

    /// Puts the story into the journal, with the next commit.
    fn write_down(&self, story: JournalEntry) -> Result<(), StoreError> {
        let change = Change::Journal(Box::new(story));
        self.0.store.submit_unhurried([change])
    }
}

/// What is known of a judged message before it is delivered.
fn story(message: &Message, verdict: &Verdict, duration: Duration) -> JournalEntry {
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

/// A mail whose verdict is known, and of which nothing has become yet.
#[must_use = "a mail that is not carried out is lost"]
pub struct JudgedMail {
    message: Arc<Message>,
    topics: Vec<Topic>,
    /// What of it goes to mailboxes.
    kept: Vec<Change>,
    judged: Judged,
}

impl JudgedMail {
    /// Puts `mail` into the mailboxes of these users too, when it is carried out.
    pub fn keep_in(&mut self, users: &[String], mail: &Bytes) {
        let id = self.message.id;
        let changes = users
            .iter()
            .map(|user| Change::deliver(user, id, mail.clone()));
        self.kept.extend(changes);
    }

    /// The mail as it arrived.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What the procedures said.
    pub fn verdict(&self) -> &Verdict {
        &self.judged.verdict
    }

    /// Puts another verdict in the place of what the procedures said.
    pub fn overrule(&mut self, verdict: Verdict) {
        self.judged.verdict = verdict;
    }
}

/// A message from its arrival to where it goes.
struct Way<'a> {
    /// As it arrived, which is what is kept.
    arrived: &'a Message,
    /// As procedures changed it.
    leaving: &'a Message,
    topics: &'a [Topic],
    /// Whether the journal has it.
    is_noted: bool,
}

struct Judged {
    verdict: Verdict,
    duration: Duration,
}

/// Waits for every commit; one that shares its group with the last costs nothing.
async fn all_committed(tickets: Vec<Result<Ticket, StoreError>>) -> Result<(), StoreError> {
    for ticket in tickets {
        ticket?.committed().await?;
    }
    Ok(())
}

/// What subscribers get: the payload, and what is known of it as user properties.
fn publication(
    message: &Message,
    topic: Topic,
    rendered: &Rendered,
    verdict: &Verdict,
) -> Publication {
    let mut properties = message.properties.as_deref().cloned().unwrap_or_default();
    rendered.describe(&mut properties);
    let mut add = |name: &str, value: String| properties.user.push((name.to_owned(), value));
    // Where nothing was judged there is nothing to say.
    if !verdict.procedure.is_empty() || verdict.score.is_some() {
        add("verdict", verdict.action.name().to_owned());
    }
    if let Some(score) = verdict.score {
        add("score", format!("{:.1}", score.value));
    }
    if verdict.action == Action::Tag {
        for (name, value) in &verdict.tags {
            add(name, value.clone());
        }
    }
    Publication {
        id: message.id,
        topic,
        payload: rendered.payload.clone(),
        qos: message.qos,
        retain: message.retain,
        properties: (!properties.is_empty()).then(|| Box::new(properties)),
    }
}
