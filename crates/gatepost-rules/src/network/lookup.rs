//! Many questions at once, by one socket, with one deadline for all.
//!
//! Questions go out before the local rules run and answers are fetched after them, so that the
//! network's time and ours are the same time. What was not answered by the deadline is as if it had
//! not been asked. Ids are random, and an answer counts only from the server that was asked and
//! with the question that was put (RFC 5452).

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::wire::{self, ANSWER_BYTES_MAX, Answer, Question};

/// Questions that one message may cause.
const QUESTIONS_MAX: usize = 400;
/// A question is put again after this part of the time there is, since UDP loses some.
const REPEAT_AFTER_PART: u32 = 3;

/// The questions of one message.
pub(super) struct Lookup {
    socket: UdpSocket,
    server: SocketAddr,
    deadline: Instant,
    /// When what is open is put once more; none when it was.
    repeat_at: Option<Instant>,
    random: RandomState,
    /// Questions put and not answered, by id.
    open: HashMap<u16, Question>,
    answers: HashMap<Question, Answer>,
    /// Names that cannot be asked for, and what was put already.
    put: usize,
}

impl Lookup {
    pub(super) fn start(server: SocketAddr, time: Duration) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        let now = Instant::now();
        Ok(Self {
            socket,
            server,
            deadline: now + time,
            repeat_at: Some(now + time / REPEAT_AFTER_PART),
            random: RandomState::new(),
            open: HashMap::new(),
            answers: HashMap::new(),
            put: 0,
        })
    }

    /// Puts a question that was not put before.
    pub(super) fn ask(&mut self, question: &Question) {
        let is_known =
            self.answers.contains_key(question) || self.open.values().any(|open| open == question);
        if is_known || self.put >= QUESTIONS_MAX {
            return;
        }
        let mut hasher = self.random.build_hasher();
        hasher.write_usize(self.put);
        let mut id = hasher.finish() as u16;
        while self.open.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        let Some(message) = question.message(id) else {
            return;
        };
        self.put += 1;
        // What is not sent is not answered either.
        let _ = self.socket.send(&message);
        self.open.insert(id, question.clone());
    }

    /// Waits for the next answers, up to the deadline; false when there are none to wait for.
    pub(super) fn collect(&mut self) -> bool {
        let mut buffer = [0; ANSWER_BYTES_MAX as usize];
        let mut has_answers = false;
        while !self.open.is_empty() {
            let now = Instant::now();
            if now >= self.deadline {
                return false;
            }
            self.repeat(now);
            let until = self.repeat_at.unwrap_or(self.deadline).min(self.deadline);
            let wait = until.saturating_duration_since(now);
            // What has come already is taken along; nobody waits for more.
            let wait = if has_answers { Duration::ZERO } else { wait };
            let wait = wait.max(Duration::from_millis(1));
            if self.socket.set_read_timeout(Some(wait)).is_err() {
                return false;
            }
            match self.socket.recv(&mut buffer) {
                Ok(length) => has_answers |= self.take(buffer.get(..length).unwrap_or_default()),
                // Nothing more is there.
                Err(_) if has_answers => return true,
                // Nothing came in time, or the server's port is closed: the deadline decides.
                Err(_) => {}
            }
        }
        has_answers
    }

    /// Puts what was not answered for a while once more.
    fn repeat(&mut self, now: Instant) {
        if self.repeat_at.is_none_or(|at| now < at) {
            return;
        }
        self.repeat_at = None;
        for (id, question) in &self.open {
            if let Some(message) = question.message(*id) {
                let _ = self.socket.send(&message);
            }
        }
    }

    /// Whether it is an answer to something that was put.
    fn take(&mut self, message: &[u8]) -> bool {
        let Some(reply) = wire::read(message) else {
            return false;
        };
        if self.open.get(&reply.id) != Some(&reply.question) {
            return false;
        }
        self.open.remove(&reply.id);
        let answer = if reply.is_truncated {
            let whole = self.by_tcp(reply.id, &reply.question);
            whole.unwrap_or(Answer::Failed)
        } else {
            reply.answer
        };
        self.answers.insert(reply.question, answer);
        true
    }

    /// Asks again by TCP, for an answer that does not fit into a datagram (RFC 7766).
    fn by_tcp(&self, id: u16, question: &Question) -> Option<Answer> {
        let left = || {
            let left = self.deadline.saturating_duration_since(Instant::now());
            (!left.is_zero()).then_some(left)
        };
        let mut stream = TcpStream::connect_timeout(&self.server, left()?).ok()?;
        stream.set_write_timeout(left()).ok()?;
        stream.set_read_timeout(left()).ok()?;
        let message = question.message(id)?;
        let length = u16::try_from(message.len()).ok()?;
        stream
            .write_all(&[&length.to_be_bytes()[..], &message].concat())
            .ok()?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).ok()?;
        let reply = wire::read(&message)?;
        (reply.id == id && reply.question == *question).then_some(reply.answer)
    }

    /// What was answered.
    pub(super) fn answer(&self, question: &Question) -> Option<&Answer> {
        self.answers.get(question)
    }
}
