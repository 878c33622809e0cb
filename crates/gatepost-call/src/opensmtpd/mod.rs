//! A filter of OpenSMTPD's, which starts it once and talks to it line by line: every message is
//! judged when it is whole and before smtpd answers its sender, so a refusal is said in the SMTP
//! dialogue and nothing bounces.
//!
//! smtpd holds a message's lines until the filter hands them back. So they are gathered up to the
//! final dot, judged by a thread of the message's own, handed back as procedures changed them, and
//! the verdict answers the `commit` that follows.
//!
//! Invariants: smtpd ends when a filter does, so nothing but the end of its own input ends this
//! one; every line that is held back is answered, whatever happens to the call; a session's verdict
//! is noted before its final dot is handed back, because smtpd then asks for it.

mod event;
mod message;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::arguments::CallOptions;
use crate::envelope::Envelope;
use event::FilterEvent;
use message::{FilterDecision, JudgedMessage};

/// The reports to subscribe to: clients and envelopes.
const REPORTS: [&str; 9] = [
    "link-connect",
    "link-identify",
    "link-auth",
    "link-disconnect",
    "tx-begin",
    "tx-mail",
    "tx-rcpt",
    "tx-reset",
    "tx-rollback",
];
const PHASES: [&str; 2] = ["data-line", "commit"];
/// A longer message is refused; smtpd's own `max-message-size` is far below it.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// One client of smtpd's.
#[derive(Default)]
struct FilterSession {
    envelope: Envelope,
    /// The message so far, each line with CR LF.
    message: Vec<u8>,
    is_too_long: bool,
    decision: Arc<Mutex<Option<FilterDecision>>>,
}

/// Serves until smtpd closes `input`.
pub(crate) fn serve(
    arguments: &Arc<CallOptions>,
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let output = Arc::new(Mutex::new(output));
    let mut sessions: HashMap<Vec<u8>, FilterSession> = HashMap::new();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        match FilterEvent::parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
            FilterEvent::Ready => write(&output, registration().as_bytes())?,
            FilterEvent::Report {
                name: b"link-disconnect",
                session,
                ..
            } => drop(sessions.remove(session)),
            FilterEvent::Report {
                name,
                session,
                rest,
            } => {
                let session = sessions.entry(session.to_vec()).or_default();
                event::learn(&mut session.envelope, name, rest);
            }
            FilterEvent::Line {
                session,
                token,
                line: b".",
            } => {
                let head = answer_head("filter-dataline", session, token);
                let session = sessions.entry(session.to_vec()).or_default();
                session.judge(arguments, head, &output)?;
            }
            FilterEvent::Line { session, line, .. } => {
                sessions.entry(session.to_vec()).or_default().gather(line);
            }
            FilterEvent::Commit { session, token } => {
                let mut answer = answer_head("filter-result", session, token);
                let decision = sessions.get(session).and_then(FilterSession::take_decision);
                answer.extend_from_slice(message::result(decision).as_bytes());
                answer.push(b'\n');
                write(&output, &answer)?;
            }
            FilterEvent::Other => {}
        }
        line.clear();
    }
    Ok(())
}

impl FilterSession {
    /// Keeps a line of the message, without the dot that SMTP puts before a dot.
    fn gather(&mut self, line: &[u8]) {
        if self.message.len() + line.len() > MESSAGE_BYTES_MAX {
            self.is_too_long = true;
            self.message = Vec::new();
        }
        if !self.is_too_long {
            let line = line.strip_prefix(b".").unwrap_or(line);
            self.message.extend_from_slice(line);
            self.message.extend_from_slice(b"\r\n");
        }
    }

    /// The message is whole: another thread asks, notes the decision and hands the lines back.
    fn judge<W: Write + Send + 'static>(
        &mut self,
        arguments: &Arc<CallOptions>,
        head: Vec<u8>,
        output: &Arc<Mutex<W>>,
    ) -> io::Result<()> {
        let unjudged = [&head[..], b".\n"].concat();
        let message = std::mem::take(&mut self.message);
        let is_too_long = std::mem::take(&mut self.is_too_long);
        let envelope = self.envelope.clone();
        let noted = Arc::clone(&self.decision);
        let (arguments, thread_output) = (Arc::clone(arguments), Arc::clone(output));
        let finish = move || {
            let judged = if is_too_long {
                JudgedMessage::too_long()
            } else {
                JudgedMessage::ask(&arguments, &envelope, message)
            };
            let lines = judged.lines(&head);
            *locked(&noted) = Some(judged.decision);
            write(&thread_output, &lines)
        };
        // smtpd bounds its sessions, and each has one message at a time.
        match thread::Builder::new().spawn(finish) {
            Ok(_) => Ok(()),
            // Without a thread it is not judged, and the commit says so.
            Err(_) => write(output, &unjudged),
        }
    }

    fn take_decision(&self) -> Option<FilterDecision> {
        locked(&self.decision).take()
    }
}

fn registration() -> String {
    let mut text = String::new();
    for (kind, names) in [("report", &REPORTS[..]), ("filter", &PHASES[..])] {
        for name in names {
            text.push_str("register|");
            text.push_str(kind);
            text.push_str("|smtp-in|");
            text.push_str(name);
            text.push('\n');
        }
    }
    text.push_str("register|ready\n");
    text
}

/// `KIND|SESSION|TOKEN|`.
fn answer_head(kind: &str, session: &[u8], token: &[u8]) -> Vec<u8> {
    [kind.as_bytes(), b"|", session, b"|", token, b"|"].concat()
}

/// Writes whole lines at once: threads share the output.
fn write(output: &Mutex<impl Write>, lines: &[u8]) -> io::Result<()> {
    let mut output = locked(output);
    output.write_all(lines)?;
    output.flush()
}

/// A thread that panicked has left nothing half done: what is guarded is replaced whole.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
