//! Any scenario other than FANOUT on agents: each agent runs it with its share of the clients, and
//! the conductor lets all of them pass the gates between its phases at the same time.

use std::path::Path;

use super::conductor::{Agent, CHECK_INTERVAL, Conductor, GATHER_SECONDS};
use super::merge::Merged;
use super::message::AgentCommand;
use super::workload::Workload;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::{HostArguments, assign_clients};
use crate::interrupt::interrupted;
use crate::outcome::{Headline, RunOutcome};
use crate::peer::PeerDefinition;
use crate::progress::RunProgress;
use crate::scenario::web::hide_header_values;
use crate::scenario::{FloorOf, Scenario};
use crate::target::{Endpoint, RunningTarget};

/// The time between sending an order and its execution; longer than the order takes to reach every
/// agent.
const LEAD: Nanoseconds = clock::SECOND / 5;

/// A scenario whose clients are on other hosts.
pub(crate) struct DistributedScenario {
    hosts: HostArguments,
    workload: Workload,
    /// The scenario on this host, for everything that does not depend on where it runs.
    here: Box<dyn Scenario>,
}

impl DistributedScenario {
    /// This scenario on these hosts.
    pub(crate) fn new(hosts: HostArguments, workload: Workload) -> Result<Self, BenchError> {
        workload.check()?;
        // One client, since this host need not be able to run all of them.
        let here = workload.clone().with_clients(1).scenario()?;
        Ok(Self {
            hosts,
            workload,
            here,
        })
    }

    /// The number of clients. In CALL, each agent that does not only monitor is one client.
    fn clients(&self) -> (&'static str, usize) {
        let named = self.hosts.share.iter();
        let callers = named.filter(|share| share.is_client()).count();
        let agents = if self.hosts.share.is_empty() {
            self.hosts.agents
        } else {
            callers
        };
        self.workload.clients(agents)
    }

    fn conduct(
        &self,
        conductor: &mut Conductor,
        present: &[String],
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let port = match &target.endpoint {
            Endpoint::Url(url) => Some(url.port),
            Endpoint::Command(_) => None,
        };
        let (unit, clients) = self.clients();
        conductor.engage(assign_clients(&self.hosts.share, present, clients, port)?)?;
        let endpoint = target.endpoint.to_string();
        let names: Vec<String> = conductor.agents.keys().cloned().collect();
        for name in &names {
            let Some(agent) = conductor.agents.get(name) else {
                continue;
            };
            let run_workload = AgentCommand::RunWorkload {
                workload: self.workload.clone(),
                endpoint: endpoint.clone(),
                clients: agent.assignment.clients,
                server: agent.assignment.server,
            };
            conductor.order(Some(name), run_workload)?;
        }
        let begin = conductor.pass_gates(progress)?;
        conductor.order(None, AgentCommand::EndWorkload)?;
        conductor.wait_for(GATHER_SECONDS, |agent| {
            agent.assignment.server.is_none() || agent.watched.is_some()
        })?;
        let merged = Merged {
            agents: std::mem::take(&mut conductor.agents),
            begin,
            unit,
            growth: self.workload.growth(),
        };
        Ok(merged.outcome())
    }
}

impl Scenario for DistributedScenario {
    fn name(&self) -> &'static str {
        self.here.name()
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self.workload)[self.workload.name()].take();
        hide_header_values(&mut settings);
        settings["join"] = serde_json::json!(self.hosts.join);
        settings["share"] = serde_json::json!(self.hosts.share);
        settings["agents"] = self.hosts.agents.into();
        settings
    }

    fn headlines(&self) -> Vec<Headline> {
        self.here.headlines()
    }

    fn floors(&self) -> Vec<FloorOf> {
        self.here.floors()
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        self.here.words()
    }

    fn prepare_peer(&self, peer: &PeerDefinition, folder: &Path) -> Result<(), BenchError> {
        self.here.prepare_peer(peer, folder)
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let mut conductor = Conductor::join(&self.hosts)?;
        let present = conductor.call(&self.hosts, progress)?;
        let result = self.conduct(&mut conductor, &present, target, progress);
        if result.is_err() {
            // The error is reported either way; agents that miss this order time out.
            let _ = conductor.order(None, AgentCommand::Abort);
        }
        result
    }
}

impl Conductor {
    /// Waits until all agents have reported results; returns the time of the first gate.
    fn pass_gates(&mut self, progress: &RunProgress) -> Result<Nanoseconds, BenchError> {
        let (mut passed, mut begin, mut stopped) = (0, 0, false);
        while self.agents.values().any(Agent::is_running) {
            self.listen(clock::now() + CHECK_INTERVAL)?;
            self.mark_silent_agents_lost();
            if passed == 0 {
                self.require_all_alive()?;
                if interrupted() {
                    return Err(BenchError::Interrupted);
                }
            }
            if interrupted() && !stopped {
                stopped = true;
                self.order(None, AgentCommand::Stop)?;
            }
            let mut running = self.agents.values().filter(|agent| agent.is_running());
            let all_wait = running.all(|agent| agent.reached > passed);
            if all_wait && self.agents.values().any(Agent::is_running) {
                passed += 1;
                let at = clock::now() + LEAD;
                begin = if passed == 1 { at } else { begin };
                self.pass(at)?;
            }
            self.show(progress);
        }
        Ok(begin)
    }

    fn pass(&mut self, at: Nanoseconds) -> Result<(), BenchError> {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for name in names {
            let at = self.by_clock_of(&name, at);
            self.order(Some(&name), AgentCommand::Pass { at })?;
        }
        Ok(())
    }

    fn show(&self, progress: &RunProgress) {
        let running = self.agents.iter().filter(|(_, agent)| agent.is_running());
        let slowest = running.min_by(|one, other| one.1.doing.0.total_cmp(&other.1.doing.0));
        if let Some((name, agent)) = slowest {
            let alive = self.agents.values().filter(|agent| agent.is_alive());
            let (done, said) = &agent.doing;
            progress.update(*done, || {
                format!("{} agents; {name}: {said}", alive.count())
            });
        }
    }
}
