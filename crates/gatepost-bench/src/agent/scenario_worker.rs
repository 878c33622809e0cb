//! An agent's share of a scenario other than FANOUT: a thread that runs the scenario with this
//! agent's clients, synchronised with the other agents at gates.
//!
//! All agents pass a gate at the same time: bursts begin everywhere at once, and connections stay
//! open until the last host has been measured.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::message::AgentReport;
use super::workload::Workload;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::{interrupted, stop_run};
use crate::outcome::RunOutcome;
use crate::process::{Sampler, Usage, WatchedServer, listener_of_port};
use crate::progress::{OtherHosts, RunProgress};
use crate::target::RunningTarget;

/// Interval of progress reports.
const REPORT_EVERY: Nanoseconds = clock::SECOND / 5;
/// Interval at which a waiting thread checks for an interruption.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A scenario in progress, and the server if it is on this host.
pub(super) struct ScenarioWorker {
    gates: Arc<Gates>,
    pass: Sender<Nanoseconds>,
    result: Receiver<Result<RunOutcome, BenchError>>,
    thread: Option<JoinHandle<()>>,
    reported_gate: u32,
    next_report: Nanoseconds,
    server: Option<MonitoredServer>,
}

/// State that the scenario's thread shares with the agent.
#[derive(Default)]
struct Gates {
    reached: AtomicU32,
    doing: Mutex<(f64, String)>,
}

/// The scenario thread's end of the synchronisation.
struct GateClient {
    gates: Arc<Gates>,
    passed: Receiver<Nanoseconds>,
}

impl OtherHosts for GateClient {
    fn report(&self, done: f64, message: String) {
        // Poisoned only by a panic, which is reported in its own right.
        if let Ok(mut doing) = self.gates.doing.lock() {
            *doing = (done, message);
        }
    }

    fn wait(&self) -> Result<(), BenchError> {
        self.gates.reached.fetch_add(1, Ordering::Release);
        loop {
            match self.passed.recv_timeout(CHECK_INTERVAL) {
                Ok(at) => {
                    clock::sleep_until(at);
                    return Ok(());
                }
                // The scenario notices the interruption too, and ends with its results so far.
                Err(RecvTimeoutError::Timeout) if interrupted() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(BenchError::Interrupted),
            }
        }
    }
}

/// The server, monitored from the first gate on.
struct MonitoredServer {
    port: u16,
    sampler: Option<Sampler>,
    watched: Option<WatchedServer>,
    usage: Vec<Usage>,
}

impl ScenarioWorker {
    /// Starts the scenario; without clients, only the server is monitored.
    pub(super) fn join(
        workload: Workload,
        endpoint: &str,
        clients: usize,
        server: Option<u16>,
    ) -> Result<Self, BenchError> {
        let target = RunningTarget::from_endpoint(endpoint.parse()?);
        let gates = Arc::new(Gates::default());
        let (pass, passed) = mpsc::channel();
        let (send_result, result) = mpsc::channel();
        let gate = GateClient {
            gates: Arc::clone(&gates),
            passed,
        };
        let thread = (clients > 0).then(|| {
            thread::spawn(move || {
                let progress = RunProgress::among(Box::new(gate));
                let scenario = workload.with_clients(clients).scenario();
                let outcome = scenario.and_then(|scenario| scenario.run(&target, &progress));
                // If the run was aborted, the receiver is gone and the result is not needed.
                let _ = send_result.send(outcome);
            })
        });
        Ok(Self {
            gates,
            pass,
            result,
            thread,
            reported_gate: 0,
            next_report: 0,
            server: server.map(|port| MonitoredServer {
                port,
                sampler: None,
                watched: None,
                usage: Vec::new(),
            }),
        })
    }

    /// Lets the scenario pass its gate at this time.
    pub(super) fn pass(&mut self, at: Nanoseconds) {
        if let Some(server) = &mut self.server {
            server.record_usage();
        }
        // The thread is gone only if it has ended, and its result reports that.
        let _ = self.pass.send(at);
    }

    /// The reports that are due.
    pub(super) fn due_reports(&mut self, now: Nanoseconds) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        let gate = self.gates.reached.load(Ordering::Acquire);
        if gate > self.reported_gate {
            self.reported_gate = gate;
            reports.push(AgentReport::Reached { gate });
        }
        match self.result.try_recv() {
            Ok(Ok(outcome)) => reports.push(AgentReport::Result {
                operations: outcome.operations.clone(),
                outcome: Box::new(outcome),
            }),
            Ok(Err(error)) => {
                let reason = error.to_string();
                reports.push(AgentReport::Failed { reason });
            }
            // Still running, or already reported.
            Err(_) => {}
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_EVERY;
            let doing = self.gates.doing.lock();
            let (done, said) = doing.map(|doing| doing.clone()).unwrap_or_default();
            reports.push(AgentReport::Doing { done, said });
        }
        reports
    }

    /// Ends the share; the record of the server, if it was monitored.
    pub(super) fn leave(mut self) -> Option<AgentReport> {
        self.server.take().map(|server| {
            let costs = server.sampler.map(Sampler::finish);
            AgentReport::Watched {
                server: costs.and_then(|costs| costs.server).map(Box::new),
                usage: server.usage,
            }
        })
    }
}

impl Drop for ScenarioWorker {
    /// Ends the thread, which notices the stopped run or the closed channel of its gates.
    fn drop(&mut self) {
        stop_run(true);
        if let Some(thread) = self.thread.take() {
            // A panic was printed by the thread, and its result is reported as missing.
            let _ = thread.join();
        }
        stop_run(false);
    }
}

impl MonitoredServer {
    fn record_usage(&mut self) {
        if self.sampler.is_none() {
            self.watched = listener_of_port(self.port).map(WatchedServer::Process);
            self.sampler = Some(Sampler::start(self.watched.clone()));
        }
        self.usage
            .extend(self.watched.as_ref().and_then(WatchedServer::usage));
    }
}
