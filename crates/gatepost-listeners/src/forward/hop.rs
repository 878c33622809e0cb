//! A connection to a next hop: greeted, and ready for commands.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_sinks::connect_to_any;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

use super::candidates::{ConnectTarget, HostCandidate};
use super::error::{HopError, TlsRequirement};
use super::extensions::HopExtensions;
use super::mta_sts::{MtaStsMode, MtaStsPolicy};
use super::next_hop::NextHop;
use super::reply::{self, HopReply};
use super::security::HopSecurity;
use super::{ForwardContext, HopTls};
use crate::stream::Stream;
use crate::tls::{self, dane};
use crate::wire;

/// An open connection.
pub(super) struct HopConnection {
    stream: Stream,
    input: BytesMut,
    pub(super) offers: HopExtensions,
    pub(super) speaks_lmtp: bool,
    is_local: bool,
}

impl HopConnection {
    /// Connects to the first host of the next hop that accepts the connection and gives the
    /// required proof of its identity.
    pub(super) async fn open(
        next_hop: &NextHop,
        forward: &ForwardContext,
        hostname: &str,
    ) -> Result<Self, HopError> {
        let until = Instant::now() + forward.settings.connect_timeout.duration();
        let candidates = forward.candidates(next_hop, hostname, until.into_std());
        let candidates = candidates.await?;
        let domain = next_hop.domain();
        let policy = match domain {
            Some(domain) if forward.settings.mta_sts && forward.settings.tls != HopTls::Off => {
                forward.policy(domain, until.into_std()).await
            }
            _ => None,
        };
        let opening = HopConnector {
            next_hop,
            forward,
            hostname,
            domain,
            policy: policy.as_deref(),
        };
        let mut failure: Option<HopError> = None;
        let mut checked = None;
        for candidate in &candidates {
            if let Some(preference) = candidate.preference
                && checked.replace(preference) != Some(preference)
                && forward
                    .is_own_preference(&candidates, preference, until.into_std())
                    .await
            {
                let name = candidate.name.clone();
                return Err(failure.unwrap_or(HopError::ThisServer(name)));
            }
            let opened = match opening.open(candidate).await {
                Ok(hop) => hop.logged_in(forward).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok(hop) => return Ok(hop),
                Err(error) => {
                    tracing::debug!(
                        target: "smtp",
                        host = candidate.name,
                        "{}",
                        error.with_cause(),
                    );
                    if matches!(error, HopError::ThisServer(_)) {
                        // RFC 5321, section 5.1: the hosts that follow would pass it back.
                        return Err(failure.unwrap_or(error));
                    }
                    // A host that could not be trusted is more informative than another that is
                    // unreachable.
                    if !failure.as_ref().is_some_and(HopError::is_about_trust) {
                        failure = Some(error);
                    }
                }
            }
        }
        Err(failure.unwrap_or(HopError::Timeout))
    }

    fn over(stream: Stream, next_hop: &NextHop) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            offers: HopExtensions::default(),
            speaks_lmtp: next_hop.speaks_lmtp,
            is_local: next_hop.is_local(),
        }
    }

    /// Sends EHLO, LHLO or HELO.
    async fn greet(&mut self, hostname: &str, limit: Duration) -> Result<(), HopError> {
        let hello = if self.speaks_lmtp { "LHLO" } else { "EHLO" };
        let mut answer = self.command(&format!("{hello} {hostname}"), limit).await?;
        if !answer.is_positive() && !self.speaks_lmtp {
            answer = self.command(&format!("HELO {hostname}"), limit).await?;
        }
        if !answer.is_positive() {
            return Err(HopError::Refused(answer.code, answer.text()));
        }
        self.offers = HopExtensions::read(&answer);
        Ok(())
    }

    /// Begins TLS; earlier replies of the server are discarded.
    async fn encrypted(
        mut self,
        opening: &HopConnector<'_>,
        candidate: &HostCandidate,
        security: &HopSecurity,
    ) -> Result<Self, HopError> {
        let limit = opening.forward.settings.connect_timeout.duration();
        let answer = self.command("STARTTLS", limit).await?;
        let failed = |cause| HopError::Tls {
            name: candidate.name.clone(),
            by: security.requirement(),
            cause,
        };
        if !answer.is_positive() {
            let refusal = format!("{} {}", answer.code, answer.text());
            return Err(failed(io::Error::other(refusal)));
        }
        // Plain text after the reply may have been inserted by an attacker.
        if !self.input.is_empty() {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        let encrypted = opening.handshake(self.stream, candidate, security).await;
        Ok(Self::over(encrypted.map_err(failed)?, opening.next_hop))
    }

    /// Logs in, where the settings have a user.
    async fn logged_in(mut self, forward: &ForwardContext) -> Result<Self, HopError> {
        if let Some(login) = &forward.login {
            let limit = forward.settings.command_timeout.duration();
            login.perform(&mut self, limit).await?;
        }
        Ok(self)
    }

    /// Sends a command line and waits for its reply.
    pub(super) async fn command(
        &mut self,
        line: &str,
        limit: Duration,
    ) -> Result<HopReply, HopError> {
        // An argument with a line break would become a second command.
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

    /// Whether a password may be sent: the connection is encrypted, or within this machine.
    pub(super) fn is_private(&self) -> bool {
        self.stream.tls().is_some() || self.is_local
    }

    /// Whether the next hop has sent something unprompted, usually a 421.
    pub(super) fn has_spoken(&mut self) -> bool {
        let mut byte = [0];
        !self.input.is_empty()
            || !matches!(
                self.stream.try_read(&mut byte),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock
            )
    }
}

/// Data that all hosts of a next hop share.
struct HopConnector<'a> {
    next_hop: &'a NextHop,
    forward: &'a ForwardContext,
    hostname: &'a str,
    domain: Option<&'a str>,
    policy: Option<&'a MtaStsPolicy>,
}

impl HopConnector<'_> {
    async fn open(&self, candidate: &HostCandidate) -> Result<HopConnection, HopError> {
        if self.next_hop.is_encrypted {
            // Nothing that was received in plain text may cancel the requirement.
            return self
                .open_with(candidate, &HopSecurity::Verified(TlsRequirement::Scheme))
                .await;
        }
        self.check_policy(candidate)?;
        let limit = self.forward.settings.connect_timeout.duration();
        let until = Instant::now() + limit;
        let mut security = self
            .forward
            .security(candidate, self.policy, until.into_std())
            .await?;
        loop {
            let error = match self.open_with(candidate, &security).await {
                Err(error @ HopError::Tls { .. }) => error,
                done => return done,
            };
            let Some(weaker) = security.weaker() else {
                return Err(error);
            };
            let next_hop = self.next_hop;
            tracing::warn!(target: "smtp", %next_hop, "mail is forwarded with less protection: \
                {error}");
            security = weaker;
        }
    }

    /// RFC 8461, section 4.1: hosts that the policy does not list are skipped.
    fn check_policy(&self, candidate: &HostCandidate) -> Result<(), HopError> {
        let (Some(policy), Some(domain)) = (self.policy, self.domain) else {
            return Ok(());
        };
        if policy.mode == MtaStsMode::None || policy.has(&candidate.name) {
            return Ok(());
        }
        let error = HopError::NotInPolicy {
            name: candidate.name.clone(),
            domain: domain.to_owned(),
        };
        if policy.mode == MtaStsMode::Enforce {
            return Err(error);
        }
        tracing::warn!(target: "smtp", "mail is forwarded, since the policy is in testing mode: \
            {error}");
        Ok(())
    }

    async fn open_with(
        &self,
        candidate: &HostCandidate,
        security: &HopSecurity,
    ) -> Result<HopConnection, HopError> {
        let limit = self.forward.settings.connect_timeout.duration();
        let connected = timeout_at(Instant::now() + limit, self.connect(candidate, limit)).await;
        let mut stream = connected.map_err(|_| HopError::Timeout)??;
        if self.next_hop.is_encrypted {
            let encrypted = self.handshake(stream, candidate, security).await;
            stream = encrypted.map_err(|cause| HopError::Tls {
                name: candidate.name.clone(),
                by: security.requirement(),
                cause,
            })?;
        }
        let mut hop = HopConnection::over(stream, self.next_hop);
        let greeting = hop.reply(limit).await?;
        if !greeting.is_positive() {
            return Err(HopError::Refused(greeting.code, greeting.text()));
        }
        if candidate.is_exchanger() && is_greeting_of(&greeting, self.hostname) {
            return Err(HopError::ThisServer(candidate.name.clone()));
        }
        hop.greet(self.hostname, limit).await?;
        if *security == HopSecurity::Plain || self.next_hop.is_encrypted {
            return Ok(hop);
        }
        if !hop.offers.starttls {
            // Removing the offer is the simplest attack on it (RFC 7672, section 1.3.1).
            let name = &candidate.name;
            if *security == HopSecurity::Tested {
                tracing::warn!(target: "smtp", "{name} does not offer STARTTLS; mail is forwarded \
                    in plain text, since the policy of its domain is in testing mode");
            }
            return if security.weaker().is_some() {
                Ok(hop)
            } else {
                Err(HopError::NoTls {
                    name: name.clone(),
                    by: security.requirement(),
                })
            };
        }
        let mut hop = hop.encrypted(self, candidate, security).await?;
        // RFC 3207, section 4.2: earlier replies of the server must be discarded.
        hop.greet(self.hostname, limit).await?;
        Ok(hop)
    }

    /// TLS on a connection, with the proof that `security` requires.
    async fn handshake(
        &self,
        stream: Stream,
        candidate: &HostCandidate,
        security: &HopSecurity,
    ) -> io::Result<Stream> {
        let (forward, name) = (self.forward, candidate.name.as_str());
        let limit = forward.settings.connect_timeout.duration();
        match security {
            HopSecurity::Plain | HopSecurity::Opportunistic | HopSecurity::Encrypted => {
                forward.unverified.connect(stream, name, limit).await
            }
            HopSecurity::Tested | HopSecurity::Verified(_) => {
                forward.authorities.connect(stream, name, limit).await
            }
            HopSecurity::Dane(records) => {
                let names = [Some(name), self.domain].into_iter().flatten();
                let names = names.filter_map(|name| ServerName::try_from(name.to_owned()).ok());
                match dane::client_config(records.clone(), names.collect()) {
                    Ok(config) => tls::connect(Arc::new(config), stream, name, limit).await,
                    Err(error) => Err(io::Error::other(error)),
                }
            }
        }
    }

    /// Whether the connection ends at a port of this server: both ends have the same address.
    fn leads_here(&self, stream: &TcpStream) -> bool {
        match (stream.local_addr(), stream.peer_addr()) {
            (Ok(here), Ok(there)) => {
                here.ip() == there.ip() && self.forward.own_ports.contains(&there.port())
            }
            _ => false,
        }
    }

    async fn connect(
        &self,
        candidate: &HostCandidate,
        limit: Duration,
    ) -> Result<Stream, HopError> {
        let connected = match &candidate.target {
            ConnectTarget::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                return stream.map(Stream::Unix).map_err(HopError::Unreachable);
            }
            ConnectTarget::Named(place) => match tokio::net::lookup_host(place).await {
                Ok(places) => connect_to_any(&places.collect::<Vec<_>>(), limit).await,
                Err(error) => Err(error),
            },
            ConnectTarget::Exchanger(host, port) => {
                let until = (Instant::now() + limit).into_std();
                let places = self.forward.addresses(host, *port, until).await?;
                connect_to_any(&places, limit).await
            }
        };
        let stream = connected.map_err(HopError::Unreachable)?;
        if candidate.is_exchanger() && self.leads_here(&stream) {
            return Err(HopError::ThisServer(candidate.name.clone()));
        }
        stream.set_nodelay(true).map_err(HopError::Unreachable)?;
        Ok(Stream::Tcp(stream))
    }
}

/// Whether a greeting begins with this host's name (RFC 5321, section 4.2).
fn is_greeting_of(greeting: &HopReply, hostname: &str) -> bool {
    let first = greeting.lines.first().map_or("", String::as_str);
    let name = first.split(' ').next().unwrap_or_default();
    name.eq_ignore_ascii_case(hostname)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_names_its_host() {
        for (line, expected) in [
            ("gate.example ESMTP Gatepost", true),
            ("Gate.Example", true),
            ("gate.example.org ESMTP", false),
            ("mx.example ESMTP gate.example", false),
            ("", false),
        ] {
            let greeting = HopReply {
                code: 220,
                lines: vec![line.to_owned()],
            };
            assert_eq!(
                is_greeting_of(&greeting, "gate.example"),
                expected,
                "{line}"
            );
        }
    }
}
