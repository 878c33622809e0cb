//! UDP sockets, each connected to one server and shared by many questions.
//!
//! A peer that cannot see our datagrams must guess the socket's port and the question's id to forge
//! an answer (RFC 5452, section 9.2). The system chooses a port at random, so a socket is replaced
//! by a new one after [`QUESTIONS_PER_PORT`] questions; it is closed when the last of its questions
//! has ended.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::wire::{self, ANSWER_BYTES_MAX, DnsResponse, Question};

/// Number of questions that are sent from one socket.
const QUESTIONS_PER_PORT: usize = 256;

/// The sockets for new questions, by server.
#[derive(Default)]
pub(crate) struct Ports(Mutex<HashMap<SocketAddr, (Arc<Port>, usize)>>);

impl Ports {
    /// A socket to this server. Must be called on the resolver's runtime.
    pub(crate) fn get(&self, server: SocketAddr) -> io::Result<Arc<Port>> {
        let mut ports = self.0.lock();
        if let Some((port, questions)) = ports.get_mut(&server)
            && *questions < QUESTIONS_PER_PORT
        {
            *questions += 1;
            return Ok(Arc::clone(port));
        }
        let port = Arc::new(Port::open(server)?);
        ports.insert(server, (Arc::clone(&port), 1));
        Ok(port)
    }
}

type WaitingQuestions = HashMap<u16, (Question, oneshot::Sender<DnsResponse>)>;

/// A socket, and the questions that were sent from it and are not answered.
pub(crate) struct Port {
    socket: Arc<UdpSocket>,
    waiting: Arc<Mutex<WaitingQuestions>>,
    receiver: AbortHandle,
}

impl Port {
    fn open(server: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = std::net::UdpSocket::bind(any)?;
        // The system drops datagrams of all other senders.
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let waiting = Arc::default();
        let receiver = gatepost_tasks::spawn(receive(Arc::clone(&socket), Arc::clone(&waiting)));
        Ok(Self {
            socket,
            waiting,
            receiver: receiver.abort_handle(),
        })
    }

    /// Chooses an id for a question and waits for its answer until the id is dropped.
    pub(crate) fn register(
        self: &Arc<Self>,
        question: &Question,
    ) -> Option<(ReservedId, oneshot::Receiver<DnsResponse>)> {
        let mut random = [0; 2];
        getrandom::fill(&mut random).ok()?;
        let mut id = u16::from_ne_bytes(random);
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        // There are far fewer questions than ids.
        while waiting.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        waiting.insert(id, (question.clone(), sender));
        let port = Arc::clone(self);
        Some((ReservedId { id, port }, receiver))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

/// An id that is reserved for a question for as long as this value exists.
pub(crate) struct ReservedId {
    pub(crate) id: u16,
    port: Arc<Port>,
}

impl ReservedId {
    /// Sends the question's message. A failure to send is treated like a datagram that was lost.
    pub(crate) async fn send(&self, message: &[u8]) {
        let _ = self.port.socket.send(message).await;
    }
}

impl Drop for ReservedId {
    fn drop(&mut self) {
        self.port.waiting.lock().remove(&self.id);
    }
}

async fn receive(socket: Arc<UdpSocket>, waiting: Arc<Mutex<WaitingQuestions>>) {
    let mut buffer = [0; ANSWER_BYTES_MAX as usize];
    loop {
        // An error means that the server's port is closed. It may open before the deadline.
        let Ok(length) = socket.recv(&mut buffer).await else {
            continue;
        };
        let message = buffer.get(..length).unwrap_or_default();
        let Some(reply) = wire::read(message) else {
            continue;
        };
        let mut waiting = waiting.lock();
        // The id alone is not enough (RFC 5452, section 9.1).
        if waiting
            .get(&reply.id)
            .is_some_and(|(question, _)| *question == reply.question)
            && let Some((_, sender)) = waiting.remove(&reply.id)
        {
            // Fails if the receiver has been dropped.
            let _ = sender.send(reply);
        }
    }
}
