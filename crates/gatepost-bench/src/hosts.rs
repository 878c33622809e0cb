//! The division of a run among hosts: the flags for agents' shares, and the resulting assignments.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::error::BenchError;
use crate::password_file;

/// The hosts of a run, if it is not on this host alone.
#[derive(Debug, Clone, Default, clap::Args, Serialize)]
pub struct HostArguments {
    /// Run on agents that joined this broker, mqtt:// or mqtts://, instead of here
    #[arg(long, value_name = "URL", help_heading = "Several hosts")]
    pub join: Option<String>,
    /// The work of an agent: NAME=subscribers:1500, NAME=publishers:5 (FANOUT), NAME=users:50,
    /// NAME=clients:5, NAME=sessions:20, NAME=connections:5000 (the others), NAME=server;
    /// repeatable
    #[arg(
        long,
        value_name = "SHARE",
        help_heading = "Several hosts",
        requires = "join"
    )]
    pub share: Vec<AgentShare>,
    /// Wait for this number of agents and divide the connections evenly, if no shares are given
    #[arg(
        long,
        value_name = "N",
        help_heading = "Several hosts",
        requires = "join",
        default_value_t = 1,
        value_parser = bounds::count
    )]
    pub agents: usize,
    /// The login of the broker.
    #[command(flatten)]
    #[serde(skip)]
    pub login: BrokerLogin,
}

/// The login of the broker that conductor and agents use, if it requires one, and the authorities
/// of its certificate.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct BrokerLogin {
    /// The user name at the broker of --join
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Several hosts",
        requires = "join"
    )]
    pub join_user: Option<String>,
    /// A file with the password at the broker of --join in its first line
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Several hosts",
        requires = "join_user"
    )]
    pub join_password_file: Option<PathBuf>,
    /// The authorities that are trusted by --join mqtts://, in PEM [default: the system's]
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Several hosts",
        requires = "join"
    )]
    pub join_cafile: Option<PathBuf>,
}

impl BrokerLogin {
    /// Reads the password.
    pub(crate) fn password(&self) -> Result<Option<String>, BenchError> {
        password_file::read(self.join_password_file.as_deref())
    }
}

impl HostArguments {
    /// Whether agents run the scenario.
    pub fn uses_agents(&self) -> bool {
        self.join.is_some()
    }
}

/// The task of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Receive on this number of connections.
    Subscribers(usize),
    /// Send on this number of connections.
    Publishers(u16),
    /// Run this number of a scenario's users, clients, sessions or connections.
    Clients(usize),
    /// Monitor the server on its host: at this port, or the target's.
    Server(Option<u16>),
}

/// The share of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentShare {
    /// The agent.
    pub agent: String,
    /// Its task.
    pub role: Role,
}

impl AgentShare {
    /// Whether it opens connections, rather than monitor a server.
    pub(crate) const fn is_client(&self) -> bool {
        !matches!(self.role, Role::Server(_))
    }
}

impl FromStr for AgentShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!(
                "'{text}': write NAME=subscribers:N or NAME=publishers:N, NAME=users:N, clients:N, \
                 sessions:N, connections:N or callers:1, or NAME=server[:PORT]"
            )
        };
        let (agent, role) = text.split_once('=').ok_or_else(malformed)?;
        let (kind, count) = role.split_once(':').unwrap_or((role, ""));
        let clients = || {
            let count: Option<usize> = count.parse().ok();
            let count = count.filter(|&count| count <= bounds::CONNECTIONS_MAX);
            count.ok_or_else(malformed)
        };
        let role = match kind {
            "subscribers" => Role::Subscribers(clients()?),
            "publishers" => Role::Publishers(count.parse().map_err(|_| malformed())?),
            "users" | "clients" | "sessions" | "connections" | "callers" => {
                Role::Clients(clients()?)
            }
            "server" if count.is_empty() => Role::Server(None),
            "server" => Role::Server(Some(count.parse().map_err(|_| malformed())?)),
            _ => return Err(malformed()),
        };
        if agent.is_empty() {
            return Err(malformed());
        }
        Ok(Self {
            agent: agent.to_owned(),
            role,
        })
    }
}

/// The task of an agent, by the numbers of its connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) agent: String,
    pub(crate) subscribers: Range<usize>,
    pub(crate) publishers: Range<u16>,
    /// The number of clients of a scenario other than FANOUT.
    pub(crate) clients: usize,
    /// The port whose listener is monitored.
    pub(crate) server: Option<u16>,
}

/// Divides the clients of a scenario other than FANOUT.
pub(crate) fn assign_clients(
    shares: &[AgentShare],
    present: &[String],
    clients: usize,
    port: Option<u16>,
) -> Result<Vec<Assignment>, BenchError> {
    let mut all: Vec<Assignment> = Vec::new();
    let count = present.len().max(1);
    let even = |(at, agent): (usize, &String)| AgentShare {
        agent: agent.clone(),
        role: Role::Clients((clients + count - 1 - at) / count),
    };
    let even: Vec<AgentShare> = if shares.is_empty() {
        present.iter().enumerate().map(even).collect()
    } else {
        Vec::new()
    };
    for AgentShare { agent, role } in shares.iter().chain(&even) {
        let one = of_agent(&mut all, agent);
        match *role {
            Role::Clients(count) if one.clients == 0 => one.clients = count,
            Role::Server(named) => {
                let unknown = || {
                    let reason = format!("{agent}=server needs a port: a command has none");
                    BenchError::Settings(reason)
                };
                one.server = Some(named.or(port).ok_or_else(unknown)?);
            }
            Role::Clients(_) => {
                let reason = format!("{agent} has two shares of one kind");
                return Err(BenchError::Settings(reason));
            }
            Role::Subscribers(_) | Role::Publishers(_) => {
                let reason = "subscribers and publishers are FANOUT's".to_owned();
                return Err(BenchError::Settings(reason));
            }
        }
    }
    let dealt: usize = all.iter().map(|one| one.clients).sum();
    if dealt != clients {
        return Err(BenchError::Settings(format!(
            "the shares make {dealt} of {clients} clients"
        )));
    }
    Ok(all)
}

/// The assignment of an agent, which may be new.
fn of_agent<'all>(all: &'all mut Vec<Assignment>, agent: &str) -> &'all mut Assignment {
    let at = all.iter().position(|one| one.agent == agent);
    let at = at.unwrap_or_else(|| {
        all.push(Assignment {
            agent: agent.to_owned(),
            ..Assignment::default()
        });
        all.len() - 1
    });
    &mut all[at]
}

/// Assigns all publishers and subscribers; shares that do not cover them are an error.
pub(crate) fn assign(
    shares: &[AgentShare],
    present: &[String],
    publishers: u16,
    subscribers: usize,
    port: u16,
) -> Result<Vec<Assignment>, BenchError> {
    let even: Vec<AgentShare>;
    let shares = if shares.is_empty() {
        even = evenly(present, publishers, subscribers);
        &even
    } else {
        shares
    };
    let mut all: Vec<Assignment> = Vec::new();
    let (mut next_subscriber, mut next_publisher) = (0, 0_u16);
    for AgentShare { agent, role } in shares {
        let one = of_agent(&mut all, agent);
        let twice = || BenchError::Settings(format!("{agent} has two shares of one kind"));
        match *role {
            Role::Subscribers(count) if one.subscribers.is_empty() => {
                one.subscribers = next_subscriber..next_subscriber + count;
                next_subscriber += count;
            }
            Role::Publishers(count) if one.publishers.is_empty() => {
                let end = next_publisher.saturating_add(count);
                one.publishers = next_publisher..end;
                next_publisher = end;
            }
            Role::Server(named) => one.server = Some(named.unwrap_or(port)),
            Role::Clients(_) => {
                let reason = "FANOUT has subscribers and publishers, no other clients".to_owned();
                return Err(BenchError::Settings(reason));
            }
            _ => return Err(twice()),
        }
    }
    // Without a share of publishers, the first agent publishes.
    if next_publisher == 0
        && let Some(first) = all.first_mut()
    {
        first.publishers = 0..publishers;
        next_publisher = publishers;
    }
    if next_subscriber != subscribers || next_publisher != publishers {
        return Err(BenchError::Settings(format!(
            "the shares make {next_subscriber} of {subscribers} subscribers and \
             {next_publisher} of {publishers} publishers"
        )));
    }
    Ok(all)
}

fn evenly(present: &[String], publishers: u16, subscribers: usize) -> Vec<AgentShare> {
    let count = present.len().max(1);
    let share = |(at, agent): (usize, &String)| AgentShare {
        agent: agent.clone(),
        role: Role::Subscribers((subscribers + count - 1 - at) / count),
    };
    let publishing = present.first().map(|agent| AgentShare {
        agent: agent.clone(),
        role: Role::Publishers(publishers),
    });
    present
        .iter()
        .enumerate()
        .map(share)
        .chain(publishing)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(texts: &[&str]) -> Vec<AgentShare> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn the_original_s_split_is_dealt_out() {
        let shares = shares(&[
            "a=subscribers:500",
            "b=subscribers:2500",
            "b=publishers:5",
            "s=server:1884",
        ]);
        let all = assign(&shares, &[], 5, 3_000, 1883).expect("assigned");
        assert_eq!(
            (all[0].subscribers.clone(), all[0].publishers.clone()),
            (0..500, 0..0)
        );
        assert_eq!(
            (all[1].subscribers.clone(), all[1].publishers.clone()),
            (500..3_000, 0..5)
        );
        assert_eq!((all[2].agent.as_str(), all[2].server), ("s", Some(1884)));
    }

    #[test]
    fn without_shares_all_agents_get_equal_parts() {
        let present = ["a", "b", "c"].map(str::to_owned);
        let all = assign(&[], &present, 5, 100, 1883).expect("assigned");
        let counts: Vec<usize> = all.iter().map(|one| one.subscribers.len()).collect();
        assert_eq!(counts, [34, 33, 33]);
        assert_eq!(all[0].publishers, 0..5);
    }

    #[test]
    fn clients_are_dealt_out_by_shares_or_evenly() {
        let given = shares(&["a=users:30", "b=users:70", "b=server"]);
        let all = assign_clients(&given, &[], 100, Some(1883)).expect("assigned");
        assert_eq!(
            (all[0].clients, all[1].clients, all[1].server),
            (30, 70, Some(1883))
        );
        let present = ["a", "b", "c"].map(str::to_owned);
        let all = assign_clients(&[], &present, 100, None).expect("assigned");
        assert_eq!(
            all.iter().map(|one| one.clients).collect::<Vec<_>>(),
            [34, 33, 33]
        );
        for texts in [
            &["a=users:99"][..],
            &["a=users:50", "a=users:50"],
            &["a=subscribers:100"],
            &["a=users:100", "b=server"],
        ] {
            assert!(
                assign_clients(&shares(texts), &[], 100, None).is_err(),
                "{texts:?}"
            );
        }
        assert!(assign(&shares(&["a=users:5"]), &[], 1, 5, 1).is_err());
    }

    #[test]
    fn invalid_shares_are_refused() {
        for texts in [
            &["a=subscribers:10"][..],
            &["a=subscribers:100", "a=subscribers:0"],
        ] {
            assert!(assign(&shares(texts), &[], 5, 100, 1).is_err() || texts.len() == 2);
        }
        for text in [
            "a",
            "=server",
            "a=readers:1",
            "a=subscribers:x",
            "a=users:18446744073709551615",
        ] {
            assert!(text.parse::<AgentShare>().is_err(), "{text}");
        }
    }
}
