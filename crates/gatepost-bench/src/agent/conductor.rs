//! The conductor: calls the agents, compares clocks, gives orders, and keeps watch over them. What
//! it has them do is FANOUT ([`super::fanout`]) or any other scenario ([`super::spread`]).

use super::clocks::{Exchange, Offset};
use super::link::Link;
use super::message::{Addressed, Order, Signed, Word};
use super::shares::{Assignment, HostArguments};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::progress::Progress;
use std::collections::BTreeMap;

/// How long agents may take to answer a call.
const CALL_SECONDS: u64 = 15;
/// Between two calls.
const CALL_AGAIN: Nanoseconds = clock::SECOND / 2;
/// Questions by which a clock is compared.
const QUESTIONS: u32 = 40;
/// An agent that says nothing for so long is dead.
const DEAD_AFTER: Nanoseconds = 5 * clock::SECOND;
/// How long the last words may take to come.
pub(super) const GATHER_SECONDS: u64 = 30;
/// Between two looks at who is silent.
pub(super) const LOOK: Nanoseconds = clock::SECOND / 20;

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
    /// Gates that it has come to, and how far it says it is.
    pub(super) reached: u32,
    pub(super) doing: (f64, String),
    /// Of the server on its host.
    pub(super) watched: Option<Word>,
    /// When and why it was lost.
    pub(super) lost: Option<(Nanoseconds, String)>,
    pongs: Vec<(u32, Nanoseconds, Nanoseconds, Nanoseconds)>,
}

impl Agent {
    pub(super) fn is_alive(&self) -> bool {
        self.lost.is_none()
    }
}

pub(super) struct Conductor {
    link: Link,
    session: u64,
    pub(super) agents: BTreeMap<String, Agent>,
}

impl Conductor {
    /// Joins the broker that the hosts meet at.
    pub(super) fn join(hosts: &HostArguments) -> Result<Self, BenchError> {
        Ok(Self {
            link: Link::of_conductor(hosts.join.as_deref().unwrap_or_default())?,
            session: clock::now(),
            agents: BTreeMap::new(),
        })
    }

    pub(super) fn order(&mut self, to: Option<&str>, order: Order) -> Result<(), BenchError> {
        self.link.say(&Addressed {
            session: self.session,
            to: to.map(str::to_owned),
            order,
        })
    }

    /// Calls until all are there that have a share, or as many as were told.
    pub(super) fn call(
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
    pub(super) fn listen(&mut self, deadline: Nanoseconds) -> Result<(), BenchError> {
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
            word @ (Word::Done { .. } | Word::Result { .. }) => agent.done = Some(word),
            word @ Word::Watched { .. } => agent.watched = Some(word),
            Word::Reached { gate } => agent.reached = gate,
            Word::Doing { done, said } => agent.doing = (done, said),
            Word::Failed { reason } => agent.lose(come, reason),
            Word::Gone => agent.lose(come, "it is gone".into()),
        }
        Ok(())
    }

    /// Asks an agent for its time, again and again.
    pub(super) fn compare_clock(&mut self, name: &str) -> Result<Option<Offset>, BenchError> {
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

    /// Keeps those that have a part, and compares their clocks with ours.
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
        Ok(())
    }

    /// A time of ours by an agent's clock.
    pub(super) fn by_clock_of(&self, name: &str, ours: Nanoseconds) -> Nanoseconds {
        let offset = self.agents.get(name).and_then(|agent| agent.clock);
        ours.saturating_add_signed(offset.map_or(0, |clock| clock.offset_ns))
    }

    /// Who is lost before anything was measured ends the run: there is nothing to keep.
    pub(super) fn all_must_live(&self) -> Result<(), BenchError> {
        let mut lost = self.agents.iter().filter(|(_, agent)| !agent.is_alive());
        lost.next().map_or(Ok(()), |(name, agent)| {
            let reason = agent.lost.as_ref().map_or("", |(_, reason)| reason);
            Err(BenchError::server(name, reason))
        })
    }

    pub(super) fn lose_the_silent(&mut self) {
        let now = clock::now();
        for agent in self.agents.values_mut() {
            if now.saturating_sub(agent.last_heard) > DEAD_AFTER {
                let seconds = clock::seconds(DEAD_AFTER);
                agent.lose(now, format!("it said nothing for {seconds:.0} s"));
            }
        }
    }

    /// Waits until the living have it, or are lost, or the time is over.
    pub(super) fn wait_for(
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
}

impl Agent {
    fn lose(&mut self, now: Nanoseconds, reason: String) {
        self.lost.get_or_insert((now, reason));
    }
}
