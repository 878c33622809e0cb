//! The spamd listener: SPAMC/SPAMD 1.5, so that spamc, Exim and whatever else asks SpamAssassin's
//! daemon can ask Gatepost instead.
//!
//! A connection carries one request, as the protocol has it. The rules judge on the judge threads;
//! where a scope names this listener, its verdict decides what counts as spam, and the report is
//! still the rules'.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gatepost_message::{Action, Edit, Envelope, Format, Listener, Message, Peer, edit};
use gatepost_procedures::{Answer, CallError};
use gatepost_rules::{Report, TeachError, Teaching};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::acceptor::Acceptor;
use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::service::{self, Arrival};
use crate::stream::Stream;
use crate::wire;
use crate::workers::Workers;

mod answer;
mod inflate;
mod request;
mod settings;

use answer::{Failure, Told};
pub use request::{Command, Head, HeadError, Targets, Version};
pub use settings::SpamdSettings;

/// What all connections share.
pub struct SpamdContext {
    settings: SpamdSettings,
    gateway: Gateway,
    admission: Admission,
}

impl SpamdContext {
    /// A context for one or more sockets.
    pub fn new(settings: SpamdSettings, gateway: Gateway) -> Self {
        Self {
            admission: Admission::new(
                settings.connections_max,
                settings.connections_per_address_max,
            ),
            settings,
            gateway,
        }
    }

    /// Who is connected.
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Serves connections until `shutdown` becomes true; requests in progress are answered.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<SpamdContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) {
    let admission = context.admission.clone();
    let connection = move |arrival| serve_connection(arrival, Arc::clone(&context));
    service::accept("spamd", acceptor, workers, admission, shutdown, connection).await;
}

async fn serve_connection(arrival: Arrival, context: Arc<SpamdContext>) {
    let Arrival {
        stream,
        peer,
        admitted,
        shutdown: _held_until_the_end,
    } = arrival;
    let connection = Connection {
        stream,
        peer,
        context,
    };
    let answer = match &admitted {
        Ok(_place) => connection.request().await,
        Err(refusal) => Ok(Failure::temporary(&refusal.to_string()).bytes()),
    };
    let written = match answer {
        Ok(answer) => connection.write(&answer).await,
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        tracing::debug!(target: "spamd", %peer, "the connection broke off: {error}");
    }
}

struct Connection {
    stream: Stream,
    peer: Peer,
    context: Arc<SpamdContext>,
}

impl Connection {
    /// Reads the request and makes its answer.
    async fn request(&self) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.context.settings.request_time_max.duration();
        match self.answer(deadline).await {
            Ok(answer) => Ok(answer),
            Err(Broken::Told(failure)) => {
                tracing::info!(target: "spamd", peer = %self.peer, "{}", failure.text);
                Ok(failure.bytes())
            }
            Err(Broken::Lost(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Ok(Failure::timeout("the request did not arrive in time").bytes())
            }
            Err(Broken::Lost(error)) => Err(error),
        }
    }

    async fn answer(&self, deadline: Instant) -> Result<Vec<u8>, Broken> {
        let mut input = BytesMut::new();
        let Some(head) = self.head(&mut input, deadline).await? else {
            return Ok(Vec::new()); // connected, and said nothing
        };
        match head.command {
            Command::Ping => return Ok(answer::PONG.to_vec()),
            Command::Skip => return Ok(Vec::new()),
            _ => {}
        }
        let body = self.body(&head, input, deadline).await?;
        let teaching = match head.command {
            Command::Tell => Some(self.teaching(&head)?),
            _ => None,
        };
        let message = Message::new(self.envelope(&head), None, Format::Mail, body);
        let message = Arc::new(message);
        if let Some(teaching) = teaching {
            return self.tell(message, teaching).await;
        }
        let (report, is_spam, edits) = self.judge(&message).await?;
        let body = edit::apply(&message.body, &edits);
        Ok(answer::of_report(&head, &report, is_spam, &body))
    }

    /// What TELL asks for; `None` where only others' collections are meant, to which nothing is
    /// reported from here.
    fn teaching(&self, head: &Head) -> Result<Option<Teaching>, Broken> {
        if !self.context.settings.allow_tell {
            return Err(Failure::unavailable("TELL is not allowed here").into());
        }
        if head.set.meets(head.remove) {
            let reason = "Set and Remove name the same place";
            return Err(Failure::protocol(reason).into());
        }
        match (head.set.local, head.remove.local, head.class) {
            (true, _, Some(class)) => Ok(Some(Teaching::Learn(class))),
            (true, _, None) => Err(Failure::protocol("Set needs a Message-class").into()),
            (false, true, _) => Ok(Some(Teaching::Forget)),
            (false, false, _) => Ok(None),
        }
    }

    /// Teaches, and tells whether that changed anything once it is on disk.
    async fn tell(
        &self,
        message: Arc<Message>,
        teaching: Option<Teaching>,
    ) -> Result<Vec<u8>, Broken> {
        let Some(teaching) = teaching else {
            return Ok(answer::of_tell(Told::Nothing));
        };
        let procedures = self.context.gateway.procedures();
        let taught = procedures.teach(message, teaching).await;
        let taught = taught.map_err(|error| Failure::temporary(&error.to_string()))?;
        let changed = taught.map_err(|error| match error {
            TeachError::Off => Failure::unavailable(&error.to_string()),
            TeachError::NotKept(_) => Failure::temporary(&error.to_string()),
        })?;
        tracing::info!(target: "spamd", peer = %self.peer, changed, "told: {teaching:?}");
        Ok(answer::of_tell(match (changed, teaching) {
            (false, _) => Told::Nothing,
            (true, Teaching::Learn(_)) => Told::Learned,
            (true, Teaching::Forget) => Told::Forgotten,
        }))
    }

    fn envelope(&self, head: &Head) -> Envelope {
        Envelope {
            user: head.user.clone(),
            ..Envelope::new(Listener::Spamd, self.peer)
        }
    }

    async fn head(&self, input: &mut BytesMut, deadline: Instant) -> Result<Option<Head>, Broken> {
        let bytes_max = self.context.settings.head_max.as_usize();
        let mut ended = false;
        loop {
            match Head::take(input, bytes_max, ended) {
                Ok(Some(head)) => return Ok(Some(head)),
                Ok(None) => {}
                Err(error) => return Err(Failure::protocol(&error.to_string()).into()),
            }
            ended = wire::read(&self.stream, input, deadline).await? == 0;
            if ended && input.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The message: as many bytes as the head says, or all up to the end of the stream.
    async fn body(
        &self,
        head: &Head,
        mut input: BytesMut,
        deadline: Instant,
    ) -> Result<Bytes, Broken> {
        let size_max = self.context.settings.message_max;
        let too_large = || {
            let reason = format!("the message is larger than the {size_max} taken here");
            Broken::from(Failure::protocol(&reason))
        };
        let expected = head.content_length;
        if expected.is_some_and(|length| length > size_max.bytes()) {
            return Err(too_large());
        }
        let is_short =
            |input: &BytesMut| expected.is_none_or(|length| (input.len() as u64) < length);
        while is_short(&input) && wire::read(&self.stream, &mut input, deadline).await? > 0 {
            if input.len() as u64 > size_max.bytes() {
                return Err(too_large());
            }
        }
        let got = input.len() as u64;
        if let Some(length) = expected.filter(|length| *length != got) {
            let reason = format!("Content-length is {length}, and {got} bytes came");
            return Err(Failure::protocol(&reason).into());
        }
        if head.compressed {
            return inflate::inflate(&input, size_max.as_usize())
                .map_err(|error| Failure::protocol(&error.to_string()).into());
        }
        Ok(input.freeze())
    }

    /// What the rules found, whether it counts as spam, and what a scope changes of the message.
    async fn judge(
        &self,
        message: &Arc<Message>,
    ) -> Result<(Arc<Report>, bool, Vec<Edit>), Broken> {
        let started = Instant::now();
        let procedures = self.context.gateway.procedures();
        let scan = || async {
            let scanned = procedures.scan(Arc::clone(message)).await;
            scanned.map_err(|error: CallError| Failure::temporary(&error.to_string()))
        };
        let (report, verdict, is_spam) =
            if procedures.scope_for(Listener::Spamd, None, &[]).is_some() {
                let Answer {
                    verdict, report, ..
                } = procedures.judge_and_report(message).await;
                // A scope that runs the rules is not to run them twice: they learn from each scan.
                let report = match report {
                    Some(report) => report,
                    None => Arc::new(scan().await?),
                };
                let is_spam = !verdict.action.delivers();
                (report, verdict, is_spam)
            } else {
                let report = scan().await?;
                let verdict = procedures.verdict_of(&report);
                let is_spam = report.is_spam();
                (Arc::new(report), verdict, is_spam)
            };
        let gateway = &self.context.gateway;
        gateway.note(message, &verdict, started.elapsed());
        if verdict.action == Action::Defer {
            return Err(Failure::temporary(&verdict.reason).into());
        }
        Ok((report, is_spam, verdict.edits))
    }

    async fn write(&self, answer: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.context.settings.answer_time_max.duration();
        wire::write(&self.stream, answer, deadline).await
    }
}

/// Why there is no answer of the usual kind.
enum Broken {
    /// The client is told.
    Told(Failure),
    /// Nobody is there to be told.
    Lost(io::Error),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}
