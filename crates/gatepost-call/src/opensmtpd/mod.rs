//! A filter of OpenSMTPD, which starts it once and communicates line by line: every message is
//! judged when it is complete and before smtpd answers its sender, so a refusal is part of the SMTP
//! dialogue and no bounce is needed.
//! smtpd holds a message's lines until the filter returns them. So they are collected up to the
//! final dot, judged by a thread per message, returned with the procedures' changes, and the
//! verdict answers the following `commit`.
//!
//! Invariants: smtpd ends when a filter does, so only the end of its input ends this filter; every
//! line that is held back is answered, regardless of the outcome of the call; a session's verdict
//! is recorded before its final dot is returned, because smtpd then asks for it.

mod event;
mod message;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::arguments::CallOptions;
use crate::envelope::ReportedEnvelope;
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

/// One client of smtpd.
#[derive(Default)]
struct FilterSession {
    envelope: ReportedEnvelope,
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
                order,
            } => {
                let session = sessions.entry(session.to_vec()).or_default();
                event::learn(&mut session.envelope, name, rest, order);
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
    /// Stores a line of the message, without the dot that SMTP puts before a dot.
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

    /// The message is complete: another thread calls the server, records the decision and returns
    /// the lines.
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
                JudgedMessage::judge(&arguments, &envelope, message)
            };
            let lines = judged.lines(&head);
            *locked(&noted) = Some(judged.decision);
            write(&thread_output, &lines)
        };
        // smtpd bounds its sessions, and each has one message at a time.
        match thread::Builder::new().spawn(finish) {
            Ok(_) => Ok(()),
            // Without a thread the message is not judged, and the answer to `commit` reports this.
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

/// Writes whole lines at once, since threads share the output.
fn write(output: &Mutex<impl Write>, lines: &[u8]) -> io::Result<()> {
    let mut output = locked(output);
    output.write_all(lines)?;
    output.flush()
}

/// A panic cannot leave the guarded value inconsistent: it is always replaced as a whole.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
