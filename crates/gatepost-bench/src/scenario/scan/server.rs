//! A scanning server: spamd's protocol, or a message as the body of a POST (rspamd).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::error::BenchError;
use crate::outcome::RunOutcome;
use crate::scenario::mail;
use crate::target::{RunningTarget, Url};

/// Longer than any scan takes, even in Perl on a large message.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// The interval at which a server is checked until it is idle, and the CPU share that it may use.
const REST_LOOK: Duration = Duration::from_millis(200);
const REST_CPU_SECONDS: f64 = 0.005;
/// A server that is still busy after this time is measured nevertheless.
const REST_WAIT_MAX: Duration = Duration::from_secs(10);

/// A scanning server; each message has a separate connection, as with its usual clients.
pub(super) struct ScanServer {
    url: Url,
    address: std::net::SocketAddr,
}

impl ScanServer {
    pub(super) fn new(url: &Url) -> Result<Self, BenchError> {
        if url.is_encrypted {
            return Err(BenchError::server(url, "SCAN does not use TLS"));
        }
        Ok(Self {
            url: url.clone(),
            address: url.address()?,
        })
    }

    /// The first three columns; warns if the server is still busy after the wait.
    pub(super) fn warm_up(
        &self,
        target: &RunningTarget,
        outcome: &mut RunOutcome,
    ) -> Result<[f64; 4], BenchError> {
        let begin = clock::now();
        self.ping(target)?;
        let answered = clock::now();
        self.scan(target, &mail::message(0, 1_000))?;
        let mut scanned = clock::now();
        if let Some(quiet_for) = await_rest(target) {
            scanned = clock::now() - clock::from_seconds(quiet_for.as_secs_f64());
            if quiet_for.is_zero() {
                let seconds = REST_WAIT_MAX.as_secs();
                outcome.warn(format!(
                    "the server was still busy {seconds} s after its first message: its other work \
                     counts too"
                ));
            }
        }
        Ok([
            target.start_seconds.unwrap_or(0.0),
            clock::seconds(answered - begin),
            clock::seconds(scanned - answered),
            0.0,
        ])
    }

    fn ping(&self, target: &RunningTarget) -> Result<(), BenchError> {
        if self.url.scheme == "spamd" {
            let answer = self.request(target, &[b"PING SPAMC/1.5\r\n\r\n"])?;
            if !answer.contains("PONG") {
                return Err(BenchError::server(
                    target,
                    format!("no PONG but {answer:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Scans one message; returns whether it is spam.
    pub(super) fn scan(&self, target: &RunningTarget, message: &[u8]) -> Result<bool, BenchError> {
        let length = message.len();
        if self.url.scheme == "spamd" {
            let head = format!("CHECK SPAMC/1.5\r\nContent-length: {length}\r\n\r\n");
            let answer = self.request(target, &[head.as_bytes(), message])?;
            return spamd_verdict(&answer)
                .ok_or_else(|| BenchError::server(target, format!("answered {answer:?}")));
        }
        let Url { host, path, .. } = &self.url;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        let answer = self.request(target, &[head.as_bytes(), message])?;
        if !answer.starts_with("HTTP/1.1 200") {
            let line = answer.lines().next().unwrap_or_default().to_owned();
            return Err(BenchError::server(target, format!("answered {line:?}")));
        }
        Ok(
            answer.contains("\"action\":\"reject\"")
                || answer.contains("\"action\":\"add header\""),
        )
    }

    fn request(&self, target: &RunningTarget, parts: &[&[u8]]) -> Result<String, BenchError> {
        let exchange = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.write_all(&parts.concat())?;
            if self.url.scheme == "spamd" {
                stream.shutdown(Shutdown::Write)?;
            }
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        match exchange() {
            Ok(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
            Err(error) => Err(BenchError::server(target, error.to_string())),
        }
    }
}

/// Waits until the server has finished the work that follows each start, such as compiling
/// patterns in the background, which would otherwise be counted with the messages.
/// Returns the time for which the server has been idle, 0 if it is still busy; `None` if it cannot
/// be monitored.
fn await_rest(target: &RunningTarget) -> Option<Duration> {
    let begin = Instant::now();
    let mut before = target.usage()?.cpu_seconds();
    while begin.elapsed() < REST_WAIT_MAX {
        let looked = Instant::now();
        thread::sleep(REST_LOOK);
        let now = target.usage()?.cpu_seconds();
        if now - before < REST_CPU_SECONDS {
            return Some(looked.elapsed());
        }
        before = now;
    }
    Some(Duration::ZERO)
}

/// `SPAMD/1.1 0 EX_OK`, then `Spam: True ; 15.0 / 5.0`.
fn spamd_verdict(answer: &str) -> Option<bool> {
    let mut lines = answer.lines();
    let status = lines.next()?.strip_prefix("SPAMD/")?;
    if status.split(' ').nth(1)? != "0" {
        return None;
    }
    let spam = lines.find_map(|line| line.strip_prefix("Spam: "))?;
    Some(spam.split(' ').next()?.eq_ignore_ascii_case("true"))
}
