//! One connection of a mail server: reads packets, has messages judged, writes answers.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::{Action, Envelope, Format, Listener, Message, MessageId, Peer, Verdict};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::sync::watch;
use tokio::time::Instant;

use super::MilterContext;
use super::answer::{self, Changes};
use super::packet;
use super::session::{Excess, Limits, Next, Session, Transaction, Whole, bare};
use super::settings::Keeper;
use crate::marks::{self, Known, head};
use crate::stream::Stream;
use crate::wire;

/// Serves one mail server until it ends or is silent for too long.
pub(super) async fn serve(
    stream: Stream,
    context: &MilterContext,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let settings = &context.settings;
    let mut connection = Connection {
        stream,
        context,
        shutdown,
        input: BytesMut::new(),
        output: Vec::new(),
    };
    let mut session = Session::new(Limits {
        message_bytes_max: settings.message_max.as_usize(),
        recipients_max: settings.recipients_max,
    });
    connection.converse(&mut session).await
}

struct Connection<'a> {
    stream: Stream,
    context: &'a MilterContext,
    shutdown: watch::Receiver<bool>,
    /// Read, and not yet understood.
    input: BytesMut,
    /// Answered, and not yet written.
    output: Vec<u8>,
}

impl Connection<'_> {
    async fn converse(&mut self, session: &mut Session) -> io::Result<()> {
        let packet_max = self.context.settings.packet_max.as_usize();
        loop {
            while let Some(packet) =
                packet::take(&mut self.input, packet_max).map_err(io::Error::other)?
            {
                match session.take(&packet).map_err(io::Error::other)? {
                    Next::Silence => {}
                    Next::Agree(agreement) => agreement.write(&mut self.output),
                    Next::Continue => answer::write_continue(&mut self.output),
                    Next::Skip => answer::write_skip(&mut self.output),
                    Next::Judge(whole) => self.judge(*whole).await?,
                    Next::End => return self.flush().await,
                }
            }
            self.flush().await?;
            if !self.fill(!session.is_within_message()).await? {
                return Ok(());
            }
        }
    }

    /// Reads what comes; false at the end, or when the server ends and `interruptible`.
    async fn fill(&mut self, interruptible: bool) -> io::Result<bool> {
        let deadline = Instant::now() + self.context.settings.idle_time_max.duration();
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

    /// Has a whole message judged and answers what is to become of it.
    async fn judge(&mut self, whole: Whole) -> io::Result<()> {
        match whole.transaction.excess {
            Some(Excess::Size) => {
                let text = "the message is larger than is taken here";
                answer::write_reply(&mut self.output, "552 5.3.4", text);
                return Ok(());
            }
            Some(Excess::Recipients) => {
                answer::write_reply(&mut self.output, "452 4.5.3", "too many recipients");
                return Ok(());
            }
            None => {}
        }
        let Whole {
            agreement,
            host,
            user,
            server,
            queue_id,
            transaction,
        } = whole;
        let id = MessageId::next();
        let trace = received_field(
            &host,
            user.is_some(),
            server.as_deref(),
            queue_id.as_deref(),
        );
        let message = Arc::new(message(id, &host, user, &transaction, &trace));
        if let Some(queue_id) = &queue_id {
            tracing::debug!(target: "milter", message = %id, queue_id, "judged for the mail server");
        }
        let (verdict, duration) = self.verdict(&message).await?;
        let verdict = self.note(&message, verdict, duration).await;
        let (fields, _) = head::split(&transaction.head);
        let known = Known {
            hostname: &self.context.hostname,
            user: message.envelope.user.as_deref(),
            sender: transaction.sender.as_deref(),
        };
        let changes = marks::changes(&self.context.settings.marks, &fields, &verdict, known);
        let changes = Changes {
            head: &changes,
            ..Changes::default()
        };
        let held = self.context.settings.quarantine == Keeper::MailServer;
        answer::write(&mut self.output, agreement, &verdict, &changes, held);
        Ok(())
    }

    /// Waits for the verdict and keeps the mail server waiting with us.
    async fn verdict(&mut self, message: &Arc<Message>) -> io::Result<(Verdict, Duration)> {
        let context = self.context;
        let interval = context.settings.progress_interval.duration();
        let mut judged = pin!(context.gateway.judge_only(message));
        loop {
            match tokio::time::timeout(interval, judged.as_mut()).await {
                Ok(judged) => return Ok(judged),
                Err(_) => {
                    answer::write_progress(&mut self.output);
                    self.flush().await?;
                }
            }
        }
    }

    /// Notes the message; one that we keep ourselves is on disk before the mail server discards
    /// its copy.
    async fn note(&self, message: &Message, verdict: Verdict, duration: Duration) -> Verdict {
        let gateway = &self.context.gateway;
        let ours = self.context.settings.quarantine == Keeper::Gatepost;
        if verdict.action == Action::Quarantine && ours {
            return gateway.keep_aside(message, verdict, duration).await;
        }
        gateway.note(message, &verdict, duration);
        verdict
    }
}

fn message(
    id: MessageId,
    host: &super::session::Host,
    user: Option<String>,
    transaction: &Transaction,
    trace: &str,
) -> Message {
    let recipients = transaction.recipients.iter();
    let envelope = Envelope {
        client: host.helo.clone(),
        user,
        sender: Some(transaction.sender.clone().unwrap_or_default()),
        recipients: recipients.map(|path| bare(path).to_owned()).collect(),
        ..Envelope::new(Listener::Milter, host.peer())
    };
    let parts = [
        trace.as_bytes(),
        &transaction.head,
        b"\r\n",
        &transaction.body,
    ];
    let mut message = Message::new(envelope, None, Format::Mail, parts.concat().into());
    message.id = id;
    message
}

/// The mail server shows filters every field but its own Received, which rules must see to know
/// the client. This one is judged with the message and never sent.
fn received_field(
    host: &super::session::Host,
    authenticated: bool,
    server: Option<&str>,
    queue_id: Option<&str>,
) -> String {
    let clean = |text: &str| -> String {
        let keep = |&character: &char| !character.is_control() && !"()<>[];".contains(character);
        text.chars().filter(keep).collect()
    };
    let address = match host.peer() {
        Peer::Address(address) => address.ip().to_string(),
        Peer::Local => "127.0.0.1".to_owned(),
    };
    let name = match host.name.as_str() {
        name if name.is_empty() || name.starts_with('[') => "unknown".to_owned(),
        name => clean(name),
    };
    let helo = clean(host.helo.as_deref().unwrap_or("unknown"));
    let server = clean(server.unwrap_or("localhost"));
    let protocol = if authenticated { "ESMTPA" } else { "ESMTP" };
    let id = queue_id.map_or_else(String::new, |id| format!(" id {}", clean(id)));
    let date = OffsetDateTime::now_utc()
        .format(&Rfc2822)
        .unwrap_or_default();
    format!(
        "Received: from {helo} ({name} [{address}])\r\n\tby {server} (Gatepost milter) with {protocol}{id};\r\n\t{date}\r\n"
    )
}
