//! `gatepost bench agent`: waits for a conductor and executes its orders.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::backoff::{JoinBackoff, LASTING};
use super::fanout_worker::FanoutRun;
use super::link::AgentLink;
use super::message::{AddressedOrder, AgentCommand, AgentReport, FanoutParameters, SignedReport};
use super::scenario_worker::ScenarioWorker;
use super::workload::Workload;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::{Assignment, BrokerLogin};
use crate::interrupt::{self, is_signalled};
use crate::process::Machine;
use crate::target::Endpoint;

/// Interval at which reports of the worker threads are collected.
const COLLECTED_EVERY: Nanoseconds = clock::SECOND / 50;
/// Interval at which an agent that waits checks for an interruption.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of `agent`.
#[derive(Debug, Clone, clap::Args)]
pub struct AgentArguments {
    /// The broker that the conductor uses, mqtt:// or mqtts://: any MQTT broker, preferably not
    /// the one under test
    #[arg(long, value_name = "URL")]
    join: String,
    /// The name under which the conductor assigns it a share [default: the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End after one run, instead of waiting for the next
    #[arg(long)]
    once: bool,
    /// Run the commands that CALL names, as this user: everybody who may publish to the broker can
    /// choose them
    #[arg(long)]
    allow_commands: bool,
    #[command(flatten)]
    login: BrokerLogin,
}

/// Serves until it is interrupted. If the broker is lost, the run is abandoned and the agent joins
/// again.
pub fn run(arguments: &AgentArguments) -> Result<(), BenchError> {
    let name = arguments.name.clone().unwrap_or_else(host_name);
    // Published by the broker when this agent disconnects unexpectedly; valid for any session.
    let gone = SignedReport {
        session: 0,
        from: name.clone(),
        report: AgentReport::Gone,
    };
    let will =
        serde_json::to_vec(&gone).map_err(|error| BenchError::Settings(error.to_string()))?;
    let joins = || AgentLink::of_agent(&arguments.join, &arguments.login, &name, &will);
    // The first attempt is not repeated: a mistake in the arguments must be seen at once.
    let link = joins()?;
    println!("agent {name}: joined {}", arguments.join);
    let mut agent = AgentLoop {
        name: name.clone(),
        link,
        session: 0,
        running: None,
        scenario: None,
        allows_commands: arguments.allow_commands,
        runs: 0,
    };
    let (mut backoff, mut joined) = (JoinBackoff::new(), Instant::now());
    while !is_signalled() && (!arguments.once || agent.runs == 0) {
        let Err(lost) = agent.turn() else { continue };
        // The conductor has lost the broker too, or has reported this agent as lost.
        agent.forget();
        backoff.lasted(joined.elapsed());
        let mut reason = lost.to_string();
        if joined.elapsed() < LASTING {
            reason += " (if another agent has this name too, give one of them another --name)";
        }
        let Some(link) = join_again(&name, reason, &mut backoff, joins) else {
            break;
        };
        println!("agent {name}: joined {} again", arguments.join);
        (agent.link, joined) = (link, Instant::now());
    }
    Ok(())
}

/// Tries to join until it succeeds; `None` if this process is to end.
fn join_again(
    name: &str,
    mut reason: String,
    backoff: &mut JoinBackoff,
    joins: impl Fn() -> Result<AgentLink, BenchError>,
) -> Option<AgentLink> {
    loop {
        let pause = backoff.pause();
        let seconds = pause.as_secs_f64();
        eprintln!("agent {name}: {reason}; it joins again in {seconds:.1} s");
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if is_signalled() {
                return None;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        match joins() {
            Ok(link) => return Some(link),
            Err(error) => reason = error.to_string(),
        }
    }
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "agent".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether a target is a command. A text that is neither a command nor a URL is refused later.
fn is_command(endpoint: &str) -> bool {
    matches!(endpoint.parse(), Ok(Endpoint::Command(_)))
}

struct AgentLoop {
    name: String,
    link: AgentLink,
    session: u64,
    /// Its share of a FANOUT run.
    running: Option<FanoutRun>,
    /// Its share of any other scenario.
    scenario: Option<ScenarioWorker>,
    allows_commands: bool,
    /// Completed runs.
    runs: usize,
}

impl AgentLoop {
    fn turn(&mut self) -> Result<(), BenchError> {
        if let Some((order, come)) = self
            .link
            .receive::<AddressedOrder>(clock::now() + COLLECTED_EVERY)?
        {
            let ours = order.to.as_ref().is_none_or(|to| *to == self.name);
            if ours
                && (order.session == self.session || matches!(order.order, AgentCommand::Announce))
            {
                self.session = order.session;
                if let Err(error) = self.execute(order.order, come) {
                    self.forget();
                    let reason = error.to_string();
                    self.send(AgentReport::Failed { reason })?;
                }
            }
        }
        let now = clock::now();
        let of_fanout = self
            .running
            .as_mut()
            .map(|running| running.due_reports(now));
        let of_workload = self
            .scenario
            .as_mut()
            .map(|scenario| scenario.due_reports(now));
        for report in of_fanout.or(of_workload).unwrap_or_default() {
            if matches!(report, AgentReport::Failed { .. }) {
                self.forget();
            }
            self.send(report)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.running = None;
        self.scenario = None;
    }

    fn execute(&mut self, order: AgentCommand, come: Nanoseconds) -> Result<(), BenchError> {
        match order {
            AgentCommand::Announce => {
                let machine = Box::new(Machine::current());
                self.send(AgentReport::Present { machine })
            }
            AgentCommand::Ping { number } => self.send(AgentReport::Pong {
                number,
                received: come,
                sent: clock::now(),
            }),
            AgentCommand::Prepare {
                orders,
                assignment,
                clock_shift_ns,
            } => self.prepare_fanout(&orders, assignment, clock_shift_ns),
            AgentCommand::Go {
                begin,
                measure,
                end,
            } => {
                if let Some(running) = &mut self.running {
                    running.start(begin, measure, end);
                }
                Ok(())
            }
            AgentCommand::Finish { sent } => self.finish_fanout(&sent),
            AgentCommand::RunWorkload {
                workload,
                endpoint,
                clients,
                server,
            } => self.run_workload(workload, &endpoint, clients, server),
            AgentCommand::Pass { at } => {
                if let Some(scenario) = &mut self.scenario {
                    scenario.pass(at);
                }
                Ok(())
            }
            AgentCommand::Stop => {
                // Reset when the scenario ends; an agent without a share has nothing to stop.
                interrupt::stop_run(self.scenario.is_some());
                Ok(())
            }
            AgentCommand::EndWorkload => {
                let Some(scenario) = self.scenario.take() else {
                    return Ok(());
                };
                self.runs += 1;
                scenario.leave().map_or(Ok(()), |report| self.send(report))
            }
            AgentCommand::Abort => {
                self.forget();
                Ok(())
            }
        }
    }

    fn run_workload(
        &mut self,
        workload: Workload,
        endpoint: &str,
        clients: usize,
        server: Option<u16>,
    ) -> Result<(), BenchError> {
        if clients > 0 && !self.allows_commands && is_command(endpoint) {
            return Err(BenchError::Settings(
                "it runs no commands: start the agent with --allow-commands".into(),
            ));
        }
        println!(
            "agent {}: {}, {clients} clients at {endpoint}",
            self.name,
            workload.name()
        );
        // A run of a lost conductor must have ended before the next one begins.
        self.forget();
        self.scenario = Some(ScenarioWorker::join(workload, endpoint, clients, server)?);
        Ok(())
    }

    fn prepare_fanout(
        &mut self,
        orders: &FanoutParameters,
        assignment: Assignment,
        clock_shift_ns: Vec<i64>,
    ) -> Result<(), BenchError> {
        println!(
            "agent {}: {} subscribers, {} publishers at {}",
            self.name,
            assignment.subscribers.len(),
            assignment.publishers.len(),
            orders.url
        );
        self.running = Some(FanoutRun::prepare(orders, assignment, clock_shift_ns)?);
        Ok(())
    }

    fn finish_fanout(&mut self, sent: &[Option<u32>]) -> Result<(), BenchError> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        self.runs += 1;
        let report = running.finish(sent)?;
        self.send(report)
    }

    fn send(&mut self, report: AgentReport) -> Result<(), BenchError> {
        self.link.send(&SignedReport {
            session: self.session,
            from: self.name.clone(),
            report,
        })
    }
}
