//! FANOUT: a few publishers at a fixed rate, thousands of subscribers.
//!
//! The publishers follow an open-loop schedule on a separate thread; a message that could not be
//! sent in time is sent late, and its latency counts from the time at which it was due. Each
//! subscriber checks the numbers inside the payloads, so that loss, duplicates and reordering are
//! counted exactly.

mod conduct;
mod measured;
mod own_cost;
mod pending;
mod publish;
mod receive;
mod search;
mod settings;

use super::{FloorOf, Scenario};
use crate::error::BenchError;
use crate::outcome::{Headline, RunOutcome};
use crate::progress::RunProgress;
use crate::target::RunningTarget;
pub(crate) use conduct::READY_SECONDS;
pub(crate) use measured::{MeasuredRun, ReceiveTotals};
pub use own_cost::receive_cost_ns;
pub(crate) use publish::Publishers;
pub(crate) use receive::{FanoutProgress, Receivers};
pub use settings::FanoutArguments;
pub(crate) use settings::Plan;

/// Executes a plan once: on this host ([`execute_here`]) or on agents.
pub(crate) type Execute =
    fn(&FanoutArguments, &Plan, &RunningTarget, &RunProgress) -> Result<RunOutcome, BenchError>;

/// Executes a plan on this host.
fn execute_here(
    arguments: &FanoutArguments,
    plan: &Plan,
    target: &RunningTarget,
    progress: &RunProgress,
) -> Result<RunOutcome, BenchError> {
    let measured = conduct::run(arguments, plan, target, progress)?;
    Ok(measured.outcome(plan))
}

/// FANOUT.
pub struct Fanout {
    arguments: FanoutArguments,
    execute: Execute,
}

impl Fanout {
    /// The scenario with these settings, on this host.
    pub fn new(arguments: FanoutArguments) -> Result<Self, BenchError> {
        Self::executed_by(arguments, execute_here)
    }

    /// The scenario with these settings, executed here or on agents.
    pub(crate) fn executed_by(
        arguments: FanoutArguments,
        execute: Execute,
    ) -> Result<Self, BenchError> {
        arguments.check()?;
        Ok(Self { arguments, execute })
    }

    /// Performs one measurement at this rate of each publisher in messages per second.
    fn run_at(
        &self,
        rate: f64,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let plan = self.arguments.plan(target, rate)?;
        (self.execute)(&self.arguments, &plan, target, progress)
    }
}

impl Scenario for Fanout {
    fn name(&self) -> &'static str {
        "fanout"
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self.arguments);
        if self.arguments.rate.is_none() {
            settings["rate"] = self.arguments.rate().into();
        }
        if self.arguments.size.is_none() {
            settings["size"] = self.arguments.size().into();
        }
        settings
    }

    fn headlines(&self) -> Vec<Headline> {
        let (rate, cpu, memory) = match self.arguments.setting {
            1 => (30_000.0, 50.0, 287_960.0),
            _ => (105_000.0, 45.0, 342_172.0),
        };
        let source = format!(
            "ICE iPush 2.1, 2005, setting {}: Pentium 4 3.0 GHz, two client hosts, 1 Gbit/s",
            self.arguments.setting
        );
        vec![
            Headline::new("deliveries per second", rate, &source),
            Headline::new("server CPU", cpu, &source),
            Headline::new("server memory", memory, &source),
            Headline::new("lost", 0.0, &source),
        ]
    }

    fn floors(&self) -> Vec<FloorOf> {
        // A server that combines several messages in one send can be below it.
        vec![FloorOf::new(
            "server CPU per delivery",
            &["send of 100 bytes on loopback"],
        )]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        if self.arguments.max {
            search::highest_rate(self, target, progress)
        } else {
            self.run_at(self.arguments.rate(), target, progress)
        }
    }
}
