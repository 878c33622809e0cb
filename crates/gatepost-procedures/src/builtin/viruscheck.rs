//! `/viruscheck`: sends a message to clamd, or to another server with its INSTREAM command, and
//! refuses infected messages.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gatepost_message::{Action, Verdict};
use gatepost_settings::{Bind, ByteSize, Period};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::host::{Connections, PendingAnswer, Resources};
use crate::procedure::{
    Needs, PendingJudgement, Procedure, ProcedureCall, ProcedureFailure, ProcedureResult, Wake,
};

/// clamd reads the message in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest valid answer.
const ANSWER_BYTES_MAX: usize = 4096;

/// `[procedure."/viruscheck"]`
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ViruscheckSettings {
    /// The address of clamd: an address and port, or `unix:/path`.
    pub server: Bind,
    /// The time limit of a check.
    pub timeout: Period,
    /// Connections to clamd at one time; further messages wait for one of them. clamd has its own
    /// limit (`MaxThreads`).
    pub connections_max: usize,
    /// The action for an infected message.
    #[serde(with = "crate::text_values")]
    pub action: Action,
    /// The action for a message that could not be checked: clamd is unreachable, slow or fails.
    #[serde(with = "crate::text_values")]
    pub on_error: Action,
    /// Larger messages are not sent to clamd, which has a limit of its own (`StreamMaxLength`).
    pub size_max: ByteSize,
    /// The action for larger messages.
    #[serde(with = "crate::text_values")]
    pub on_oversize: Action,
}

impl Default for ViruscheckSettings {
    fn default() -> Self {
        Self {
            server: Bind::Unix("/run/clamav/clamd.ctl".into()),
            timeout: Period::seconds(30),
            connections_max: 32,
            action: Action::Reject,
            on_error: Action::Defer,
            size_max: ByteSize::megabytes(25),
            on_oversize: Action::Accept,
        }
    }
}

pub(crate) struct Viruscheck {
    settings: Arc<ViruscheckSettings>,
    connections: Connections,
    resources: Arc<Resources>,
}

impl Viruscheck {
    pub(crate) fn new(settings: ViruscheckSettings, resources: &Arc<Resources>) -> Self {
        Self {
            connections: Connections::new(settings.connections_max),
            settings: Arc::new(settings),
            resources: Arc::clone(resources),
        }
    }
}

impl Procedure for Viruscheck {
    fn needs(&self) -> Needs {
        Needs::Whole
    }

    fn start(&self, call: &ProcedureCall<'_>) -> ProcedureResult {
        let settings = &self.settings;
        let body = &call.message.body;
        if body.len() as u64 > settings.size_max.bytes() {
            let reason = format!(
                "larger than the {} that are checked for viruses",
                settings.size_max
            );
            return ProcedureResult::Done(Ok(Verdict::new(settings.on_oversize, reason).into()));
        }
        let time_max = settings.timeout.duration();
        let time_max = call.time_max.map_or(time_max, |left| left.min(time_max));
        let answer = scan(
            settings.server.clone(),
            self.connections.clone(),
            body.clone(),
        );
        let network = &self.resources.network;
        ProcedureResult::Pending(Box::new(PendingCheck {
            answer: network.start(Instant::now() + time_max, answer),
            settings: Arc::clone(settings),
        }))
    }

    fn on_failure(&self) -> Action {
        self.settings.on_error
    }
}

/// A check that waits for clamd.
struct PendingCheck {
    answer: PendingAnswer<io::Result<Option<String>>>,
    settings: Arc<ViruscheckSettings>,
}

impl PendingJudgement for PendingCheck {
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        self.answer.notifier()
    }

    fn resume(self: Box<Self>) -> ProcedureResult {
        let settings = &self.settings;
        let timed_out = || Err(io::ErrorKind::TimedOut.into());
        ProcedureResult::Done(match self.answer.take().unwrap_or_else(timed_out) {
            Ok(None) => Ok(Verdict::accept().into()),
            Ok(Some(name)) => {
                let mut verdict = Verdict::new(settings.action, format!("virus found: {name}"));
                verdict.tags.push(("X-Virus".to_owned(), name));
                Ok(verdict.into())
            }
            Err(error) => {
                let server = &settings.server;
                Err(ProcedureFailure(format!("clamd at {server}: {error}")))
            }
        })
    }
}

/// The name of the virus found, if any.
async fn scan(server: Bind, connections: Connections, body: Bytes) -> io::Result<Option<String>> {
    let _permit = connections.permit().await?;
    let answer = match server {
        Bind::Tcp(address) => converse(TcpStream::connect(address).await?, &body).await?,
        Bind::Unix(path) => converse(UnixStream::connect(path).await?, &body).await?,
    };
    read(&answer)
}

async fn converse<S>(mut stream: S, body: &[u8]) -> io::Result<String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let sent = send(&mut stream, body).await;
    // clamd closes the connection during a message that is too large, after it has reported that.
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let count = match stream.read(&mut buffer).await {
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

async fn send(stream: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> io::Result<()> {
    // "z": commands and answers end with NUL.
    stream.write_all(b"zINSTREAM\0").await?;
    for piece in body.chunks(PIECE_BYTES) {
        stream.write_u32(piece.len() as u32).await?;
        stream.write_all(piece).await?;
    }
    stream.write_u32(0).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_distinguished() {
        assert_eq!(read("stream: OK").ok(), Some(None));
        let found = read("stream: Win.Test.EICAR_HDB-1 FOUND").ok();
        assert_eq!(found, Some(Some("Win.Test.EICAR_HDB-1".to_owned())));
        assert!(read("INSTREAM size limit exceeded. ERROR").is_err());
        assert!(read("").is_err());
    }
}
