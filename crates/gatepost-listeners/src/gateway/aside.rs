//! Messages of which someone else decides what becomes: a mail server that only asks.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{Action, Message, Verdict};
use gatepost_store::JournalEntry;

use super::{Gateway, Judged, mail, story};

impl Gateway {
    /// Has a message judged and does nothing with it; says how long that took.
    pub async fn judge_only(&self, message: &Arc<Message>) -> (Verdict, Duration) {
        let Judged { verdict, duration } = self.judge(message).await;
        (verdict, duration)
    }

    /// Keeps a quarantined message and notes it; returns when it is on disk, with the verdict
    /// that holds then: `defer` where the disk failed.
    pub async fn keep_aside(
        &self,
        message: &Message,
        verdict: Verdict,
        duration: Duration,
    ) -> Verdict {
        let story = JournalEntry {
            subject: mail::subject(message),
            ..story(message, &verdict, duration)
        };
        self.tell(&story);
        let kept = match self.keep(message, story) {
            Ok(ticket) => ticket.committed().await,
            Err(error) => Err(error),
        };
        let verdict = match kept {
            Ok(()) => verdict,
            Err(error) => {
                tracing::error!(target: "gateway", message = %message.id, "not stored: {error}");
                let reason = "the message could not be stored; try again later";
                Verdict::new(Action::Defer, reason)
            }
        };
        let listener = message.envelope.listener;
        self.counters().count(listener, verdict.action);
        verdict
    }
}
