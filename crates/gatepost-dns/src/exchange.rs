//! One question to one server: over UDP, sent again until there is an answer, then over TCP if the
//! answer did not fit.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::joined::{JoinedQuestions, QuestionRole};
use crate::port::Ports;
use crate::wire::{self, DnsResponse, Question, QuestionOutcome, Resolved, ServerFailure};

/// A question is sent again after this fraction of the available time, then after twice as long.
const RESEND_AFTER_PART: u32 = 3;
/// Number of simultaneous TCP connections; further truncated answers wait for a free one.
const CONNECTIONS_MAX: usize = 32;

/// The sockets of a resolver.
pub(crate) struct DnsTransport {
    joined: JoinedQuestions,
    ports: Ports,
    connections: Semaphore,
}

impl Default for DnsTransport {
    fn default() -> Self {
        Self {
            joined: JoinedQuestions::default(),
            ports: Ports::default(),
            connections: Semaphore::new(CONNECTIONS_MAX),
        }
    }
}

impl DnsTransport {
    /// The server's response, if there is one before `until`.
    pub(crate) async fn query(
        &self,
        server: SocketAddr,
        question: &Question,
        until: Instant,
    ) -> Option<Resolved> {
        loop {
            match self.joined.join(server, question) {
                QuestionRole::First(first) => {
                    let resolved = self.send(server, question, until).await;
                    first.end(resolved.as_ref());
                    return resolved;
                }
                QuestionRole::Joined(answer) => match timeout_at(until, answer).await {
                    Ok(Ok(resolved)) => return Some(resolved),
                    // The first one has ended without an answer; this one may have more time.
                    Ok(Err(_)) if Instant::now() < until => {}
                    Ok(Err(_)) | Err(_) => return None,
                },
            }
        }
    }

    async fn send(
        &self,
        server: SocketAddr,
        question: &Question,
        until: Instant,
    ) -> Option<Resolved> {
        let port = self.ports.get(server).ok()?;
        let (registered, mut answered) = port.register(question)?;
        drop(port);
        let message = question.message(registered.id)?;
        let time = until.saturating_duration_since(Instant::now());
        let mut wait = (time / RESEND_AFTER_PART).max(Duration::from_millis(1));
        let reply = loop {
            registered.send(&message).await;
            let again_at = (Instant::now() + wait).min(until);
            match timeout_at(again_at, &mut answered).await {
                Ok(reply) => break reply.ok()?,
                Err(_) if Instant::now() >= until => return None,
                Err(_) => wait *= 2,
            }
        };
        if !reply.is_truncated {
            return Some(reply.resolved);
        }
        let by_tcp = self.query_by_tcp(server, &message, &reply);
        let whole = timeout_at(until, by_tcp).await.ok().flatten();
        Some(whole.unwrap_or(Resolved {
            answer: QuestionOutcome::Failed(ServerFailure::Incomplete),
            lifetime: Duration::ZERO,
            is_authentic: false,
        }))
    }

    /// Asks again over TCP, where each message is preceded by its length in two bytes (RFC 7766,
    /// section 8).
    async fn query_by_tcp(
        &self,
        server: SocketAddr,
        message: &[u8],
        truncated: &DnsResponse,
    ) -> Option<Resolved> {
        let _permit = self.connections.acquire().await.ok()?;
        let mut stream = TcpStream::connect(server).await.ok()?;
        let length = u16::try_from(message.len()).ok()?;
        let framed = [&length.to_be_bytes()[..], message].concat();
        stream.write_all(&framed).await.ok()?;
        let length = stream.read_u16().await.ok()?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await.ok()?;
        let reply = wire::read(&answer)?;
        let is_ours = reply.id == truncated.id && reply.question == truncated.question;
        is_ours.then_some(reply.resolved)
    }
}
