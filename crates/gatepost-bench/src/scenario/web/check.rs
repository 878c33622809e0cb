//! Checks that a server returns the expected page.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::BenchError;
use crate::load::encrypted;
use crate::target::{RunningTarget, Url};

/// The beginnings of insertion points in the notations of the peers, none of which a browser should
/// see.
const MARKS: [&str; 4] = ["{{ now()", "{{now", "<!--#echo", "@@NOW@@"];
/// The time limit of a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The whole response to a request.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Some servers close without TLS's close_notify.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof && !answer.is_empty() => Ok(answer),
        read => read.map(|_| answer),
    }
}

/// Fetches a page once and returns the length of the whole response: figures of an error page, or
/// of a page whose insertion point was not replaced, would be worthless.
pub(super) fn check_page(
    target: &RunningTarget,
    url: &Url,
    request: &[u8],
) -> Result<usize, BenchError> {
    let address = url.address()?;
    let fetch = || -> std::io::Result<Vec<u8>> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        if url.is_encrypted {
            exchange(encrypted(stream)?, request)
        } else {
            exchange(stream, request)
        }
    };
    let answer = fetch().map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                format!("no whole page within {seconds} s, and the connection was not closed")
            }
            _ => error.to_string(),
        };
        BenchError::server(target, reason)
    })?;
    let text = String::from_utf8_lossy(&answer);
    let line = text.lines().next().unwrap_or_default();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    if !status.is_some_and(|code| (200..300).contains(&code)) {
        let path = String::from_utf8_lossy(request)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        return Err(BenchError::server(
            target,
            format!("answered {line:?} to {path:?}"),
        ));
    }
    if MARKS.iter().any(|mark| text.contains(mark)) {
        return Err(BenchError::server(
            target,
            "the insertion point was sent, not its value",
        ));
    }
    Ok(answer.len())
}
