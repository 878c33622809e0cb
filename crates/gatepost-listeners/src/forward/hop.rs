//! A connection to a next hop: greeted, and ready for commands.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

use super::next_hop::{NextHop, Place};
use super::reply::{self, HopReply};
use super::{Forward, HopTls};
use crate::stream::Stream;
use crate::wire;

/// Why the next hop gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HopError {
    #[error("the next hop cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("the next hop broke off")]
    Broken(#[source] io::Error),
    #[error("the next hop did not answer in time")]
    Timeout,
    #[error(transparent)]
    Garbled(#[from] reply::Garbled),
    #[error("the next hop does not greet: {0} {1}")]
    Refused(u16, String),
    #[error("the next hop does not offer STARTTLS, which forward.tls requires")]
    NoTls,
    #[error("TLS with the next hop fails: {0}")]
    Tls(#[source] io::Error),
}

impl HopError {
    /// With the system's error, for the log: clients need no details of the network.
    pub(crate) fn with_cause(&self) -> String {
        match self {
            Self::Unreachable(cause) | Self::Broken(cause) => format!("{self}: {cause}"),
            other => other.to_string(),
        }
    }
}

impl From<io::Error> for HopError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Timeout,
            _ => Self::Broken(error),
        }
    }
}

/// The extensions that it offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is one keyword of EHLO
pub(super) struct Offers {
    pub(super) size: bool,
    pub(super) eight_bit: bool,
    pub(super) utf8: bool,
    pub(super) dsn: bool,
    pub(super) chunking: bool,
    pub(super) binary: bool,
    starttls: bool,
    /// XFORWARD with NAME, ADDR, PROTO and HELO.
    pub(super) xforward: bool,
}

impl Offers {
    fn read(hello: &HopReply) -> Self {
        let mut offers = Self::default();
        for line in hello.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split(' ');
            match words.next().unwrap_or_default() {
                "SIZE" => offers.size = true,
                "8BITMIME" => offers.eight_bit = true,
                "SMTPUTF8" => offers.utf8 = true,
                "DSN" => offers.dsn = true,
                "CHUNKING" => offers.chunking = true,
                "BINARYMIME" => offers.binary = true,
                "STARTTLS" => offers.starttls = true,
                "XFORWARD" => {
                    let names: Vec<&str> = words.collect();
                    let wanted = ["NAME", "ADDR", "PROTO", "HELO"];
                    offers.xforward = wanted.iter().all(|name| names.contains(name));
                }
                _ => {}
            }
        }
        offers
    }
}

/// An open connection.
pub(super) struct Hop {
    stream: Stream,
    input: BytesMut,
    pub(super) offers: Offers,
    pub(super) speaks_lmtp: bool,
}

impl Hop {
    /// Connects and greets, and encrypts as the settings want it.
    pub(super) async fn open(
        next_hop: &NextHop,
        forward: &Forward,
        hostname: &str,
    ) -> Result<Self, HopError> {
        let tls = forward.settings.tls;
        match Self::open_with(tls, next_hop, forward, hostname).await {
            Err(HopError::Tls(error)) if tls == HopTls::Opportunistic => {
                tracing::warn!(target: "smtp", %next_hop, "mail goes on in plain text: {error}");
                Self::open_with(HopTls::Off, next_hop, forward, hostname).await
            }
            done => done,
        }
    }

    async fn open_with(
        tls: HopTls,
        next_hop: &NextHop,
        forward: &Forward,
        hostname: &str,
    ) -> Result<Self, HopError> {
        let limit = forward.settings.connect_timeout.duration();
        let connected = timeout_at(Instant::now() + limit, connect(&next_hop.place)).await;
        let stream = connected
            .map_err(|_| HopError::Timeout)?
            .map_err(HopError::Unreachable)?;
        let mut hop = Self::over(stream, next_hop);
        let greeting = hop.reply(limit).await?;
        if !greeting.is_positive() {
            return Err(HopError::Refused(greeting.code, greeting.text()));
        }
        hop.greet(hostname, limit).await?;
        match tls {
            HopTls::Required if !hop.offers.starttls => Err(HopError::NoTls),
            HopTls::Required | HopTls::Opportunistic if hop.offers.starttls => {
                let mut hop = hop.encrypted(next_hop, forward).await?;
                // RFC 3207 section 4.2: what it said before counts no more.
                hop.greet(hostname, limit).await?;
                Ok(hop)
            }
            _ => Ok(hop),
        }
    }

    fn over(stream: Stream, next_hop: &NextHop) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            offers: Offers::default(),
            speaks_lmtp: next_hop.speaks_lmtp,
        }
    }

    /// EHLO, or what stands for it.
    async fn greet(&mut self, hostname: &str, limit: Duration) -> Result<(), HopError> {
        let hello = if self.speaks_lmtp { "LHLO" } else { "EHLO" };
        let mut answer = self.command(&format!("{hello} {hostname}"), limit).await?;
        if !answer.is_positive() && !self.speaks_lmtp {
            answer = self.command(&format!("HELO {hostname}"), limit).await?;
        }
        if !answer.is_positive() {
            return Err(HopError::Refused(answer.code, answer.text()));
        }
        self.offers = Offers::read(&answer);
        Ok(())
    }

    async fn encrypted(mut self, next_hop: &NextHop, forward: &Forward) -> Result<Self, HopError> {
        let limit = forward.settings.connect_timeout.duration();
        let answer = self.command("STARTTLS", limit).await?;
        if !answer.is_positive() {
            let refusal = format!("{} {}", answer.code, answer.text());
            return Err(HopError::Tls(io::Error::other(refusal)));
        }
        // Plain text behind the reply may have been inserted by an attacker.
        if !self.input.is_empty() {
            return Err(HopError::Tls(io::ErrorKind::InvalidData.into()));
        }
        let name = match forward.settings.tls_name.as_str() {
            "" => next_hop.host(),
            name => name,
        };
        let encrypted = forward.tls.connect(self.stream, name, limit).await;
        Ok(Self::over(encrypted.map_err(HopError::Tls)?, next_hop))
    }

    /// Sends a command line and waits for its reply.
    pub(super) async fn command(
        &mut self,
        line: &str,
        limit: Duration,
    ) -> Result<HopReply, HopError> {
        // Whatever is within an argument, it stays one command.
        debug_assert!(!line.contains(['\r', '\n']));
        let line: String = line
            .chars()
            .filter(|it| !matches!(it, '\r' | '\n'))
            .collect();
        self.send(format!("{line}\r\n").as_bytes(), limit).await?;
        self.reply(limit).await
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8], limit: Duration) -> Result<(), HopError> {
        Ok(wire::write(&self.stream, bytes, Instant::now() + limit).await?)
    }

    /// Waits for a reply.
    pub(super) async fn reply(&mut self, limit: Duration) -> Result<HopReply, HopError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(reply) = reply::take(&mut self.input)? {
                return Ok(reply);
            }
            if wire::read(&self.stream, &mut self.input, deadline).await? == 0 {
                return Err(HopError::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Whether it has sent something unprompted, most often a 421.
    pub(super) fn has_spoken(&mut self) -> bool {
        let mut byte = [0];
        !self.input.is_empty()
            || !matches!(
                self.stream.try_read(&mut byte),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock
            )
    }
}

async fn connect(place: &Place) -> io::Result<Stream> {
    match place {
        Place::Tcp(place) => {
            let stream = TcpStream::connect(place).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        Place::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_read_in_any_case() {
        let reply = HopReply {
            code: 250,
            lines: [
                "DSN mx",
                "size 100",
                "8BITMIME",
                "XFORWARD NAME ADDR PROTO HELO SOURCE",
                "CHUNKING",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        let expected = Offers {
            size: true,
            eight_bit: true,
            chunking: true,
            xforward: true,
            ..Offers::default()
        };
        assert_eq!(Offers::read(&reply), expected);
    }
}
