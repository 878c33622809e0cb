//! What comes with a connection, answered before any reactor knows the socket.
//!
//! A client that asks for one page with a connection of its own costs five system calls here:
//! accept, read, write, close, and the wait. Registering the socket, a task and timers are for
//! connections that stay: those whose first request memory cannot answer, or that keep alive.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use gatepost_message::Peer;

use crate::acceptor::Accepted;
use crate::admission::{Admitted, Refusal};

use super::HttpContext;
use super::connection::{Connection, READ_BYTES, Worker, with_worker};
use super::head;
use super::quick;
use super::sending::Unsent;

/// A connection that goes on, with what it has done so far.
pub(super) struct Opening {
    accepted: Accepted,
    /// Read, and not answered yet.
    received: Vec<u8>,
    /// The answer to the only request, as far as the socket did not take it.
    unsent: Unsent,
}

impl Opening {
    /// Registers the connection with the reactor of the present worker and serves it to its end.
    /// One that was not admitted is closed without a word: it has spoken no protocol yet that
    /// could be answered.
    pub(super) async fn serve(
        self,
        peer: Peer,
        context: Arc<HttpContext>,
        admitted: Result<Admitted, Refusal>,
    ) -> io::Result<()> {
        let (stream, client) = self.accepted.open(peer).await?;
        let _place = context
            .admission
            .behind(admitted, peer, client)
            .map_err(io::Error::other)?;
        Connection::new(stream, client, context)
            .continuing(self.received, self.unsent)
            .run()
            .await;
        Ok(())
    }
}

/// What became of the first bytes.
enum First {
    /// The only request is answered, or the client is gone.
    Done,
    /// These bytes are to be parsed by the connection.
    Received(Vec<u8>),
    /// The answer is longer than what the socket takes at once.
    Unsent(Unsent),
}

/// Answers the first request where it is the only one and can be answered at once. Gives the
/// connection that is to be served on.
pub(super) fn answer(context: &HttpContext, accepted: Accepted, peer: Peer) -> Option<Opening> {
    let first = if accepted.is_plain(peer) {
        with_worker(|worker| read_and_answer(context, &accepted, peer, worker))
    } else {
        First::Received(Vec::new())
    };
    let (received, unsent) = match first {
        First::Done => return None,
        First::Received(bytes) => (bytes, Unsent::new()),
        First::Unsent(unsent) => (Vec::new(), unsent),
    };
    Some(Opening {
        accepted,
        received,
        unsent,
    })
}

fn read_and_answer(
    context: &HttpContext,
    accepted: &Accepted,
    peer: Peer,
    worker: &mut Worker,
) -> First {
    let Worker {
        input,
        output,
        peer_text,
    } = worker;
    let received = match accepted.try_read(input) {
        Ok(0) => return First::Done,
        Ok(count) => input.get(..count).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return First::Received(Vec::new());
        }
        Err(_) => return First::Done,
    };
    let mut storage = head::field_storage();
    let head_max = context.settings.head_max.as_usize().min(READ_BYTES);
    let head = match head::parse(received, &mut storage, head_max) {
        // Bytes behind it would make the kernel reset the connection when it is closed, which can
        // cost the client the answer: that connection lingers.
        Ok(Some((head, length))) if length == received.len() && !head.keep_alive => head,
        _ => return First::Received(received.to_vec()),
    };
    peer_text.clear();
    push_peer(peer_text, peer);
    if !quick::answer(context, peer_text, &head, output) {
        return First::Received(received.to_vec());
    }
    let mut unsent = Unsent::new();
    match output.write(&mut unsent, &mut &*accepted) {
        Ok(()) if !unsent.is_empty() => First::Unsent(unsent),
        Ok(()) | Err(_) => First::Done,
    }
}

/// The peer as access logs name it.
pub(super) fn push_peer(text: &mut String, peer: Peer) {
    match peer {
        // Writing to a string cannot fail.
        Peer::Address(address) => drop(write!(text, "{}", address.ip())),
        Peer::Local => text.push_str("unix:"),
    }
}
