//! The conversation: greeting, the commands of a maildrop, and the update at QUIT; `login` handles
//! the state between them.

use std::io;

use bytes::BytesMut;
use gatepost_bans::Offence;
use gatepost_message::Peer;
use gatepost_store::StoreError;
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::command::{self, Pop3Command};
use super::maildrop::{self, Maildrop};
use super::{MaildropLock, Pop3Context};
use crate::foreign_protocol;
use crate::service::NewConnection;
use crate::stream::Stream;
use crate::wire;

/// Serves one client until it quits, errs too often or is silent for too long.
pub(super) async fn serve(arrival: NewConnection, context: &Pop3Context) -> io::Result<()> {
    let is_early = foreign_protocol::spoke_before_greeting(&arrival.stream);
    let mut connection = Pop3Connection {
        stream: Some(arrival.stream),
        login_deadline: Some(Instant::now() + context.settings.login_time_max.duration()),
        peer: arrival.peer,
        context,
        shutdown: arrival.shutdown,
        input: BytesMut::new(),
        output: Vec::new(),
        errors: 0,
    };
    let outcome = match arrival.admitted {
        Ok(_place) if is_early => {
            connection.note_fault();
            connection.push_reply("-ERR commands came before the greeting; closing the connection");
            Ok(())
        }
        Ok(_place) => {
            connection.push_reply("+OK Gatepost");
            connection.converse().await
        }
        Err(refusal) => {
            connection.push_reply(&format!("-ERR [SYS/TEMP] {refusal}"));
            Ok(())
        }
    };
    // Replies are sent even if the conversation ended with an error.
    connection.flush().await?;
    outcome
}

pub(super) struct Pop3Connection<'a> {
    /// `None` only while TLS is negotiated.
    pub(super) stream: Option<Stream>,
    /// The deadline for the login, however many commands the client sends.
    login_deadline: Option<Instant>,
    pub(super) peer: Peer,
    pub(super) context: &'a Pop3Context,
    shutdown: watch::Receiver<bool>,
    pub(super) input: BytesMut,
    output: Vec<u8>,
    errors: usize,
}

/// The state of the session (RFC 1939, section 3).
enum Pop3State {
    /// AUTHORIZATION, with the name that USER gave.
    Login { user: Option<String> },
    /// TRANSACTION.
    Open {
        maildrop: Maildrop,
        lock: MaildropLock,
    },
}

const NO_MESSAGE: &str = "-ERR no such message";
/// Answers to pipelined commands are written together up to this size: a few bytes can request a
/// whole message, and a client that requests many must read them.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

impl Pop3Connection<'_> {
    async fn converse(&mut self) -> io::Result<()> {
        let mut state = Pop3State::Login { user: None };
        while let Some(line) = self.line().await? {
            if foreign_protocol::is_http(&line) {
                self.note_fault();
                self.push_reply("-ERR this is not HTTP; closing the connection");
                return Ok(());
            }
            match command::parse(&line) {
                Ok(Pop3Command::Quit) => return self.quit(&mut state).await,
                Ok(command) => self.act(command, &mut state).await?,
                Err(mistake) => self.refuse(&format!("-ERR {mistake}")),
            }
            if self.errors > self.context.settings.errors_max {
                self.note_fault();
                self.push_reply("-ERR too many errors; closing the connection");
                return Ok(());
            }
            if self.output.len() > OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn note_fault(&self) {
        let admission = &self.context.limits.admission;
        admission.offended(self.peer, Offence::ProtocolFault);
    }

    async fn act(&mut self, command: Pop3Command, state: &mut Pop3State) -> io::Result<()> {
        match state {
            Pop3State::Login { user } => {
                let name = user.take();
                let opened = self.authorize(command, name, user).await?;
                if let Some((maildrop, lock)) = opened {
                    self.login_deadline = None;
                    let (count, size) = maildrop.sum();
                    self.push_reply(&format!("+OK {count} messages, {size} bytes"));
                    *state = Pop3State::Open { maildrop, lock };
                }
            }
            Pop3State::Open { maildrop, .. } => self.transact(command, maildrop).await,
        }
        Ok(())
    }

    /// A command within the maildrop.
    async fn transact(&mut self, command: Pop3Command, maildrop: &mut Maildrop) {
        match command {
            Pop3Command::Stat => {
                let (count, size) = maildrop.sum();
                self.push_reply(&format!("+OK {count} {size}"));
            }
            Pop3Command::List(number) => {
                self.list(maildrop, number, |entry| entry.size.to_string());
            }
            Pop3Command::Uidl(number) => self.list(maildrop, number, |entry| entry.id.to_string()),
            Pop3Command::Retr(number) => self.message(maildrop, number, None).await,
            Pop3Command::Top { number, lines } => self.message(maildrop, number, Some(lines)).await,
            Pop3Command::Dele(_) if maildrop.is_read_only() => {
                self.refuse("-ERR [SYS/PERM] the quarantine is read-only");
            }
            Pop3Command::Dele(number) if maildrop.delete(number) => self.push_reply("+OK"),
            Pop3Command::Dele(_) => self.refuse(NO_MESSAGE),
            Pop3Command::Reset => {
                maildrop.reset();
                self.push_reply("+OK");
            }
            Pop3Command::Noop => self.push_reply("+OK"),
            Pop3Command::Capabilities => self.capabilities(),
            _ => self.refuse("-ERR you are logged in"),
        }
    }

    fn list(
        &mut self,
        maildrop: &Maildrop,
        number: Option<usize>,
        value: impl Fn(&maildrop::MaildropEntry) -> String,
    ) {
        if let Some(number) = number {
            match maildrop.entry(number) {
                Some(entry) => self.push_reply(&format!("+OK {number} {}", value(entry))),
                None => self.refuse(NO_MESSAGE),
            }
            return;
        }
        self.push_reply("+OK");
        for (number, entry) in maildrop.entries() {
            self.push_reply(&format!("{number} {}", value(entry)));
        }
        self.push_reply(".");
    }

    /// Sends a message, or its head and a number of lines of its body.
    async fn message(&mut self, maildrop: &Maildrop, number: usize, lines: Option<usize>) {
        let Some(id) = maildrop.entry(number).map(|entry| entry.id) else {
            self.refuse(NO_MESSAGE);
            return;
        };
        let source = maildrop.source().clone();
        match blocking(move || source.content(id)).await {
            Ok(Some(content)) => {
                self.push_reply("+OK");
                write_message(&mut self.output, &content, lines);
            }
            Ok(None) => self.refuse("-ERR [SYS/TEMP] the message has been deleted"),
            Err(error) => self.failed(&error),
        }
    }

    /// RFC 1939, section 6: only a client that quits has its marked messages removed.
    async fn quit(&mut self, state: &mut Pop3State) -> io::Result<()> {
        if let Pop3State::Open { maildrop, lock } = state {
            let updated = maildrop.update().await;
            lock.release().await;
            if let Err(error) = updated {
                tracing::error!(target: "pop3", %error, "messages could not be removed");
                self.push_reply("-ERR [SYS/TEMP] some messages could not be removed");
                return Ok(());
            }
        }
        self.push_reply("+OK good bye");
        Ok(())
    }

    pub(super) fn push_reply(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
        self.output.extend_from_slice(b"\r\n");
    }

    pub(super) fn refuse(&mut self, text: &str) {
        self.errors += 1;
        self.push_reply(text);
    }

    pub(super) fn failed(&mut self, error: &StoreError) {
        tracing::error!(target: "pop3", %error, "a mailbox could not be read");
        self.refuse("-ERR [SYS/TEMP] the mailbox cannot be read now");
    }

    /// The next line, without its line end; `None` at the end, or when the server ends.
    pub(super) async fn line(&mut self) -> io::Result<Option<BytesMut>> {
        let limit = self.context.settings.command_max.as_usize();
        let mut deadline = Instant::now() + self.context.settings.idle_time_max.duration();
        if let Some(login) = self.login_deadline {
            deadline = deadline.min(login);
        }
        loop {
            if let Some(end) = memchr(b'\n', &self.input) {
                let mut line = self.input.split_to(end + 1);
                // A password may end with a blank; only the line end is removed.
                let is_whole = line.ends_with(b"\r\n");
                line.truncate(end - usize::from(is_whole));
                return Ok(Some(line));
            }
            if self.input.len() > limit {
                self.push_reply("-ERR the line is too long");
                return Ok(None);
            }
            self.flush().await?;
            let Some(stream) = &self.stream else {
                return Ok(None);
            };
            let read = tokio::select! {
                biased;
                read = wire::read(stream, &mut self.input, deadline) => read,
                _ = self.shutdown.wait_for(|&down| down) => return Ok(None),
            };
            match read {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if let Some(stream) = self.stream.as_ref().filter(|_| !self.output.is_empty()) {
            let deadline = Instant::now() + self.context.settings.idle_time_max.duration();
            wire::write(stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }
}

/// Reads from the disk on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let task = tokio::task::spawn_blocking(read).await;
    task.unwrap_or(Err(StoreError::Closed))
}

/// Writes a message with dots at the start of lines doubled, CR LF after each line, and the end
/// mark. `lines` limits the lines of the body.
fn write_message(output: &mut Vec<u8>, message: &[u8], lines: Option<usize>) {
    let mut left = None;
    for line in message.split_inclusive(|&byte| byte == b'\n') {
        if left == Some(0) {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.starts_with(b".") {
            output.push(b'.');
        }
        output.extend_from_slice(text);
        output.extend_from_slice(b"\r\n");
        left = match left {
            Some(count) => Some(count - 1),
            // The empty line ends the head.
            None if text.is_empty() => lines,
            None => None,
        };
    }
    output.extend_from_slice(b".\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(message: &str, lines: Option<usize>) -> String {
        let mut output = Vec::new();
        write_message(&mut output, message.as_bytes(), lines);
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn messages_are_dot_stuffed_and_truncated_on_request() {
        let message = "A: b\r\n\r\n.one\ntwo\r\nthree";
        assert_eq!(
            written(message, None),
            "A: b\r\n\r\n..one\r\ntwo\r\nthree\r\n.\r\n"
        );
        assert_eq!(written(message, Some(0)), "A: b\r\n\r\n.\r\n");
        assert_eq!(
            written(message, Some(2)),
            "A: b\r\n\r\n..one\r\ntwo\r\n.\r\n"
        );
        assert_eq!(written("A: b\r\n", Some(9)), "A: b\r\n.\r\n");
        assert_eq!(written("", None), ".\r\n");
    }
}
