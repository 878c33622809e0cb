//! FANOUT on agents: publishers and subscribers on different hosts, on one schedule.

use std::collections::BTreeMap;

use super::conductor::{Agent, CHECK_INTERVAL, Conductor, GATHER_SECONDS};
use super::merge_fanout::MergedFanout;
use super::message::{AgentCommand, AgentReport, FanoutParameters, Seconds};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::{Assignment, assign};
use crate::interrupt::interrupted;
use crate::outcome::RunOutcome;
use crate::progress::RunProgress;
use crate::scenario::fanout::{FanoutArguments, Plan, READY_SECONDS};
use crate::target::RunningTarget;

/// The time between sending an order and its execution; longer than the order takes to reach every
/// agent.
const LEAD: Nanoseconds = clock::SECOND;

/// Executes a plan of FANOUT on agents.
pub(crate) fn conduct(
    arguments: &FanoutArguments,
    plan: &Plan,
    target: &RunningTarget,
    progress: &RunProgress,
) -> Result<RunOutcome, BenchError> {
    let (url, publish_url) = arguments.urls(target)?;
    let seconds = Seconds {
        warm_up: arguments.warm_up,
        measure: arguments.seconds,
        drain: arguments.drain,
    };
    let orders = FanoutParameters::of(plan, url.to_string(), publish_url.to_string(), seconds);
    let hosts = &arguments.hosts;
    let mut conductor = Conductor::join(hosts)?;
    let present = conductor.call(hosts, progress)?;
    let port = plan.subscribe_at.address.port();
    let assignments = assign(
        &hosts.share,
        &present,
        plan.publishers,
        plan.subscribers,
        port,
    )?;
    let result = conductor.measure(assignments, orders, plan, progress);
    if result.is_err() {
        // The error is reported either way; agents that miss this order time out.
        let _ = conductor.order(None, AgentCommand::Abort);
    }
    result
}

impl Conductor {
    fn measure(
        &mut self,
        assignments: Vec<Assignment>,
        orders: FanoutParameters,
        plan: &Plan,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        self.engage(assignments)?;
        let names: Vec<String> = self.agents.keys().cloned().collect();
        self.prepare(&orders, plan, progress)?;
        let begin = clock::now() + LEAD;
        let measure = begin + clock::from_seconds(orders.seconds.warm_up);
        let end = measure + clock::from_seconds(orders.seconds.measure);
        for name in &names {
            let go = AgentCommand::Go {
                begin: self.by_clock_of(name, begin),
                measure: self.by_clock_of(name, measure),
                end: self.by_clock_of(name, end),
            };
            self.order(Some(name), go)?;
        }
        let stopped = self.watch(begin, end, progress)?;
        self.drain(&orders, plan)?;
        let sent = self.sent(plan);
        self.order(None, AgentCommand::Finish { sent })?;
        self.wait_for(GATHER_SECONDS, |agent| agent.done.is_some())?;
        for name in &names {
            if self.agents.get(name).is_some_and(Agent::is_alive)
                && let Some(later) = self.compare_clock(name)?
                && let Some(agent) = self.agents.get_mut(name)
            {
                agent.clock = agent.clock.map(|first| first.widened_by(later));
            }
        }
        let gathered = MergedFanout {
            agents: std::mem::take(&mut self.agents),
            begin,
            seconds: clock::seconds(stopped.min(end).saturating_sub(measure).max(1)),
            interrupted: interrupted(),
        };
        Ok(gathered.outcome(plan))
    }

    /// Sends the orders and waits until all agents are ready.
    fn prepare(
        &mut self,
        orders: &FanoutParameters,
        plan: &Plan,
        progress: &RunProgress,
    ) -> Result<(), BenchError> {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for name in &names {
            let Some(agent) = self.agents.get(name) else {
                continue;
            };
            let assignment = agent.assignment.clone();
            let clock_shift_ns = self.clock_shifts(agent, plan.publishers);
            let prepare = AgentCommand::Prepare {
                orders: Box::new(orders.clone()),
                assignment,
                clock_shift_ns,
            };
            self.order(Some(name), prepare)?;
        }
        let deadline = clock::now() + READY_SECONDS * clock::SECOND;
        while !self.agents.values().all(|agent| agent.ready) {
            self.listen(clock::now() + CHECK_INTERVAL)?;
            self.require_all_alive()?;
            if interrupted() {
                return Err(BenchError::Interrupted);
            }
            if clock::now() > deadline {
                let waiting = self.agents.iter().filter(|(_, agent)| !agent.ready);
                let names: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
                return Err(BenchError::server(&names.join(", "), "not ready in time"));
            }
            let ready = self.agents.values().filter(|agent| agent.ready).count();
            progress.update(0.0, || format!("{ready} of {} agents ready", names.len()));
        }
        Ok(())
    }

    /// For each publisher, the difference that converts its times to this agent's clock.
    fn clock_shifts(&self, agent: &Agent, publishers: u16) -> Vec<i64> {
        let offset = |agent: &Agent| agent.clock.map_or(0, |clock| clock.offset_ns);
        let host_of = |publisher: u16| {
            let mut agents = self.agents.values();
            agents.find(|other| other.assignment.publishers.contains(&publisher))
        };
        (0..publishers)
            .map(|publisher| offset(agent) - host_of(publisher).map_or(0, offset))
            .collect()
    }

    /// Monitors the agents until the end of the measurement and returns that time.
    fn watch(
        &mut self,
        begin: Nanoseconds,
        end: Nanoseconds,
        progress: &RunProgress,
    ) -> Result<Nanoseconds, BenchError> {
        while clock::now() < end && !interrupted() {
            self.listen(end.min(clock::now() + CHECK_INTERVAL))?;
            self.mark_silent_agents_lost();
            let now = clock::now();
            let done = now.saturating_sub(begin) as f64 / (end - begin) as f64;
            progress.update(done, || self.describe(now.saturating_sub(begin)));
        }
        Ok(clock::now())
    }

    fn describe(&self, span: Nanoseconds) -> String {
        let received: u64 = self.agents.values().map(|agent| agent.received).sum();
        let missing: i64 = self.agents.values().map(|agent| agent.missing).sum();
        let alive = self
            .agents
            .values()
            .filter(|agent| agent.is_alive())
            .count();
        let rate = received as f64 / clock::seconds(span.max(1));
        format!("{alive} agents, {rate:.0}/s, {missing} missing")
    }

    /// Waits for the last deliveries, as on one host.
    fn drain(&mut self, orders: &FanoutParameters, plan: &Plan) -> Result<(), BenchError> {
        self.wait_for(GATHER_SECONDS, |agent| {
            agent.assignment.publishers.is_empty() || agent.sent.is_some()
        })?;
        let sent = self.sent(plan);
        let expected = |agent: &Agent| -> u64 {
            let of_publisher = |(publisher, sent): (usize, &Option<u32>)| {
                let subscribers =
                    plan.subscribers_among(&agent.assignment.subscribers, publisher as u16);
                u64::from(sent.unwrap_or(0)) * subscribers as u64
            };
            sent.iter().enumerate().map(of_publisher).sum()
        };
        let patience = clock::from_seconds(orders.seconds.drain);
        let received = |agents: &BTreeMap<String, Agent>| -> u64 {
            agents.values().map(|agent| agent.received).sum()
        };
        let (mut last_count, mut last_change) = (received(&self.agents), clock::now());
        while self
            .agents
            .values()
            .any(|agent| agent.is_alive() && agent.received < expected(agent))
            && clock::now() - last_change < patience
        {
            self.listen(clock::now() + CHECK_INTERVAL)?;
            self.mark_silent_agents_lost();
            let count = received(&self.agents);
            if count != last_count {
                (last_count, last_change) = (count, clock::now());
            }
        }
        Ok(())
    }

    /// The number sent by each publisher; unknown if its host was lost.
    fn sent(&self, plan: &Plan) -> Vec<Option<u32>> {
        let of = |publisher: u16| {
            let mut agents = self.agents.values();
            let host = agents.find(|agent| agent.assignment.publishers.contains(&publisher))?;
            match &host.sent {
                Some(AgentReport::Sent { sent, .. }) => sent.get(usize::from(publisher)).copied(),
                _ => None,
            }
        };
        (0..plan.publishers).map(of).collect()
    }
}
