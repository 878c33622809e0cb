//! The conductor: calls the agents, compares clocks, gives the orders, and keeps watch over them.

use super::clocks::{Exchange, Offset};
use super::gather::Gathered;
use super::link::Link;
use super::message::{Addressed, Order, Orders, Signed, Word};
use super::shares::{Assignment, HostArguments, assign};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::scenario::fanout::{Plan, READY_SECONDS};
use std::collections::BTreeMap;

/// How long agents may take to answer a call.
const CALL_SECONDS: u64 = 30;
/// Between two calls.
const CALL_AGAIN: Nanoseconds = clock::SECOND / 2;
/// Questions by which a clock is compared.
const QUESTIONS: u32 = 40;
/// An agent that says nothing for so long is dead.
const DEAD_AFTER: Nanoseconds = 5 * clock::SECOND;
/// Between the order to begin and the beginning: longer than it takes to reach every agent.
const LEAD: Nanoseconds = clock::SECOND;
/// How long the last histograms may take to come.
const GATHER_SECONDS: u64 = 30;
/// Between two looks at who is silent.
const LOOK: Nanoseconds = clock::SECOND / 20;

/// Runs FANOUT on agents.
pub(crate) fn conduct(
    hosts: &HostArguments,
    orders: Orders,
    plan: &Plan,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let url = hosts.join.as_deref().unwrap_or_default();
    let mut conductor = Conductor {
        link: Link::of_conductor(url)?,
        session: clock::now(),
        agents: BTreeMap::new(),
    };
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
        // The error says what went wrong; that agents are told is a courtesy.
        let _ = conductor.order(None, Order::Abort);
    }
    result
}

/// What is known of an agent.
#[derive(Debug, Default)]
pub(super) struct Agent {
    pub(super) assignment: Assignment,
    pub(super) clock: Option<Offset>,
    pub(super) last_heard: Nanoseconds,
    pub(super) ready: bool,
    pub(super) received: u64,
    pub(super) missing: i64,
    pub(super) sent: Option<Word>,
    pub(super) done: Option<Word>,
    /// When and why it was lost.
    pub(super) lost: Option<(Nanoseconds, String)>,
    pongs: Vec<(u32, Nanoseconds, Nanoseconds, Nanoseconds)>,
}

impl Agent {
    pub(super) fn is_alive(&self) -> bool {
        self.lost.is_none()
    }
}

struct Conductor {
    link: Link,
    session: u64,
    agents: BTreeMap<String, Agent>,
}

impl Conductor {
    fn order(&mut self, to: Option<&str>, order: Order) -> Result<(), BenchError> {
        self.link.say(&Addressed {
            session: self.session,
            to: to.map(str::to_owned),
            order,
        })
    }

    /// Calls until all are there that have a share, or as many as were told.
    fn call(
        &mut self,
        hosts: &HostArguments,
        progress: &Progress,
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
                self.order(None, Order::Call)?;
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

    /// Hears one word, if there is one before the deadline.
    fn listen(&mut self, deadline: Nanoseconds) -> Result<(), BenchError> {
        let Some((signed, come)) = self.link.hear::<Signed>(deadline)? else {
            return Ok(());
        };
        let is_will = matches!(signed.word, Word::Gone);
        if signed.session != self.session && !is_will {
            return Ok(());
        }
        if matches!(signed.word, Word::Present { .. }) {
            self.agents.entry(signed.from.clone()).or_default();
        }
        let Some(agent) = self.agents.get_mut(&signed.from) else {
            return Ok(());
        };
        agent.last_heard = come;
        match signed.word {
            Word::Present { .. } => {}
            Word::Pong {
                number,
                received,
                sent,
            } => agent.pongs.push((number, received, sent, come)),
            Word::Ready => agent.ready = true,
            Word::Progress { received, missing } => {
                (agent.received, agent.missing) = (received, missing);
            }
            word @ Word::Sent { .. } => agent.sent = Some(word),
            word @ Word::Done { .. } => agent.done = Some(word),
            Word::Failed { reason } => agent.lose(come, reason),
            Word::Gone => agent.lose(come, "it is gone".into()),
        }
        Ok(())
    }

    /// Asks an agent for its time, again and again.
    fn compare_clock(&mut self, name: &str) -> Result<Option<Offset>, BenchError> {
        let mut exchanges = Vec::new();
        for number in 0..QUESTIONS {
            let asked = clock::now();
            self.order(Some(name), Order::Ping { number })?;
            let deadline = asked + clock::SECOND / 2;
            while clock::now() < deadline {
                self.listen(deadline)?;
                let Some(agent) = self.agents.get_mut(name).filter(|agent| agent.is_alive()) else {
                    return Ok(None);
                };
                let pong = agent.pongs.pop().filter(|pong| pong.0 == number);
                if let Some((_, received, sent, answered)) = pong {
                    exchanges.push(Exchange {
                        asked,
                        received,
                        sent,
                        answered,
                    });
                    break;
                }
            }
        }
        Ok(Offset::of(&exchanges))
    }

    fn measure(
        &mut self,
        assignments: Vec<Assignment>,
        orders: Orders,
        plan: &Plan,
        progress: &Progress,
    ) -> Result<Outcome, BenchError> {
        let taking_part: Vec<String> = assignments
            .iter()
            .map(|assignment| assignment.agent.clone())
            .collect();
        self.agents.retain(|name, _| taking_part.contains(name));
        for assignment in assignments {
            let name = assignment.agent.clone();
            let clock = self.compare_clock(&name)?;
            let unknown = || BenchError::server(&name, "its clock cannot be compared");
            let agent = self.agents.get_mut(&name).ok_or_else(unknown)?;
            (agent.assignment, agent.clock) = (assignment, Some(clock.ok_or_else(unknown)?));
        }
        self.prepare(&orders, plan, progress)?;
        let begin = clock::now() + LEAD;
        let measure = begin + clock::from_seconds(orders.seconds.warm_up);
        let end = measure + clock::from_seconds(orders.seconds.measure);
        for name in &taking_part {
            let by_its_clock = |ours: Nanoseconds| {
                let offset = self.agents.get(name).and_then(|agent| agent.clock);
                ours.saturating_add_signed(offset.map_or(0, |clock| clock.offset_ns))
            };
            let go = Order::Go {
                begin: by_its_clock(begin),
                measure: by_its_clock(measure),
                end: by_its_clock(end),
            };
            self.order(Some(name), go)?;
        }
        let stopped = self.watch(begin, end, progress)?;
        self.drain(&orders, plan)?;
        let sent = self.sent(plan);
        self.order(None, Order::Finish { sent })?;
        self.wait_for(GATHER_SECONDS, |agent| agent.done.is_some())?;
        for name in &taking_part {
            if self.agents.get(name).is_some_and(Agent::is_alive)
                && let Some(later) = self.compare_clock(name)?
                && let Some(agent) = self.agents.get_mut(name)
            {
                agent.clock = agent.clock.map(|first| first.widened_by(later));
            }
        }
        let gathered = Gathered {
            agents: std::mem::take(&mut self.agents),
            begin,
            seconds: clock::seconds(stopped.min(end).saturating_sub(measure).max(1)),
            interrupted: interrupted(),
        };
        Ok(gathered.outcome(plan))
    }

    /// Gives the orders, and waits until everyone is ready. Who dies now ends the run: nothing
    /// has been measured yet that could be kept.
    fn prepare(
        &mut self,
        orders: &Orders,
        plan: &Plan,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for name in &names {
            let Some(agent) = self.agents.get(name) else {
                continue;
            };
            let assignment = agent.assignment.clone();
            let clock_shift_ns = self.clock_shifts(agent, plan.publishers);
            let prepare = Order::Prepare {
                orders: Box::new(orders.clone()),
                assignment,
                clock_shift_ns,
            };
            self.order(Some(name), prepare)?;
        }
        let deadline = clock::now() + READY_SECONDS * clock::SECOND;
        while !self.agents.values().all(|agent| agent.ready) {
            self.listen(clock::now() + LOOK)?;
            if let Some((name, agent)) = self.agents.iter().find(|(_, agent)| !agent.is_alive()) {
                let reason = agent.lost.as_ref().map_or("", |(_, reason)| reason);
                return Err(BenchError::server(name, reason));
            }
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

    /// What to add to each publisher's times to have them by this agent's clock.
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

    /// Keeps watch until the end of the measurement; gives when that was.
    fn watch(
        &mut self,
        begin: Nanoseconds,
        end: Nanoseconds,
        progress: &Progress,
    ) -> Result<Nanoseconds, BenchError> {
        while clock::now() < end && !interrupted() {
            self.listen(end.min(clock::now() + LOOK))?;
            self.lose_the_silent();
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

    fn lose_the_silent(&mut self) {
        let now = clock::now();
        for agent in self.agents.values_mut() {
            if now.saturating_sub(agent.last_heard) > DEAD_AFTER {
                let seconds = clock::seconds(DEAD_AFTER);
                agent.lose(now, format!("it said nothing for {seconds:.0} s"));
            }
        }
    }

    /// Waits until the living have it, or are lost, or the time is over.
    fn wait_for(
        &mut self,
        seconds: u64,
        has_it: impl Fn(&Agent) -> bool,
    ) -> Result<(), BenchError> {
        let deadline = clock::now() + seconds * clock::SECOND;
        let pending = |agent: &Agent| agent.is_alive() && !has_it(agent);
        while self.agents.values().any(pending) && clock::now() < deadline {
            self.listen(clock::now() + LOOK)?;
            self.lose_the_silent();
        }
        let now = clock::now();
        for agent in self.agents.values_mut().filter(|agent| pending(agent)) {
            agent.lose(now, "it did not tell its results".into());
        }
        Ok(())
    }

    /// Waits for the last deliveries, as at one host.
    fn drain(&mut self, orders: &Orders, plan: &Plan) -> Result<(), BenchError> {
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
            self.listen(clock::now() + LOOK)?;
            self.lose_the_silent();
            let count = received(&self.agents);
            if count != last_count {
                (last_count, last_change) = (count, clock::now());
            }
        }
        Ok(())
    }

    /// What each publisher sent; unknown of those whose host was lost.
    fn sent(&self, plan: &Plan) -> Vec<Option<u32>> {
        let of = |publisher: u16| {
            let mut agents = self.agents.values();
            let host = agents.find(|agent| agent.assignment.publishers.contains(&publisher))?;
            match &host.sent {
                Some(Word::Sent { sent, .. }) => sent.get(usize::from(publisher)).copied(),
                _ => None,
            }
        };
        (0..plan.publishers).map(of).collect()
    }
}

impl Agent {
    fn lose(&mut self, now: Nanoseconds, reason: String) {
        self.lost.get_or_insert((now, reason));
    }
}
