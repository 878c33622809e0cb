//! Digests of the quarantine: each recipient gets a mail that lists the messages quarantined since
//! the last digest, with a signed link to release each.
//!
//! A digest goes to recipients whose mail could be released now: to the mailbox of a user directly,
//! to an address at a next hop by the smarthost. Only messages that certain procedures quarantined
//! are listed, so that no recipient is offered a virus.
//!
//! Invariants:
//! - A link releases one message to one recipient. The message stays in quarantine for its other
//!   recipients.
//! - Opening a link changes nothing, because programs that scan mail open every link; the page
//!   asks for a confirmation.
//! - A crash loses no digest. A mailbox gets each once. A mail to a next hop may be sent a second
//!   time, as any mail by SMTP, but it is the same one: its `Message-ID` follows from the run and
//!   the recipient.

mod collection;
mod composition;
mod markup;
mod opt_out;
mod settings;
mod ticket;
mod ticket_release;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatepost_message::MessageId;
use gatepost_sinks::{MailQueue, MailSubmission};
use gatepost_store::{MailboxDelivery, StoreChange};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::error::OperationError;
use crate::operations::Operations;
use collection::{DigestProgress, DigestTarget, Digests, ListedMessage};
use composition::DigestText;
pub use opt_out::{DigestRecipient, StoppedDigests};
pub use settings::QuarantineDigestSettings;
use ticket::TicketKey;
pub use ticket::{ReleaseTicket, TicketRefusal};
pub use ticket_release::{TicketMessage, TicketReleased};

/// The path of the page that releases a message. Access logs do not show the value of `ticket`.
const RELEASE_PATH: &str = "/gatepost/release?ticket=";
/// The path of the page that stops the digests.
const STOP_PATH: &str = "/gatepost/digest?ticket=";
const SENDERS_PATH: &str = "/senders";
/// The longest time after which a change of the settings or of the clock is noticed, and after
/// which a failed digest is tried again.
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The settings of the digests, which a reload replaces. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedDigestSettings(Arc<RwLock<Arc<QuarantineDigestSettings>>>);

impl SharedDigestSettings {
    /// These settings.
    pub fn new(settings: &QuarantineDigestSettings) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(settings.clone()))))
    }

    /// Replaces the settings.
    pub fn replace(&self, settings: &QuarantineDigestSettings) {
        *self.0.write() = Arc::new(settings.clone());
    }

    fn get(&self) -> Arc<QuarantineDigestSettings> {
        self.0.read().clone()
    }
}

/// Sends digests when they are due.
pub struct QuarantineDigests {
    operations: Operations,
    mail: MailQueue,
    settings: SharedDigestSettings,
}

/// The digests of a run that are to be sent.
struct PreparedRun {
    digests: Digests,
    /// The progress when all are sent.
    progress: DigestProgress,
    /// The key that signs the links.
    key: Option<TicketKey>,
}

impl QuarantineDigests {
    /// Digests of the quarantine of `operations`.
    pub const fn new(
        operations: Operations,
        mail: MailQueue,
        settings: SharedDigestSettings,
    ) -> Self {
        Self {
            operations,
            mail,
            settings,
        }
    }

    /// Sends digests when they are due, until the server ends.
    pub async fn run(self, mut is_down: watch::Receiver<bool>) {
        let mut pause = PAUSE_MIN;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = is_down.wait_for(|is_down| *is_down) => return,
            }
            let settings = self.settings.get();
            pause = if settings.is_on() {
                match self.send_due(&settings, SystemTime::now()).await {
                    Ok(()) => until_next(&settings, SystemTime::now()),
                    Err(error) => {
                        tracing::warn!(target: "quarantine", %error, "the digests of the \
                            quarantine are not sent; they are tried again in a minute");
                        PAUSE_MAX
                    }
                }
            } else {
                PAUSE_MAX
            };
        }
    }

    /// Sends the digests if they are due and not sent yet.
    async fn send_due(
        &self,
        settings: &Arc<QuarantineDigestSettings>,
        now: SystemTime,
    ) -> Result<(), OperationError> {
        let due_unix_s = settings.due_at(unix_seconds(now));
        let progress = self
            .operations
            .blocking(|operations| DigestProgress::read(&operations.store));
        let Some(progress) = progress.await? else {
            return self.finish(&DigestProgress::first(due_unix_s)).await;
        };
        // After a clock that was ahead for a while, the last digests were due in the future.
        if progress.due_unix_s == due_unix_s {
            return Ok(());
        }
        let of_run = settings.clone();
        let prepared = self
            .operations
            .blocking(move |operations| prepare(operations, &of_run, (&progress, due_unix_s), now));
        let PreparedRun {
            digests,
            progress,
            key,
        } = prepared.await?;
        if !digests.is_empty() {
            self.submit([progress.begin_run()]).await?;
        }
        let (mut sent, mut without_smarthost) = (0_u64, 0_u64);
        for (target, messages) in digests {
            let Some(key) = &key else { break };
            if matches!(target, DigestTarget::Address(_)) && !self.mail.is_on() {
                without_smarthost += 1;
            } else if let Some(mail) =
                write(&target, &messages, settings, (key, progress.run()), now)
            {
                self.send(&target, &mail, progress.run()).await?;
                sent += 1;
            }
        }
        self.finish(&progress).await?;
        if without_smarthost > 0 {
            tracing::warn!(target: "quarantine", digests = without_smarthost, "digests for \
                addresses at next hops were not sent; set smarthost.server");
        }
        if sent > 0 {
            tracing::info!(target: "quarantine", digests = sent, "digests of the quarantine were \
                sent");
        }
        Ok(())
    }

    /// Stores or queues a digest, and in the same commit the fact that it is sent. If a cluster has
    /// the mailboxes, the fact is stored afterwards; the run's id prevents a second digest.
    async fn send(
        &self,
        target: &DigestTarget,
        mail: &MailSubmission,
        run: MessageId,
    ) -> Result<(), OperationError> {
        match target {
            DigestTarget::Mailbox(user) => {
                // RFC 5321, section 4.4.
                let mut text = format!("Return-Path: <{}>\r\n", mail.sender).into_bytes();
                text.extend_from_slice(&mail.text);
                let delivery = MailboxDelivery {
                    users: vec![user.clone()],
                    id: run,
                    mail: text.into(),
                };
                let store = &self.operations.store;
                Ok(store.deliver_with(delivery, vec![target.sent()]).await?)
            }
            DigestTarget::Address(_) => {
                let queued = self.mail.queue_with(mail, vec![target.sent()]).await;
                queued.map_err(|error| OperationError::Failed(error.to_string()))
            }
        }
    }

    async fn finish(&self, progress: &DigestProgress) -> Result<(), OperationError> {
        self.submit(progress.end_run()).await
    }

    async fn submit<const COUNT: usize>(
        &self,
        changes: [StoreChange; COUNT],
    ) -> Result<(), OperationError> {
        let ticket = self.operations.store.submit(changes)?;
        Ok(ticket.committed().await?)
    }
}

/// Collects the digests of the run that is due, or of the one that was interrupted. Blocks.
fn prepare(
    operations: &Operations,
    settings: &QuarantineDigestSettings,
    (before, due_unix_s): (&DigestProgress, u64),
    now: SystemTime,
) -> Result<PreparedRun, OperationError> {
    let store = &operations.store;
    let progress = match DigestProgress::read_run(store)? {
        Some(progress) => progress,
        None => before.after_run(store, due_unix_s, now)?,
    };
    let Some(routes) = &operations.mail_routes else {
        return Ok(PreparedRun {
            digests: Digests::new(),
            progress,
            key: None,
        });
    };
    let runs = (before, &progress);
    let this_node = operations.this_node();
    let digests = collection::collect(store, &**routes, settings, runs, this_node)?;
    ticket_release::forget_ended(store)?;
    let key = (!digests.is_empty()).then(|| TicketKey::read_or_make(store));
    Ok(PreparedRun {
        digests,
        progress,
        key: key.transpose()?,
    })
}

/// Writes a digest of the newest messages.
fn write(
    target: &DigestTarget,
    messages: &[ListedMessage],
    settings: &QuarantineDigestSettings,
    (key, run): (&TicketKey, MessageId),
    now: SystemTime,
) -> Option<MailSubmission> {
    let last = messages.last()?;
    let omitted = messages
        .len()
        .saturating_sub(usize::from(settings.messages_max));
    let listed = messages.get(omitted..)?;
    let until = now + settings.links_expire.duration();
    let link = |message: &ListedMessage| {
        let ticket = ReleaseTicket {
            id: message.id,
            recipient: message.recipient.clone(),
            until_unix_s: unix_seconds(until),
        };
        settings.link(&format!("{RELEASE_PATH}{}", key.sign(&ticket)))
    };
    let links: Vec<String> = listed.iter().map(link).collect();
    let has_mailbox = matches!(target, DigestTarget::Mailbox(_));
    let stop_link = settings.link(&format!("{STOP_PATH}{}", key.sign_recipient(&target.key())));
    let text = DigestText {
        messages: listed,
        omitted,
        links: &links,
        until,
        senders_page: has_mailbox.then(|| settings.link(SENDERS_PATH)),
        stop_link: &stop_link,
    };
    let mail = MailSubmission::alternative(
        (&settings.from, &last.recipient),
        &text.subject(),
        (&text.body(), &markup::write(&text)),
        (run, &target.digest_name()),
    );
    // RFC 2369, section 3.2.
    let mut mail = mail.with_field("List-Unsubscribe", &format!("<{stop_link}>"));
    if stop_link.starts_with("https:") {
        // RFC 8058, section 3.1.
        mail = mail.with_field("List-Unsubscribe-Post", "List-Unsubscribe=One-Click");
    }
    Some(mail)
}

/// The time until the next digests are due, or until settings and clock are read again.
fn until_next(settings: &QuarantineDigestSettings, now: SystemTime) -> Duration {
    let next = settings.due_at(unix_seconds(now)) + settings.every.duration().as_secs();
    let next = UNIX_EPOCH + Duration::from_secs(next);
    let pause = next.duration_since(now).unwrap_or_default();
    pause.clamp(PAUSE_MIN, PAUSE_MAX)
}

fn unix_seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
