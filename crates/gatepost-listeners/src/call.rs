//! The call listener: a program asks a named procedure about a message, in lines of text.
//!
//! ```text
//! C: CALL/1 /spamcheck        the procedure or scope
//! C: size: 1834               fields, see `request`
//! C:                          an empty line ends the request
//! S: NEED body                only where the procedure looks at it
//! C: (1834 bytes)
//! S: DONE reject              the verdict
//! S: score: 15.3/5.0          fields, see `answer`
//! S: reason: spam, ...
//! S:                          an empty line ends the answer
//! ```
//!
//! A connection carries any number of calls, one after another, and a client may send the next
//! before it has read the last answer. What a read brought is answered with one write. `FAIL`
//! in place of `DONE` says that the call could not be made; after a malformed request, whose end
//! nobody can know, the connection is closed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use gatepost_message::{Envelope, Format, Listener, Message, Peer, edit};
use gatepost_procedures::{Answer, CallError, Needs};
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
mod request;
mod settings;

pub use request::{Request, RequestError, RequestReader};
pub use settings::CallSettings;

/// Answers are written when so many bytes have gathered, even if more requests wait.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What all connections share.
pub struct CallContext {
    settings: CallSettings,
    gateway: Gateway,
    admission: Admission,
}

impl CallContext {
    /// A context for one or more sockets.
    pub fn new(settings: CallSettings, gateway: Gateway) -> Self {
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

/// Serves connections until `shutdown` becomes true; then each ends with its present call.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<CallContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) {
    let admission = context.admission.clone();
    let connection = move |arrival| serve_connection(arrival, Arc::clone(&context));
    service::accept("call", acceptor, workers, admission, shutdown, connection).await;
}

async fn serve_connection(arrival: Arrival, context: Arc<CallContext>) {
    let mut connection = Connection {
        stream: arrival.stream,
        peer: arrival.peer,
        context,
        shutdown: arrival.shutdown,
        input: BytesMut::new(),
        output: Vec::new(),
    };
    let result = match arrival.admitted {
        Ok(_place) => connection.serve().await,
        Err(refusal) => {
            answer::write_failure(&mut connection.output, &refusal.to_string());
            connection.flush().await
        }
    };
    if let Err(error) = result {
        tracing::debug!(target: "call", peer = %connection.peer, "the connection broke off: {error}");
    }
}

struct Connection {
    stream: Stream,
    peer: Peer,
    context: Arc<CallContext>,
    shutdown: watch::Receiver<bool>,
    input: BytesMut,
    output: Vec<u8>,
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        let mut reader = RequestReader::new(self.context.settings.head_max.as_usize());
        loop {
            match reader.take(&mut self.input) {
                Ok(Some(request)) => self.call(request).await?,
                Ok(None) => {
                    self.flush().await?;
                    if !self.fill_between_calls().await? {
                        return Ok(());
                    }
                }
                Err(error) => {
                    answer::write_failure(&mut self.output, &error.to_string());
                    return self.flush().await;
                }
            }
        }
    }

    /// Makes one call and writes its answer to the output.
    async fn call(&mut self, request: Request) -> io::Result<()> {
        let Some(needs) = self.context.gateway.procedures().needs(&request.procedure) else {
            let failure = CallError::NoSuchProcedure.to_string();
            answer::write_failure(&mut self.output, &failure);
            return Ok(());
        };
        let Request {
            procedure,
            size,
            envelope,
            arguments,
            wants_message,
        } = request;
        let body = if needs == Needs::Whole && size > 0 {
            let size_max = self.context.settings.message_max;
            if size > size_max.bytes() {
                let failure = format!("the message is larger than the {size_max} taken here");
                answer::write_failure(&mut self.output, &failure);
                return Ok(());
            }
            self.body(size as usize).await?.freeze()
        } else {
            bytes::Bytes::new()
        };
        let mut message = Message::new(self.envelope(envelope), None, Format::Mail, body);
        message.size = size;
        let original = message.body.clone();
        let procedures = self.context.gateway.procedures().clone();
        let answer = match procedures.call_at_once(&procedure, Arc::new(message), arguments) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(unready)) => {
                // Answers to earlier calls must not wait for this one's judge.
                self.flush().await?;
                Ok(procedures.resume(unready).await)
            }
            Err(error) => Err(error),
        };
        let changed = |answer: &Answer| {
            let edits = &answer.verdict.edits;
            (wants_message && !edits.is_empty()).then(|| edit::apply(&original, edits))
        };
        let changed = answer.as_ref().ok().and_then(changed);
        self.answer(answer, changed).await
    }

    async fn answer(
        &mut self,
        answer: Result<Answer, CallError>,
        changed: Option<bytes::Bytes>,
    ) -> io::Result<()> {
        match answer {
            Ok(answer) => {
                let counters = self.context.gateway.counters();
                counters.count(Listener::Call, answer.verdict.action);
                answer::write(&mut self.output, &answer, changed.as_deref());
            }
            Err(error) => answer::write_failure(&mut self.output, &error.to_string()),
        }
        if self.output.len() >= OUTPUT_BYTES_MAX {
            self.flush().await?;
        }
        Ok(())
    }

    /// Who sent the message, as far as the caller told; the caller itself otherwise.
    fn envelope(&self, told: request::Told) -> Envelope {
        let peer = told
            .address
            .map_or(self.peer, |ip| Peer::Address(SocketAddr::new(ip, 0)));
        Envelope {
            client: told.client,
            user: told.user,
            sender: told.sender,
            recipients: told.recipients,
            ..Envelope::new(Listener::Call, peer)
        }
    }

    /// Asks for the body and waits for it.
    async fn body(&mut self, size: usize) -> io::Result<BytesMut> {
        self.output.extend_from_slice(b"NEED body\n");
        self.flush().await?;
        let deadline = Instant::now() + self.context.settings.body_time_max.duration();
        while self.input.len() < size {
            if wire::read(&self.stream, &mut self.input, deadline).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.input.split_to(size))
    }

    /// Waits for more of a request; false where the connection is to end.
    async fn fill_between_calls(&mut self) -> io::Result<bool> {
        let settings = &self.context.settings;
        let limit = if self.input.has_remaining() {
            settings.head_time_max
        } else {
            settings.idle_time_max
        };
        let deadline = Instant::now() + limit.duration();
        tokio::select! {
            biased;
            _ = self.shutdown.wait_for(|&down| down) => Ok(false),
            read = wire::read(&self.stream, &mut self.input, deadline) => match read {
                Ok(count) => Ok(count > 0),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let deadline = Instant::now() + self.context.settings.head_time_max.duration();
            wire::write(&self.stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }
}
