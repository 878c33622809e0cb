//! The call that comes with a connection, answered before any reactor knows the socket.
//!
//! A client that is started for one message says `want: close`: its call costs the server accept,
//! read, write and close. Registering the socket, a task and timers are for connections that stay,
//! and for calls that a message's bytes or a judge must be waited for.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gatepost_message::Peer;
use tokio::sync::watch;

use crate::acceptor::Accepted;
use crate::admission::{Admitted, Refusal};
use crate::wire;

use super::CallContext;
use super::answer;
use super::calling::{Judged, Wants};
use super::connection::Connection;
use super::request::RequestReader;

/// A connection that goes on, with what it has done so far.
pub(super) struct Opening {
    accepted: Accepted,
    peer: Peer,
    admitted: Result<Admitted, Refusal>,
    first: First,
}

/// What became of the first bytes.
#[derive(Default)]
struct First {
    /// Read, and not called yet.
    input: BytesMut,
    /// The answer, as far as the socket did not take it.
    output: Vec<u8>,
    /// The first call, if a judge must be waited for.
    judged: Option<Judged>,
    /// Whether its answer is the last.
    closes: bool,
}

/// Answers the first call where that can be done at once. Gives the connection that is to be
/// served on.
pub(super) fn answer(context: &CallContext, accepted: Accepted, peer: Peer) -> Option<Opening> {
    let admitted = context.admission.admit(peer);
    let first = if accepted.is_plain(peer) && admitted.is_ok() {
        read_and_answer(context, &accepted, peer)?
    } else {
        First::default()
    };
    Some(Opening {
        accepted,
        peer,
        admitted,
        first,
    })
}

/// `None` where nothing is left to do.
fn read_and_answer(context: &CallContext, accepted: &Accepted, peer: Peer) -> Option<First> {
    let mut first = First::default();
    match wire::read_first(accepted, &mut first.input) {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(first),
        Err(_) => return None,
    }
    let received = first.input.clone();
    let mut reader = RequestReader::new(context.settings.head_max.as_usize());
    // A mistake is answered where the connection is served, as all later ones are.
    let Ok(Some(request)) = reader.take(&mut first.input) else {
        first.input = received;
        return Some(first);
    };
    let closes = request.closes;
    match context.wants(&request, &mut first.output) {
        Wants::Nothing => {
            first.judged = context.begin(peer, request, Bytes::new(), &mut first.output);
        }
        // The call is made anew where its message is waited for.
        Wants::Body(_) => {
            first.input = received;
            return Some(first);
        }
        Wants::Refused => {}
    }
    first.closes = closes;
    while !first.output.is_empty() {
        match accepted.try_write(&[IoSlice::new(&first.output)]) {
            Ok(count) if count > 0 => drop(first.output.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(first),
            Ok(_) | Err(_) => return None,
        }
    }
    (first.judged.is_some() || !first.closes).then_some(first)
}

impl Opening {
    /// Registers the connection with the reactor of the present worker and serves it to its end.
    pub(super) async fn serve(self, context: Arc<CallContext>, shutdown: watch::Receiver<bool>) {
        let Self {
            accepted,
            peer,
            admitted,
            first,
        } = self;
        let (stream, client) = match accepted.open(peer).await {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!(target: "listeners", listener = "call", %peer, "not opened: {error}");
                return;
            }
        };
        let admitted = context.admission.behind(admitted, peer, client);
        let mut connection = Connection::new(stream, client, context, shutdown);
        connection.input = first.input;
        connection.output = first.output;
        let result = match admitted {
            Ok(_place) => connection.serve(first.judged, first.closes).await,
            Err(refusal) => {
                answer::write_failure(&mut connection.output, &refusal.to_string());
                connection.flush().await
            }
        };
        if let Err(error) = result {
            tracing::debug!(target: "call", peer = %client, "the connection broke off: {error}");
        }
    }
}
