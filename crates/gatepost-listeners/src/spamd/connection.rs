//! One connection: its request is read on a worker, and answered there or by the judge thread that
//! scans its message.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gatepost_bans::Offence;
use gatepost_learning::{LearnFailure, LearnInstruction};
use gatepost_message::{Action, Edit, Envelope, Format, Listener, Message, Peer, Verdict, edit};
use gatepost_procedures::{ProcedureAnswer, ProcedureCallError};
use gatepost_rules::Report;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SpamdContext;
use super::answer::{self, SpamdFailure, TellResult};
use super::inflate::{self, InflateError};
use super::request::{SpamdCommand, SpamdHead};
use crate::acceptor::AcceptedSocket;
use crate::admission::{AdmissionRefusal, ConnectionPermit};
use crate::in_flight::InFlightLease;
use crate::lazy_stream::LazyStream;
use crate::linger::linger;

/// The buffer for an announced message is allocated ahead, but only up to this size before bytes
/// arrive, and then up to a multiple of the received bytes: a client that announces much and sends
/// little must not occupy more.
const ANNOUNCED_BYTES_MAX: usize = 64 * 1024;
const ANNOUNCED_PER_BYTE_MAX: usize = 8;

pub(super) async fn serve(
    accepted: AcceptedSocket,
    (peer, admitted): (Peer, Result<ConnectionPermit, AdmissionRefusal>),
    context: Arc<SpamdContext>,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut stream = LazyStream::new(accepted, peer);
    let client = stream.open().await?;
    let (place, refusal) = match context
        .limits
        .admission
        .admit_proxied(admitted, peer, client)
    {
        Ok(place) => (Some(place), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let mut connection = SpamdConnection {
        stream,
        peer: client,
        lease: context.limits.in_flight.lease(client),
        context,
        _place: place,
        _shutdown: shutdown,
    };
    let reply = match refusal {
        None => connection.request().await?,
        Some(refusal) => SpamdReply::Now(SpamdFailure::temporary(&refusal.to_string()).bytes()),
    };
    match reply {
        SpamdReply::Now(answer) => {
            connection.write(&answer).await?;
            connection.end().await
        }
        SpamdReply::Scanned(head, message) => {
            connection.scan(head, message);
            Ok(())
        }
    }
}

pub(super) fn note_broken(peer: Peer, error: &io::Error) {
    tracing::debug!(target: "spamd", %peer, "the connection was closed unexpectedly: {error}");
}

struct SpamdConnection {
    stream: LazyStream,
    peer: Peer,
    context: Arc<SpamdContext>,
    /// The part of the process's budget that its message uses.
    lease: InFlightLease,
    /// The connection's admission by the listener.
    _place: Option<ConnectionPermit>,
    /// Held so that the listener ends after its connections.
    _shutdown: watch::Receiver<bool>,
}

/// The reply to a request.
enum SpamdReply {
    Now(Vec<u8>),
    /// The findings of the rules in the message.
    Scanned(SpamdHead, Arc<Message>),
}

impl SpamdConnection {
    /// Reads the request, and answers it if that needs no judge thread.
    async fn request(&mut self) -> io::Result<SpamdReply> {
        let deadline = Instant::now() + self.context.settings.request_time_max.duration();
        match self.reply(deadline).await {
            Ok(reply) => Ok(reply),
            Err(RequestFailure::Answered(failure)) => Ok(SpamdReply::Now(self.failed(&failure))),
            Err(RequestFailure::Disconnected(error)) if error.kind() == io::ErrorKind::TimedOut => {
                let failure = SpamdFailure::timeout("the request did not arrive in time");
                Ok(SpamdReply::Now(failure.bytes()))
            }
            Err(RequestFailure::Disconnected(error)) => Err(error),
        }
    }

    fn failed(&self, failure: &SpamdFailure) -> Vec<u8> {
        tracing::info!(target: "spamd", peer = %self.peer, "{}", failure.text);
        if failure.is_protocol_fault() {
            let admission = &self.context.limits.admission;
            admission.offended(self.peer, Offence::ProtocolFault);
        }
        failure.bytes()
    }

    async fn reply(&mut self, deadline: Instant) -> Result<SpamdReply, RequestFailure> {
        let mut input = BytesMut::new();
        let Some(head) = self.head(&mut input, deadline).await? else {
            return Ok(SpamdReply::Now(Vec::new())); // the client connected and sent nothing
        };
        match head.command {
            SpamdCommand::Ping => return Ok(SpamdReply::Now(answer::PONG.to_vec())),
            SpamdCommand::Skip => return Ok(SpamdReply::Now(Vec::new())),
            _ => {}
        }
        let body = self.body(&head, input, deadline).await?;
        let instruction = match head.command {
            SpamdCommand::Tell => Some(self.instruction(&head)?),
            _ => None,
        };
        let message = Message::new(self.envelope(&head), None, Format::Mail, body);
        let message = Arc::new(message);
        if let Some(instruction) = instruction {
            return self.tell(message, instruction).await.map(SpamdReply::Now);
        }
        let procedures = self.context.gateway.procedures();
        if procedures.scope_for(Listener::Spamd, None, &[]).is_none() {
            return Ok(SpamdReply::Scanned(head, message));
        }
        let (report, is_spam, edits) = self.judge(&message).await?;
        let body = edit::apply(&message.body, &edits);
        Ok(SpamdReply::Now(answer::of_report(
            &head, &report, is_spam, &body,
        )))
    }

    /// Returns the learning that TELL requests; `None` where it only names collections of others,
    /// to which this server reports nothing.
    fn instruction(&self, head: &SpamdHead) -> Result<Option<LearnInstruction>, RequestFailure> {
        if !self.context.settings.allow_tell {
            return Err(SpamdFailure::unavailable(
                "TELL is switched off; the setting allow_tell \
                permits it",
            )
            .into());
        }
        if head.set.meets(head.remove) {
            let reason = "Set and Remove name the same place";
            return Err(SpamdFailure::protocol(reason).into());
        }
        match (head.set.local, head.remove.local, head.class) {
            (true, _, Some(class)) => Ok(Some(LearnInstruction::Learn(class))),
            (true, _, None) => Err(SpamdFailure::protocol("Set needs a Message-class").into()),
            (false, true, _) => Ok(Some(LearnInstruction::Forget)),
            (false, false, _) => Ok(None),
        }
    }

    /// Learns the message; the answer, which reports whether that changed anything, is sent once
    /// the change is on disk.
    async fn tell(
        &self,
        message: Arc<Message>,
        instruction: Option<LearnInstruction>,
    ) -> Result<Vec<u8>, RequestFailure> {
        let Some(instruction) = instruction else {
            return Ok(answer::of_tell(TellResult::Nothing));
        };
        let procedures = self.context.gateway.procedures();
        let taught = procedures.learn(message, instruction).await;
        let taught = taught.map_err(|error| SpamdFailure::temporary(&error.to_string()))?;
        let changed = taught.map_err(|error| match error {
            LearnFailure::Off => SpamdFailure::unavailable(&error.to_string()),
            LearnFailure::NotKept(_) | LearnFailure::NotShared(_) => {
                SpamdFailure::temporary(&error.to_string())
            }
        })?;
        tracing::info!(target: "spamd", peer = %self.peer, changed, "taught: {instruction:?}");
        Ok(answer::of_tell(match (changed, instruction) {
            (false, _) => TellResult::Nothing,
            (true, LearnInstruction::Learn(_)) => TellResult::Learned,
            (true, LearnInstruction::Forget) => TellResult::Forgotten,
        }))
    }

    fn envelope(&self, head: &SpamdHead) -> Envelope {
        Envelope {
            user: head.user.clone(),
            ..Envelope::new(Listener::Spamd, self.peer)
        }
    }

    async fn head(
        &mut self,
        input: &mut BytesMut,
        deadline: Instant,
    ) -> Result<Option<SpamdHead>, RequestFailure> {
        let bytes_max = self.context.settings.head_max.as_usize();
        let mut ended = false;
        loop {
            match SpamdHead::take(input, bytes_max, ended) {
                Ok(Some(head)) => return Ok(Some(head)),
                Ok(None) => {}
                Err(error) => return Err(SpamdFailure::protocol(&error.to_string()).into()),
            }
            ended = self.stream.read(input, deadline).await? == 0;
            if ended && input.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Reads the message: as many bytes as the head announces, or all up to the end of the stream.
    async fn body(
        &mut self,
        head: &SpamdHead,
        mut input: BytesMut,
        deadline: Instant,
    ) -> Result<Bytes, RequestFailure> {
        let size_max = self.context.settings.message_max;
        let too_large = || {
            let reason = format!(
                "the message is larger than {size_max}, the listener's \
                message_max"
            );
            RequestFailure::from(SpamdFailure::protocol(&reason))
        };
        let expected = head.content_length;
        if expected.is_some_and(|length| length > size_max.bytes()) {
            return Err(too_large());
        }
        let is_short =
            |input: &BytesMut| expected.is_none_or(|length| (input.len() as u64) < length);
        while is_short(&input) {
            reserve_ahead(&mut input, expected);
            if self.stream.read(&mut input, deadline).await? == 0 {
                break;
            }
            if input.len() as u64 > size_max.bytes() {
                return Err(too_large());
            }
            self.lease
                .reserve(input.len() as u64)
                .map_err(|error| SpamdFailure::temporary(&error.to_string()))?;
        }
        drop_line_end(&mut input, expected);
        let got = input.len() as u64;
        if let Some(length) = expected.filter(|length| *length != got) {
            let reason = format!("Content-length is {length}, and {got} bytes arrived");
            return Err(SpamdFailure::protocol(&reason).into());
        }
        if head.compressed {
            let inflated = inflate::inflate(&input, size_max.as_usize(), &mut self.lease);
            return inflated.map_err(|error| failed_inflation(&error).into());
        }
        Ok(input.freeze())
    }

    /// Scans a message on a judge thread, which also writes the answer, to avoid waking a worker.
    fn scan(self, head: SpamdHead, message: Arc<Message>) {
        let started = Instant::now();
        let worker = Handle::current();
        let context = Arc::clone(&self.context);
        let scanned = Arc::clone(&message);
        let then = move |report: Result<Report, ProcedureCallError>| {
            let answer = self.scanned(&head, &message, report, started);
            let answer = answer.unwrap_or_else(|failure| self.failed(&failure));
            self.write_from_anywhere(&answer, &worker);
        };
        context.gateway.procedures().scan_then(scanned, then);
    }

    fn scanned(
        &self,
        head: &SpamdHead,
        message: &Message,
        report: Result<Report, ProcedureCallError>,
        started: Instant,
    ) -> Result<Vec<u8>, SpamdFailure> {
        let report = report.map_err(|error| SpamdFailure::temporary(&error.to_string()))?;
        let verdict = self.context.gateway.procedures().verdict_of(&report);
        self.note(message, &verdict, started)?;
        let body = edit::apply(&message.body, &verdict.edits);
        Ok(answer::of_report(head, &report, report.is_spam(), &body))
    }

    /// Judges a message by a scope: the report of the rules, whether it counts as spam, and the
    /// edits.
    async fn judge(
        &self,
        message: &Arc<Message>,
    ) -> Result<(Arc<Report>, bool, Vec<Edit>), RequestFailure> {
        let started = Instant::now();
        let procedures = self.context.gateway.procedures();
        let ProcedureAnswer {
            verdict, report, ..
        } = procedures.judge_and_report(message).await;
        // A scope that runs the rules must not run them twice, since they learn from each scan.
        let report = if let Some(report) = report {
            report
        } else {
            let scanned = procedures.scan(Arc::clone(message)).await;
            Arc::new(scanned.map_err(|error| SpamdFailure::temporary(&error.to_string()))?)
        };
        self.note(message, &verdict, started)?;
        Ok((report, !verdict.action.delivers(), verdict.edits))
    }

    /// Journals the verdict of a message; an error means that the client must try again.
    fn note(
        &self,
        message: &Message,
        verdict: &Verdict,
        started: Instant,
    ) -> Result<(), SpamdFailure> {
        let gateway = &self.context.gateway;
        gateway.journal(message, verdict, started.elapsed());
        if verdict.action == Action::Defer {
            return Err(SpamdFailure::temporary(&verdict.reason));
        }
        Ok(())
    }

    /// Writes an answer on a thread that has no reactor; the bytes that the socket does not accept
    /// immediately are left to the worker.
    fn write_from_anywhere(mut self, answer: &[u8], worker: &Handle) {
        match self.stream.write_now(answer) {
            Ok([]) if self.has_ended() => {}
            Ok(rest) => {
                let rest = rest.to_vec();
                gatepost_tasks::spawn_on(worker, async move {
                    let peer = self.peer;
                    let written = self.write(&rest).await;
                    let ended = match written {
                        Ok(()) => self.end().await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = ended {
                        note_broken(peer, &error);
                    }
                });
            }
            Err(error) => note_broken(self.peer, &error),
        }
    }

    async fn write(&mut self, answer: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.context.settings.answer_time_max.duration();
        self.stream.write(answer, deadline).await
    }

    /// Whether the client has closed its writing side, as spamc does after its request.
    fn has_ended(&self) -> bool {
        let is_waiting = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match self.stream.try_read(&mut [0; LINE_END.len()]) {
            Ok(count) => count == 0,
            Err(error) => !is_waiting(&error),
        }
    }

    /// Reads the rest of the client's input, so that the client receives the answer and no reset.
    async fn end(self) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        let (stream, _) = self.stream.into_stream().await?;
        linger(&stream).await;
        Ok(())
    }
}

/// The line end that SpamAssassin's own Perl client sends after a message and does not count.
const LINE_END: &[u8] = b"\r\n";

/// Drops a line end after the message that its announced length does not include.
fn drop_line_end(input: &mut BytesMut, announced: Option<u64>) {
    let length = announced.and_then(|length| usize::try_from(length).ok());
    if let Some(length) = length
        && input
            .get(length..)
            .is_some_and(|rest| LINE_END.starts_with(rest))
    {
        input.truncate(length);
    }
}

fn failed_inflation(error: &InflateError) -> SpamdFailure {
    let text = error.to_string();
    match error {
        InflateError::NoRoom(_) => SpamdFailure::temporary(&text),
        InflateError::Malformed | InflateError::TooLarge(_) => SpamdFailure::protocol(&text),
    }
}

/// Allocates the buffer for announced bytes that have not arrived, once and not at each read.
fn reserve_ahead(input: &mut BytesMut, announced: Option<u64>) {
    let most = ANNOUNCED_BYTES_MAX.max(input.len().saturating_mul(ANNOUNCED_PER_BYTE_MAX));
    let announced = announced.and_then(|length| usize::try_from(length).ok());
    let wanted = announced.unwrap_or(0).min(most);
    input.reserve(wanted.saturating_sub(input.len()));
}

/// The reason why a request has no regular answer.
enum RequestFailure {
    /// The client receives the failure.
    Answered(SpamdFailure),
    /// The connection was lost.
    Disconnected(io::Error),
}

impl From<SpamdFailure> for RequestFailure {
    fn from(failure: SpamdFailure) -> Self {
        Self::Answered(failure)
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> Self {
        Self::Disconnected(error)
    }
}
