//! Mail of the server itself that was given up: it is in quarantine, where an operator finds it,
//! and a release gives it to the smarthost again.

use std::time::Duration;

use bytes::Bytes;
use gatepost_mail::{HeaderSelector, Mail};
use gatepost_message::{Action, Envelope, Listener, MessageId, Peer};
use gatepost_sinks::{Keeping, MailSubmission, UnsentMail};
use gatepost_store::{JournalEntry, QuarantineEntry, Store};

/// The name in place of a procedure's: that of the sink. No procedure can have it.
const SINK: &str = "mail/outgoing";

/// Stores such mail in quarantine.
pub struct UnsentMailStore(Store);

impl UnsentMailStore {
    /// Stores it here.
    pub const fn new(store: Store) -> Self {
        Self(store)
    }

    async fn store(&self, mail: &MailSubmission, reason: &str) -> Result<(), String> {
        let stored = self.0.quarantine_message(entry(mail, reason));
        let ticket = stored.map_err(|error| error.to_string())?;
        ticket.committed().await.map_err(|error| error.to_string())
    }
}

impl UnsentMail for UnsentMailStore {
    fn keep<'a>(&'a self, mail: &'a MailSubmission, reason: &'a str) -> Keeping<'a> {
        Box::pin(self.store(mail, reason))
    }
}

/// The mail under an id of this moment: its age in quarantine begins now.
fn entry(mail: &MailSubmission, reason: &str) -> QuarantineEntry {
    let parsed = Mail::parse(&mail.text);
    let subject = parsed.header(&HeaderSelector::parse("Subject"));
    let subject = subject.map(|subject| String::from_utf8_lossy(&subject).trim().to_owned());
    QuarantineEntry {
        journal: JournalEntry {
            id: MessageId::next(),
            envelope: Envelope {
                sender: Some(mail.sender.clone()),
                recipients: mail.recipients.clone(),
                ..Envelope::new(Listener::Smtp, Peer::Local)
            },
            topic: None,
            topics: Vec::new(),
            subject,
            size: mail.text.len() as u64,
            action: Action::Quarantine,
            score: None,
            hits: Vec::new(),
            reason: format!("this server could not send it: {reason}"),
            procedure: SINK.to_owned(),
            duration: Duration::ZERO,
            deliveries: 0,
        },
        body: Bytes::copy_from_slice(&mail.text),
        properties: None,
        retain: false,
    }
}

/// The mail to send again; `None` for a message that did not come from this server.
pub(crate) fn submission_of(entry: &QuarantineEntry) -> Option<MailSubmission> {
    let envelope = &entry.journal.envelope;
    (entry.journal.procedure == SINK).then(|| MailSubmission {
        sender: envelope.sender.clone().unwrap_or_default(),
        recipients: envelope.recipients.clone(),
        text: entry.body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mail_is_found_in_quarantine_and_can_be_sent_again() {
        let store = Store::in_memory().expect("a store");
        let mail = MailSubmission {
            sender: "gate@example.org".to_owned(),
            recipients: vec!["anna@example.net".to_owned()],
            text: b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nsmoke\r\n".to_vec(),
        };
        let place = UnsentMailStore::new(store.clone());
        let kept = place.keep(&mail, "550 5.1.1 unknown").await;
        kept.expect("kept");
        let listed = store.quarantine(10).expect("read");
        let [journal] = &listed[..] else {
            panic!("{listed:?}");
        };
        assert_eq!(journal.subject.as_deref(), Some("Grüße"));
        assert!(journal.reason.ends_with("550 5.1.1 unknown"), "{journal:?}");
        let mut entry = store.quarantined(journal.id).expect("read").expect("kept");
        assert_eq!(submission_of(&entry), Some(mail));
        entry.journal.procedure = "/spamcheck".to_owned();
        assert_eq!(submission_of(&entry), None);
    }
}
