//! The call that arrives with its connection, answered before the socket is registered.
//!
//! A client that is started for one message sends `want: close`: its call costs the server accept,
//! read, write and close. Registering the socket, a task and timers are needed only for connections
//! that continue, and for calls that wait for the bytes of a message or for a judge.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gatepost_message::Peer;
use tokio::sync::watch;

use super::CallContext;
use super::answer;
use super::calling::{CallRequirement, PendingCall};
use super::connection::CallConnection;
use super::request::RequestReader;
use crate::acceptor::AcceptedSocket;
use crate::admission::{AdmissionRefusal, ConnectionPermit};
use crate::lazy_stream::LazyStream;

/// A connection that continues after its first bytes.
pub(super) struct Continuation {
    stream: LazyStream,
    peer: Peer,
    admitted: Result<ConnectionPermit, AdmissionRefusal>,
    progress: FirstCallProgress,
}

/// The state of the first call.
#[derive(Default)]
struct FirstCallProgress {
    /// Received and not yet parsed.
    input: BytesMut,
    /// The part of the answer that the socket did not take.
    output: Vec<u8>,
    /// The first call, if it waits for a judge.
    pending: Option<PendingCall>,
    /// Whether the connection ends with the answer to the first call.
    closes: bool,
}

/// Answers the first call if that needs no waiting. Returns the connection if it continues.
pub(super) fn answer(
    context: &CallContext,
    accepted: AcceptedSocket,
    peer: Peer,
) -> Option<Continuation> {
    let admitted = context.limits.admission.admit_accepted(&accepted, peer)?;
    let stream = LazyStream::new(accepted, peer);
    let progress = if stream.is_plain() && admitted.is_ok() {
        read_and_answer(context, &stream, peer)?
    } else {
        FirstCallProgress::default()
    };
    Some(Continuation {
        stream,
        peer,
        admitted,
        progress,
    })
}

/// Returns `None` if nothing is left to do.
fn read_and_answer(
    context: &CallContext,
    stream: &LazyStream,
    peer: Peer,
) -> Option<FirstCallProgress> {
    let mut first = FirstCallProgress::default();
    match stream.read_now(&mut first.input) {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(first),
        Err(_) => return None,
    }
    let received = first.input.clone();
    let mut reader = RequestReader::new(context.settings.head_max.as_usize());
    // A malformed request is answered where the connection is served, as all later ones are.
    let Ok(Some(request)) = reader.take(&mut first.input) else {
        first.input = received;
        return Some(first);
    };
    let closes = request.closes;
    match context.needs(&request, &mut first.output) {
        CallRequirement::Nothing => {
            first.pending = context.begin(peer, request, Bytes::new(), &mut first.output);
        }
        // The request is parsed again where the connection waits for its message.
        CallRequirement::Body(_) => {
            first.input = received;
            return Some(first);
        }
        CallRequirement::Refused => {}
    }
    first.closes = closes;
    while !first.output.is_empty() {
        match stream.try_write(&[IoSlice::new(&first.output)]) {
            Ok(count) if count > 0 => drop(first.output.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(first),
            Ok(_) | Err(_) => return None,
        }
    }
    (first.pending.is_some() || !first.closes).then_some(first)
}

impl Continuation {
    /// Registers the connection with the reactor of the present worker and serves it to its end.
    pub(super) async fn serve(self, context: Arc<CallContext>, shutdown: watch::Receiver<bool>) {
        let Self {
            stream,
            peer,
            admitted,
            progress,
        } = self;
        let (stream, client) = match stream.into_stream().await {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!(
                    target: "listeners",
                    listener = "call",
                    %peer,
                    "not opened: {error}",
                );
                return;
            }
        };
        let admitted = context
            .limits
            .admission
            .admit_proxied(admitted, peer, client);
        let mut connection = CallConnection::new(stream, client, context, shutdown);
        connection.input = progress.input;
        connection.output = progress.output;
        let result = match admitted {
            Ok(_place) => connection.serve(progress.pending, progress.closes).await,
            Err(refusal) => {
                answer::write_failure(&mut connection.output, &refusal.to_string());
                connection.flush().await
            }
        };
        if let Err(error) = result {
            tracing::debug!(target: "call", peer = %client, "the connection was closed \
                unexpectedly: {error}");
        }
    }
}
