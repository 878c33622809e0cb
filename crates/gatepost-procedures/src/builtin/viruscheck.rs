//! `/viruscheck`: hands a message to clamd, or to whatever speaks its INSTREAM command, and
//! refuses what it finds something in.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gatepost_message::{Action, Verdict};
use gatepost_settings::{Bind, ByteSize, Period};
use serde::{Deserialize, Serialize};

use crate::procedure::{Needs, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure};

/// clamd reads the message in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// A longer answer is none.
const ANSWER_BYTES_MAX: usize = 4096;

/// `[procedure."/viruscheck"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ViruscheckSettings {
    /// Where clamd listens: an address and port, or `unix:/path`.
    pub server: Bind,
    /// How long a check may take, all in all.
    pub timeout: Period,
    /// What becomes of a message in which something was found.
    #[serde(with = "crate::text_values")]
    pub action: Action,
    /// What becomes of a message that could not be checked: clamd is away, slow or fails.
    #[serde(with = "crate::text_values")]
    pub on_error: Action,
    /// Larger messages are not sent to clamd, which has a limit of its own (`StreamMaxLength`).
    pub size_max: ByteSize,
    /// What becomes of those.
    #[serde(with = "crate::text_values")]
    pub on_oversize: Action,
}

impl Default for ViruscheckSettings {
    fn default() -> Self {
        Self {
            server: Bind::Unix("/run/clamav/clamd.ctl".into()),
            timeout: Period::seconds(30),
            action: Action::Reject,
            on_error: Action::Defer,
            size_max: ByteSize::megabytes(25),
            on_oversize: Action::Accept,
        }
    }
}

pub(crate) struct Viruscheck(pub(crate) ViruscheckSettings);

impl Procedure for Viruscheck {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        let settings = &self.0;
        let body = &call.message.body;
        if body.len() as u64 > settings.size_max.bytes() {
            let reason = format!(
                "larger than the {} that are checked for viruses",
                settings.size_max
            );
            return Ok(Verdict::new(settings.on_oversize, reason).into());
        }
        let deadline = Instant::now() + settings.timeout.duration();
        match ask(&settings.server, body, deadline) {
            Ok(None) => Ok(Verdict::accept().into()),
            Ok(Some(name)) => {
                let mut verdict = Verdict::new(settings.action, format!("virus found: {name}"));
                verdict.tags.push(("X-Virus".to_owned(), name));
                Ok(verdict.into())
            }
            Err(error) => Err(ProcedureFailure(format!(
                "clamd at {}: {error}",
                settings.server
            ))),
        }
    }

    fn on_failure(&self) -> Action {
        self.0.on_error
    }
}

/// The name of what was found, if anything.
fn ask(server: &Bind, body: &[u8], deadline: Instant) -> io::Result<Option<String>> {
    let mut stream = ClamdStream::connect(server, deadline)?;
    let answer = converse(&mut stream, body, deadline)?;
    read(&answer)
}

fn converse(stream: &mut ClamdStream, body: &[u8], deadline: Instant) -> io::Result<String> {
    // "z": commands and answers end with NUL.
    let sent = stream.write(b"zINSTREAM\0", deadline).and_then(|()| {
        for piece in body.chunks(PIECE_BYTES) {
            stream.write(&(piece.len() as u32).to_be_bytes(), deadline)?;
            stream.write(piece, deadline)?;
        }
        stream.write(&0_u32.to_be_bytes(), deadline)
    });
    // clamd closes in the middle of what is too large, and has said so before.
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let count = match stream.read(&mut buffer, deadline) {
            Ok(count) => count,
            Err(error) if answer.is_empty() => return Err(sent.err().unwrap_or(error)),
            Err(_) => 0,
        };
        answer.extend_from_slice(&buffer[..count]);
        if count == 0 || answer.contains(&0) || answer.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    if answer.is_empty() {
        sent?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&answer)
        .trim_end_matches('\0')
        .trim()
        .to_owned())
}

/// `stream: OK`, `stream: NAME FOUND`, `… ERROR`.
fn read(answer: &str) -> io::Result<Option<String>> {
    let result = answer.strip_prefix("stream: ").unwrap_or(answer);
    if result == "OK" {
        return Ok(None);
    }
    match result.strip_suffix(" FOUND") {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(io::Error::other(format!("it says {answer:?}"))),
    }
}

enum ClamdStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ClamdStream {
    fn connect(server: &Bind, deadline: Instant) -> io::Result<Self> {
        match server {
            Bind::Tcp(address) => {
                let address: SocketAddr = *address;
                TcpStream::connect_timeout(&address, left(deadline)?).map(Self::Tcp)
            }
            Bind::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    fn write(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let left = Some(left(deadline)?);
        match self {
            Self::Tcp(stream) => stream
                .set_write_timeout(left)
                .and_then(|()| stream.write_all(bytes)),
            Self::Unix(stream) => stream
                .set_write_timeout(left)
                .and_then(|()| stream.write_all(bytes)),
        }
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let left = Some(left(deadline)?);
        match self {
            Self::Tcp(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.read(buffer)),
            Self::Unix(stream) => stream
                .set_read_timeout(left)
                .and_then(|()| stream.read(buffer)),
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(read("stream: OK").ok(), Some(None));
        let found = read("stream: Win.Test.EICAR_HDB-1 FOUND").ok();
        assert_eq!(found, Some(Some("Win.Test.EICAR_HDB-1".to_owned())));
        assert!(read("INSTREAM size limit exceeded. ERROR").is_err());
        assert!(read("").is_err());
    }
}
