//! Questions to the domain name system, for procedures: a stub resolver over UDP (RFC 1035), with
//! answers kept as long as they are valid.
//!
//! Written here, since a judge thread may wait and needs no runtime: one datagram out, one in. An
//! answer that was cut short is an error; no list that procedures ask is that long.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_settings::Period;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Memory;
use message::{DATAGRAM_BYTES_MAX, question, read};
pub(crate) use message::{Kind, reverse_name};

mod message;

/// Answers that are kept; the first to expire makes room.
const ANSWERS_MAX: usize = 10_000;
/// No answer is kept for longer.
const LIFETIME_MAX: Duration = Duration::from_hours(1);
const PORT: u16 = 53;

/// `[procedures.dns]`: what `dns.…` of Luau procedures asks.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DnsSettings {
    /// The servers, in order, with their port; empty takes those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long to wait for each server's answer; never longer than the procedure's `time_max`.
    pub timeout: Period,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Period::seconds(2),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DnsError {
    #[error("'{0}' is no name of the domain name system")]
    Name(String),
    #[error("no server of names answered in time")]
    Timeout,
    #[error("the server of names failed with code {0}")]
    Server(u8),
    #[error("the answer cannot be read")]
    Malformed,
    #[error(
        "there is no server of names: procedures.dns.servers is empty, and so is /etc/resolv.conf"
    )]
    NoServer,
}

type Asked = (String, Kind);

/// Answers that are still valid.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<Asked, Known>>);

/// Until when records are valid, and which.
type Known = (Instant, Arc<[String]>);

pub(crate) struct Dns {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    memory: Arc<Memory>,
}

impl Dns {
    pub(super) fn new(settings: &DnsSettings, memory: &Arc<Memory>) -> Self {
        let servers = if settings.servers.is_empty() {
            let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
            servers_of(&text)
        } else {
            settings.servers.clone()
        };
        Self {
            servers,
            timeout: settings.timeout.duration(),
            memory: Arc::clone(memory),
        }
    }

    /// The records as text, none if there is no such name or no such record: addresses, names,
    /// texts, and for MX `preference name`. Waits until `deadline` at most.
    pub(crate) fn ask(
        &self,
        name: &str,
        kind: Kind,
        deadline: Instant,
    ) -> Result<Arc<[String]>, DnsError> {
        let asked = (name.trim_end_matches('.').to_ascii_lowercase(), kind);
        if let Some((until, records)) = self.memory.names.0.lock().get(&asked)
            && *until > Instant::now()
        {
            return Ok(Arc::clone(records));
        }
        let (records, lifetime) = self.ask_servers(&asked, deadline)?;
        let records: Arc<[String]> = records.into();
        self.memory.names.keep(asked, &records, lifetime);
        Ok(records)
    }

    fn ask_servers(
        &self,
        (name, kind): &Asked,
        deadline: Instant,
    ) -> Result<(Vec<String>, Duration), DnsError> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|_| DnsError::Timeout)?;
        let question = question(id, name, *kind)?;
        let mut last = DnsError::NoServer;
        for server in &self.servers {
            let now = Instant::now();
            let until = deadline.min(now + self.timeout);
            if until <= now {
                return Err(DnsError::Timeout);
            }
            match exchange(*server, &question, until) {
                Some(answer) => match read(&answer, *kind) {
                    Ok(found) => return Ok(found),
                    Err(error) => last = error,
                },
                None => last = DnsError::Timeout,
            }
        }
        Err(last)
    }
}

impl Answers {
    fn keep(&self, asked: Asked, records: &Arc<[String]>, lifetime: Duration) {
        let now = Instant::now();
        let mut kept = self.0.lock();
        if kept.len() >= ANSWERS_MAX {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() >= ANSWERS_MAX {
            let first = kept.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(asked, _)| asked.clone()) {
                kept.remove(&first);
            }
        }
        kept.insert(
            asked,
            (now + lifetime.min(LIFETIME_MAX), Arc::clone(records)),
        );
    }
}

fn servers_of(resolv_conf: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok())?
    };
    let addresses = resolv_conf.lines().filter_map(address);
    addresses.map(|ip| SocketAddr::new(ip, PORT)).collect()
}

/// Sends the question and waits for the answer to it; strangers' datagrams are passed over.
fn exchange(server: SocketAddr, question: &[u8], until: Instant) -> Option<Vec<u8>> {
    let any: SocketAddr = if server.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    socket.send(question).ok()?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        socket
            .set_read_timeout(Some(left.max(Duration::from_millis(1))))
            .ok()?;
        let length = socket.recv(&mut answer).ok()?;
        let ours = length >= 12 && answer.get(..2) == question.get(..2);
        if ours {
            answer.truncate(length);
            return Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_servers_are_found() {
        let conf = "# none\nnameserver 192.0.2.53\nnameserver ::1\noptions x\n";
        let servers = servers_of(conf);
        assert_eq!(servers[0].to_string(), "192.0.2.53:53");
        assert_eq!(servers[1].to_string(), "[::1]:53");
    }
}
