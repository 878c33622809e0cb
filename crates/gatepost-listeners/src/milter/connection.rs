//! One connection of a mail server: reads packets, has messages judged, writes answers.

use std::io;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use gatepost_gateway::JudgedMail;
use gatepost_message::{Envelope, Listener, Message, MessageId, Peer};
use tokio::sync::watch;
use tokio::time::Instant;

use super::MilterContext;
use super::answer::{self, PassedChanges};
use super::packet;
use super::session::{MilterSession, PacketOutcome};
use super::transaction::{CompleteMessage, MilterLimits, bare};
use super::verdicts;
use crate::decisive_verdict;
use crate::mail::{self, ReceivedField};
use crate::stream::Stream;
use crate::verdict_headers::{self, DeliveryFacts};
use crate::wire;

/// Serves one mail server until it ends or is silent for too long.
pub(super) async fn serve(
    stream: Stream,
    context: &MilterContext,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let settings = &context.settings;
    let mut connection = MilterConnection {
        stream,
        context,
        shutdown,
        input: BytesMut::new(),
        output: Vec::new(),
    };
    let mut session = MilterSession::new(MilterLimits {
        message_bytes_max: settings.message_max.as_usize(),
        recipients_max: settings.recipients_max,
    });
    connection.converse(&mut session).await
}

/// The client sends the remaining recipients with another message (RFC 5321, section 4.5.3.1.10).
const TOO_MANY_RECIPIENTS: &str = "too many recipients";

struct MilterConnection<'a> {
    stream: Stream,
    context: &'a MilterContext,
    shutdown: watch::Receiver<bool>,
    /// Received and not yet parsed.
    input: BytesMut,
    /// Answers that are not yet written.
    output: Vec<u8>,
}

impl MilterConnection<'_> {
    async fn converse(&mut self, session: &mut MilterSession) -> io::Result<()> {
        let packet_max = self.context.settings.packet_max.as_usize();
        // The deadline is for a complete packet: sending it slowly does not extend the time.
        let idle_time_max = self.context.settings.idle_time_max.duration();
        let mut deadline = Instant::now() + idle_time_max;
        // Held until the message is judged.
        let mut lease = None;
        loop {
            while let Some(packet) =
                packet::take(&mut self.input, packet_max).map_err(io::Error::other)?
            {
                match session.take(&packet).map_err(io::Error::other)? {
                    PacketOutcome::Silence => {}
                    PacketOutcome::Agree(agreement) => agreement.write(&mut self.output),
                    PacketOutcome::Continue => answer::write_continue(&mut self.output),
                    PacketOutcome::RefuseRecipient => {
                        answer::write_reply(&mut self.output, "452 4.5.3", TOO_MANY_RECIPIENTS);
                    }
                    PacketOutcome::Skip => answer::write_skip(&mut self.output),
                    PacketOutcome::Judge(whole) => self.judge(*whole).await?,
                    PacketOutcome::End => return self.flush().await,
                }
                deadline = Instant::now() + idle_time_max;
            }
            session.reserve(&mut lease, &self.context.limits.in_flight);
            if self.output.is_empty() {
                // Most packets of a mail server have no answer.
                self.stream.acknowledge_now();
            }
            self.flush().await?;
            if !self.fill(deadline, !session.is_within_message()).await? {
                return Ok(());
            }
        }
    }

    /// Reads some bytes; returns false at the end of input, or if the server shuts down and
    /// `interruptible` is set.
    async fn fill(&mut self, deadline: Instant, interruptible: bool) -> io::Result<bool> {
        let read = tokio::select! {
            biased;
            read = wire::read(&self.stream, &mut self.input, deadline) => read,
            _ = self.shutdown.wait_for(|&down| down), if interruptible => return Ok(false),
        };
        match read {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let deadline = Instant::now() + self.context.settings.write_time_max.duration();
            wire::write(&self.stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Has a complete message judged, and answers with the verdict.
    async fn judge(&mut self, whole: CompleteMessage) -> io::Result<()> {
        if whole.transaction.lacks_room {
            let text = "too many unfinished messages, try again later";
            answer::write_reply(&mut self.output, "452 4.3.1", text);
            return Ok(());
        }
        if whole.transaction.is_too_large {
            let text = "the message is larger than the listener's message_max";
            answer::write_reply(&mut self.output, "552 5.3.4", text);
            return Ok(());
        }
        let trace = received_field(&whole);
        let transaction = &whole.transaction;
        let parts = [
            trace.as_bytes(),
            &transaction.head,
            b"\r\n",
            &transaction.body,
        ];
        let mail = Bytes::from(parts.concat());
        let envelope = envelope(&whole);
        let mut judged = Vec::new();
        for group in self.groups(&transaction.recipients) {
            let recipients = group.iter().map(|path| bare(path).to_owned()).collect();
            let message = mail::message(&envelope, recipients, mail.clone());
            if let Some(queue_id) = &whole.queue_id {
                tracing::debug!(
                    target: "milter",
                    message = %message.id,
                    queue_id,
                    "judged for the mail server",
                );
            }
            judged.push((self.judged(message).await?, group));
        }
        let settled = verdicts::settle(self.context, judged, whole.agreement).await;
        let answer = match settled {
            Ok(answer) => answer,
            Err(failure) => {
                answer::write_storage_failure(&mut self.output, failure);
                return Ok(());
            }
        };
        let facts = DeliveryFacts {
            hostname: &self.context.hostname,
            user: whole.user.as_deref(),
        };
        let edits = verdict_headers::edits(
            &self.context.settings.verdict_headers,
            &mail,
            &answer.verdict,
            facts,
        );
        let changes = PassedChanges {
            edits: &edits,
            without: &answer.without,
        };
        let held = answer.held;
        answer::write(
            &mut self.output,
            whole.agreement,
            &answer.verdict,
            &changes,
            held,
        );
        Ok(())
    }

    /// The recipients that one scope judges, together; at least one group, which may be empty.
    fn groups(&self, recipients: &[String]) -> Vec<Vec<String>> {
        let procedures = self.context.gateway.procedures();
        let groups = decisive_verdict::group_by_scope(recipients.iter().cloned(), |recipient| {
            procedures.scope_for(Listener::Milter, None, &[bare(recipient).to_owned()])
        });
        if groups.is_empty() {
            return vec![Vec::new()];
        }
        groups
    }

    /// Waits for the verdict, and sends progress to the mail server meanwhile.
    async fn judged(&mut self, message: Message) -> io::Result<JudgedMail> {
        let context = self.context;
        let interval = context.settings.progress_interval.duration();
        let mut judged = pin!(context.gateway.judge_mail(message, Vec::new()));
        loop {
            if let Ok(judged) = tokio::time::timeout(interval, judged.as_mut()).await {
                return Ok(judged);
            }
            answer::write_progress(&mut self.output);
            self.flush().await?;
        }
    }
}

fn envelope(whole: &CompleteMessage) -> Envelope {
    Envelope {
        client: whole.host.helo.clone(),
        user: whole.user.clone(),
        sender: Some(whole.transaction.sender.clone().unwrap_or_default()),
        ..Envelope::new(Listener::Milter, whole.host.peer())
    }
}

/// The mail server sends filters every field but its own Received field, which rules need to know
/// the client. This substitute is judged with the message and never sent.
fn received_field(whole: &CompleteMessage) -> String {
    let address = match whole.host.peer() {
        Peer::Address(address) => address.ip().to_string(),
        Peer::Local => "127.0.0.1".to_owned(),
    };
    // For a client without a name, its address is used.
    let name = match whole.host.name.as_str() {
        name if name.starts_with('[') => "unknown".to_owned(),
        name => mail::word(name),
    };
    let received = ReceivedField {
        helo: whole.host.helo.as_deref(),
        client: &format!("{name} [{address}]"),
        by: whole.server.as_deref().unwrap_or("localhost"),
        program: "Gatepost milter",
        protocol: if whole.user.is_some() {
            "ESMTPA"
        } else {
            "ESMTP"
        },
        id: MessageId::next(),
        queue_id: whole.queue_id.as_deref(),
        recipient: None,
    };
    received.to_string()
}
