//! `gatepost bench agent`: waits for a conductor, and does what it asks.

use super::link::Link;
use super::message::{Addressed, Order, Signed, Word};
use super::party::Party;
use super::session::Session;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::{self, is_signalled};
use crate::process::Machine;
use std::fs;

/// Between two looks at what its threads have done.
const LOOK: Nanoseconds = clock::SECOND / 50;

/// Settings of `agent`.
#[derive(Debug, Clone, clap::Args)]
pub struct AgentArguments {
    /// The broker through which the conductor speaks: any MQTT broker, best not the one under test
    #[arg(long, value_name = "URL")]
    join: String,
    /// The name by which the conductor gives it a share [default: this host's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End after one run, instead of waiting for the next
    #[arg(long)]
    once: bool,
}

/// Serves until it is interrupted.
pub fn run(arguments: &AgentArguments) -> Result<(), BenchError> {
    let name = arguments.name.clone().unwrap_or_else(host_name);
    // Said by the broker when this agent is gone without a word; of any session.
    let gone = Signed {
        session: 0,
        from: name.clone(),
        word: Word::Gone,
    };
    let will =
        serde_json::to_vec(&gone).map_err(|error| BenchError::Settings(error.to_string()))?;
    let link = Link::of_agent(&arguments.join, &name, &will)?;
    println!("agent {name}: joined {}", arguments.join);
    let mut agent = Agent {
        name,
        link,
        session: 0,
        running: None,
        party: None,
        runs: 0,
    };
    while !is_signalled() && (!arguments.once || agent.runs == 0) {
        agent.turn()?;
    }
    Ok(())
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "agent".to_owned(),
        name => name.to_owned(),
    }
}

struct Agent {
    name: String,
    link: Link,
    session: u64,
    /// Its part of FANOUT.
    running: Option<Session>,
    /// Its part of any other scenario.
    party: Option<Party>,
    /// Runs that were ended in good order.
    runs: usize,
}

impl Agent {
    fn turn(&mut self) -> Result<(), BenchError> {
        if let Some((order, come)) = self.link.hear::<Addressed>(clock::now() + LOOK)? {
            let ours = order.to.as_ref().is_none_or(|to| *to == self.name);
            if ours && (order.session == self.session || matches!(order.order, Order::Call)) {
                self.session = order.session;
                if let Err(error) = self.obey(order.order, come) {
                    self.forget();
                    let reason = error.to_string();
                    self.say(Word::Failed { reason })?;
                }
            }
        }
        let now = clock::now();
        let of_fanout = self.running.as_mut().map(|running| running.look(now));
        let of_party = self.party.as_mut().map(|party| party.look(now));
        for word in of_fanout.or(of_party).unwrap_or_default() {
            if matches!(word, Word::Failed { .. }) {
                self.forget();
            }
            self.say(word)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.running = None;
        self.party = None;
    }

    fn obey(&mut self, order: Order, come: Nanoseconds) -> Result<(), BenchError> {
        match order {
            Order::Call => {
                let machine = Box::new(Machine::this());
                self.say(Word::Present { machine })
            }
            Order::Ping { number } => self.say(Word::Pong {
                number,
                received: come,
                sent: clock::now(),
            }),
            Order::Prepare {
                orders,
                assignment,
                clock_shift_ns,
            } => {
                println!(
                    "agent {}: {} subscribers, {} publishers at {}",
                    self.name,
                    assignment.subscribers.len(),
                    assignment.publishers.len(),
                    orders.url
                );
                self.running = Some(Session::prepare(&orders, assignment, clock_shift_ns)?);
                Ok(())
            }
            Order::Go {
                begin,
                measure,
                end,
            } => {
                if let Some(running) = &mut self.running {
                    running.go(begin, measure, end);
                }
                Ok(())
            }
            Order::Finish { sent } => {
                let Some(running) = self.running.take() else {
                    return Ok(());
                };
                self.runs += 1;
                let word = running.finish(&sent)?;
                self.say(word)
            }
            Order::TakePart {
                part,
                endpoint,
                clients,
                server,
            } => {
                let name = part.name();
                println!(
                    "agent {}: {name}, {clients} clients at {endpoint}",
                    self.name
                );
                // One that a lost conductor left behind must have ended before the next begins.
                self.forget();
                self.party = Some(Party::join(part, &endpoint, clients, server)?);
                Ok(())
            }
            Order::Pass { at } => {
                if let Some(party) = &mut self.party {
                    party.pass(at);
                }
                Ok(())
            }
            Order::Stop => {
                // Lifted when the party is over; who has no part has nothing to stop.
                interrupt::stop_run(self.party.is_some());
                Ok(())
            }
            Order::Leave => {
                let Some(party) = self.party.take() else {
                    return Ok(());
                };
                self.runs += 1;
                party.leave().map_or(Ok(()), |word| self.say(word))
            }
            Order::Abort => {
                self.forget();
                Ok(())
            }
        }
    }

    fn say(&mut self, word: Word) -> Result<(), BenchError> {
        self.link.say(&Signed {
            session: self.session,
            from: self.name.clone(),
            word,
        })
    }
}
