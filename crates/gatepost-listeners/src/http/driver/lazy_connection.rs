//! A connection that is answered before its socket is registered with a reactor.
//!
//! A client that opens a connection for a single page costs five system calls: accept, read, write,
//! close, and the wait. Registering the socket, a task and timers are needed only for connections
//! that continue: those whose first request cannot be answered from memory, or that are kept alive.

use std::io;
use std::sync::Arc;

use gatepost_message::Peer;

use super::buffers::{READ_BYTES, WorkerBuffers, with_buffers};
use super::connection::{Http1Connection, push_peer};
use super::from_memory;
use super::head;
use super::sending::UnsentChunks;
use crate::acceptor::AcceptedSocket;
use crate::admission::{AdmissionRefusal, ConnectionPermit};
use crate::http::context::HttpContext;
use crate::lazy_stream::LazyStream;

/// A connection that is not registered with a reactor yet, with its input and responses so far.
pub(in crate::http) struct LazyConnection {
    stream: LazyStream,
    /// Bytes that were read and not answered yet.
    received: Vec<u8>,
    /// The part of the answer to the only request that the socket did not accept.
    unsent: UnsentChunks,
}

impl LazyConnection {
    /// Registers the connection with the reactor of the present worker and serves it to its end. A
    /// connection that is not admitted is closed without a reply: its protocol is not known yet.
    pub(in crate::http) async fn serve(
        self,
        peer: Peer,
        context: Arc<HttpContext>,
        admitted: Result<ConnectionPermit, AdmissionRefusal>,
    ) -> io::Result<()> {
        let (stream, client) = self.stream.into_stream().await?;
        let _place = context
            .limits
            .admission
            .admit_proxied(admitted, peer, client)
            .map_err(io::Error::other)?;
        Http1Connection::new(stream, client, context)
            .continuing(self.received, self.unsent)
            .run()
            .await;
        Ok(())
    }
}

/// The result of handling the first bytes.
enum FirstBytesOutcome {
    /// The only request is answered, or the client is gone.
    Done,
    /// The connection must parse these bytes.
    Received(Vec<u8>),
    /// The answer is longer than the socket accepts immediately.
    Unsent(UnsentChunks),
}

/// Answers the first request if it is the only one and can be answered immediately. Otherwise
/// returns the connection to be served.
pub(in crate::http) fn answer_at_once(
    context: &HttpContext,
    accepted: AcceptedSocket,
    peer: Peer,
) -> Option<LazyConnection> {
    let stream = LazyStream::new(accepted, peer);
    let first = if stream.is_plain() {
        with_buffers(|buffers| read_and_answer(context, &stream, peer, buffers))
    } else {
        FirstBytesOutcome::Received(Vec::new())
    };
    let (received, unsent) = match first {
        FirstBytesOutcome::Done => return None,
        FirstBytesOutcome::Received(bytes) => (bytes, UnsentChunks::new()),
        FirstBytesOutcome::Unsent(unsent) => (Vec::new(), unsent),
    };
    Some(LazyConnection {
        stream,
        received,
        unsent,
    })
}

fn read_and_answer(
    context: &HttpContext,
    stream: &LazyStream,
    peer: Peer,
    buffers: &mut WorkerBuffers,
) -> FirstBytesOutcome {
    let WorkerBuffers {
        input,
        output,
        peer_text,
    } = buffers;
    let received = match stream.try_read(input) {
        Ok(0) => return FirstBytesOutcome::Done,
        Ok(count) => input.get(..count).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return FirstBytesOutcome::Received(Vec::new());
        }
        Err(_) => return FirstBytesOutcome::Done,
    };
    let mut storage = head::field_storage();
    let head_max = context.settings.head_max.as_usize().min(READ_BYTES);
    let head = match head::parse(received, &mut storage, head_max) {
        // Bytes after it would make the kernel reset the connection when it is closed, which can
        // cost the client the answer: that connection lingers.
        Ok(Some((head, length))) if length == received.len() && !head.keep_alive => head,
        _ => return FirstBytesOutcome::Received(received.to_vec()),
    };
    peer_text.clear();
    push_peer(peer_text, peer);
    let is_answered = from_memory::cached_entry(context, &head)
        .is_some_and(|entry| from_memory::answer(context, peer_text, &head, &entry, output));
    if !is_answered {
        return FirstBytesOutcome::Received(received.to_vec());
    }
    let mut unsent = UnsentChunks::new();
    match output.write(&mut unsent, &mut &*stream) {
        Ok(()) if !unsent.is_empty() => FirstBytesOutcome::Unsent(unsent),
        Ok(()) | Err(_) => FirstBytesOutcome::Done,
    }
}
