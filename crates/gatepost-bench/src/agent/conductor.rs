//! The conductor: finds the agents, compares clocks, sends orders and detects agents that fail. It
//! directs FANOUT ([`super::conduct_fanout`]) or any other scenario ([`super::distributed`]).

use std::collections::BTreeMap;

use super::clocks::{Exchange, Offset};
use super::link::AgentLink;
use super::message::{AddressedOrder, AgentCommand, AgentReport, SignedReport};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::{Assignment, HostArguments};
use crate::interrupt::interrupted;
use crate::progress::RunProgress;

/// The time within which agents must report their presence.
const CALL_SECONDS: u64 = 15;
/// Interval between two announcements.
const CALL_AGAIN: Nanoseconds = clock::SECOND / 2;
/// Round trips for comparing a clock.
const QUESTIONS: u32 = 40;
/// The time without a report after which an agent counts as lost.
const DEAD_AFTER: Nanoseconds = 5 * clock::SECOND;
/// The time within which the final reports must arrive.
pub(super) const GATHER_SECONDS: u64 = 30;
/// Interval of the checks for silent agents.
pub(super) const CHECK_INTERVAL: Nanoseconds = clock::SECOND / 20;

/// The state of an agent.
#[derive(Debug, Default)]
pub(super) struct Agent {
    pub(super) assignment: Assignment,
    pub(super) clock: Option<Offset>,
    pub(super) last_seen: Nanoseconds,
    pub(super) ready: bool,
    pub(super) received: u64,
    pub(super) missing: i64,
    pub(super) sent: Option<AgentReport>,
    pub(super) done: Option<AgentReport>,
    /// Gates that it has reached, and its reported progress.
    pub(super) reached: u32,
    pub(super) doing: (f64, String),
    /// The record of the server on its host.
    pub(super) watched: Option<AgentReport>,
    /// Time and reason of its loss.
    pub(super) lost: Option<(Nanoseconds, String)>,
    pongs: Vec<(u32, Nanoseconds, Nanoseconds, Nanoseconds)>,
}

impl Agent {
    pub(super) fn is_alive(&self) -> bool {
        self.lost.is_none()
    }

    /// Whether it has clients that have not reported their result yet.
    pub(super) fn is_running(&self) -> bool {
        self.is_alive() && self.assignment.clients > 0 && self.done.is_none()
    }
}

pub(super) struct Conductor {
    link: AgentLink,
    session: u64,
    pub(super) agents: BTreeMap<String, Agent>,
}

impl Conductor {
    /// Connects to the broker that all hosts use.
    pub(super) fn join(hosts: &HostArguments) -> Result<Self, BenchError> {
        Ok(Self {
            link: AgentLink::of_conductor(hosts.join.as_deref().unwrap_or_default(), &hosts.login)?,
            session: clock::now(),
            agents: BTreeMap::new(),
        })
    }

    pub(super) fn order(
        &mut self,
        to: Option<&str>,
        order: AgentCommand,
    ) -> Result<(), BenchError> {
        self.link.send(&AddressedOrder {
            session: self.session,
            to: to.map(str::to_owned),
            order,
        })
    }

    /// Waits until all agents with a share are present, or as many as requested.
    pub(super) fn call(
        &mut self,
        hosts: &HostArguments,
        progress: &RunProgress,
    ) -> Result<Vec<String>, BenchError> {
        let named = |agents: &BTreeMap<String, Agent>| -> Vec<String> {
            let missing = hosts.share.iter().map(|share| share.agent.clone());
            let mut missing: Vec<String> =
                missing.filter(|name| !agents.contains_key(name)).collect();
            missing.dedup();
            missing
        };
        let deadline = clock::now() + CALL_SECONDS * clock::SECOND;
        let mut next_call = 0;
        loop {
            let now = clock::now();
            let missing = named(&self.agents);
            let enough = !hosts.share.is_empty() || self.agents.len() >= hosts.agents;
            if missing.is_empty() && enough {
                break;
            }
            if interrupted() {
                return Err(BenchError::Interrupted);
            }
            if now > deadline {
                let reason = if hosts.share.is_empty() {
                    format!(
                        "only {} of {} agents are there",
                        self.agents.len(),
                        hosts.agents
                    )
                } else {
                    format!("these agents do not answer: {}", missing.join(", "))
                };
                return Err(BenchError::Settings(reason));
            }
            if now >= next_call {
                self.order(None, AgentCommand::Announce)?;
                next_call = now + CALL_AGAIN;
            }
            progress.update(0.0, || format!("{} agents", self.agents.len()));
            self.listen(next_call.min(deadline))?;
        }
        if hosts.share.is_empty() {
            return Ok(self.agents.keys().take(hosts.agents).cloned().collect());
        }
        Ok(self.agents.keys().cloned().collect())
    }

    /// Processes one report, if one arrives before the deadline.
    pub(super) fn listen(&mut self, deadline: Nanoseconds) -> Result<(), BenchError> {
        let Some((signed, come)) = self.link.receive::<SignedReport>(deadline)? else {
            return Ok(());
        };
        let is_will = matches!(signed.report, AgentReport::Gone);
        if signed.session != self.session && !is_will {
            return Ok(());
        }
        if matches!(signed.report, AgentReport::Present { .. }) {
            self.agents.entry(signed.from.clone()).or_default();
        }
        let Some(agent) = self.agents.get_mut(&signed.from) else {
            return Ok(());
        };
        agent.last_seen = come;
        match signed.report {
            AgentReport::Present { .. } => {}
            AgentReport::Pong {
                number,
                received,
                sent,
            } => agent.pongs.push((number, received, sent, come)),
            AgentReport::Ready => agent.ready = true,
            AgentReport::Progress { received, missing } => {
                (agent.received, agent.missing) = (received, missing);
            }
            report @ AgentReport::Sent { .. } => agent.sent = Some(report),
            report @ (AgentReport::Done { .. } | AgentReport::Result { .. }) => {
                agent.done = Some(report);
            }
            report @ AgentReport::Watched { .. } => agent.watched = Some(report),
            AgentReport::Reached { gate } => agent.reached = gate,
            AgentReport::Doing { done, said } => agent.doing = (done, said),
            AgentReport::Failed { reason } => agent.mark_lost(come, reason),
            AgentReport::Gone => agent.mark_lost(come, "it disconnected".into()),
        }
        Ok(())
    }

    /// Compares an agent's clock over several round trips.
    pub(super) fn compare_clock(&mut self, name: &str) -> Result<Option<Offset>, BenchError> {
        let mut exchanges = Vec::new();
        for number in 0..QUESTIONS {
            let ping_sent = clock::now();
            self.order(Some(name), AgentCommand::Ping { number })?;
            let deadline = ping_sent + clock::SECOND / 2;
            while clock::now() < deadline {
                self.listen(deadline)?;
                let Some(agent) = self.agents.get_mut(name).filter(|agent| agent.is_alive()) else {
                    return Ok(None);
                };
                let pong = agent.pongs.pop().filter(|pong| pong.0 == number);
                if let Some((_, received, sent, pong_received)) = pong {
                    exchanges.push(Exchange {
                        ping_sent,
                        received,
                        sent,
                        pong_received,
                    });
                    break;
                }
            }
        }
        Ok(Offset::of(&exchanges))
    }

    /// Keeps the agents with an assignment, and compares their clocks with ours.
    pub(super) fn engage(&mut self, assignments: Vec<Assignment>) -> Result<(), BenchError> {
        self.agents
            .retain(|name, _| assignments.iter().any(|one| one.agent == *name));
        for assignment in assignments {
            let name = assignment.agent.clone();
            let clock = self.compare_clock(&name)?;
            let unknown = || BenchError::server(&name, "its clock cannot be compared");
            let agent = self.agents.get_mut(&name).ok_or_else(unknown)?;
            (agent.assignment, agent.clock) = (assignment, Some(clock.ok_or_else(unknown)?));
        }
        // The first ones had nothing to report while the clocks of the others were compared.
        let now = clock::now();
        for agent in self.agents.values_mut() {
            agent.last_seen = now;
        }
        Ok(())
    }

    /// Converts a time of our clock to an agent's clock.
    pub(super) fn by_clock_of(&self, name: &str, ours: Nanoseconds) -> Nanoseconds {
        let offset = self.agents.get(name).and_then(|agent| agent.clock);
        ours.saturating_add_signed(offset.map_or(0, |clock| clock.offset_ns))
    }

    /// An agent lost before the measurement ends the run: there are no results to keep.
    pub(super) fn require_all_alive(&self) -> Result<(), BenchError> {
        let mut lost = self.agents.iter().filter(|(_, agent)| !agent.is_alive());
        lost.next().map_or(Ok(()), |(name, agent)| {
            let reason = agent.lost.as_ref().map_or("", |(_, reason)| reason);
            Err(BenchError::server(name, reason))
        })
    }

    pub(super) fn mark_silent_agents_lost(&mut self) {
        let now = clock::now();
        for agent in self.agents.values_mut() {
            if now.saturating_sub(agent.last_seen) > DEAD_AFTER {
                let seconds = clock::seconds(DEAD_AFTER);
                agent.mark_lost(now, format!("no report for {seconds:.0} s"));
            }
        }
    }

    /// Waits until every agent satisfies the condition, is lost, or the time is over.
    pub(super) fn wait_for(
        &mut self,
        seconds: u64,
        has_it: impl Fn(&Agent) -> bool,
    ) -> Result<(), BenchError> {
        let deadline = clock::now() + seconds * clock::SECOND;
        let pending = |agent: &Agent| agent.is_alive() && !has_it(agent);
        while self.agents.values().any(pending) && clock::now() < deadline {
            self.listen(clock::now() + CHECK_INTERVAL)?;
            self.mark_silent_agents_lost();
        }
        let now = clock::now();
        for agent in self.agents.values_mut().filter(|agent| pending(agent)) {
            agent.mark_lost(now, "it did not report its results".into());
        }
        Ok(())
    }
}

impl Agent {
    fn mark_lost(&mut self, now: Nanoseconds, reason: String) {
        self.lost.get_or_insert((now, reason));
    }
}
