//! Mail that procedures write themselves: automatic replies, and the status report. The server
//! sends it, as all mail of its own.

use std::sync::Arc;

/// A mail to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureMail {
    /// The envelope's sender; empty for mail that must not be answered (RFC 3834, section 3.3).
    pub sender: String,
    /// The envelope's recipients.
    pub recipients: Vec<String>,
    /// Head and body, with CR LF.
    pub text: String,
}

/// The destination of procedures' mail: the smarthost's queue, or a trial's notes.
pub trait ProcedureMailer: Send + Sync {
    /// Whether there is a server to send to.
    fn can_send(&self) -> bool;

    /// Queues a mail.
    fn send(&self, mail: ProcedureMail);
}

/// Sends mail if a smarthost is set.
#[derive(Clone, Default)]
pub(crate) struct Mailer(pub(super) Option<Arc<dyn ProcedureMailer>>);

impl Mailer {
    /// Whether there is a server to send to.
    pub(crate) fn can_send(&self) -> bool {
        self.0.as_ref().is_some_and(|mailer| mailer.can_send())
    }

    /// Queues a mail; without a smarthost, logs that it is not sent.
    pub(crate) fn send(&self, mail: ProcedureMail) {
        match &self.0 {
            Some(mailer) if mailer.can_send() => mailer.send(mail),
            _ => tracing::warn!(
                target: "procedures",
                to = ?mail.recipients,
                "a mail is not sent: smarthost.server is not set",
            ),
        }
    }
}
