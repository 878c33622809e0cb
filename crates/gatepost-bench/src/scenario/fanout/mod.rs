//! FANOUT: a few publishers at a fixed rate, thousands of subscribers.
//!
//! The publishers keep an open-loop schedule on a thread of their own; a message that could not be
//! sent in time is sent late, and its latency counts from when it was due. Each subscriber checks
//! the numbers inside the payloads, so that loss, doubles and disorder are counted exactly.

mod conduct;
mod measured;
mod own_cost;
mod publish;
mod receive;
mod search;
mod settings;

pub(crate) use conduct::READY_SECONDS;
pub(crate) use measured::{Measured, Received};
pub use own_cost::receive_cost_ns;
pub(crate) use publish::Publishers;
pub(crate) use receive::{Receivers, Stage};
pub use settings::FanoutArguments;
pub(crate) use settings::Plan;

use super::{FloorOf, Scenario};
use crate::agent;
use crate::error::BenchError;
use crate::outcome::{Headline, Outcome};
use crate::progress::Progress;
use crate::target::Target;

/// FANOUT.
pub struct Fanout {
    arguments: FanoutArguments,
}

impl Fanout {
    /// With these settings.
    pub fn new(arguments: FanoutArguments) -> Result<Self, BenchError> {
        arguments.check()?;
        Ok(Self { arguments })
    }

    /// Measures once, at so many messages per second of each publisher.
    fn run_at(
        &self,
        rate: f64,
        target: &Target,
        progress: &Progress,
    ) -> Result<Outcome, BenchError> {
        let arguments = &self.arguments;
        let plan = arguments.plan(target, rate)?;
        if arguments.hosts.is_several() {
            let (url, publish_url) = arguments.urls(target)?;
            let seconds = agent::Seconds {
                warm_up: arguments.warm_up,
                measure: arguments.seconds,
                drain: arguments.drain,
            };
            let orders =
                agent::Orders::of(&plan, url.to_string(), publish_url.to_string(), seconds);
            return agent::conduct(&arguments.hosts, orders, &plan, progress);
        }
        let measured = conduct::run(arguments, &plan, target, progress)?;
        Ok(measured.outcome(&plan))
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
        // A server that gathers several messages in one send may well lie below it.
        vec![FloorOf::new(
            "server CPU per delivery",
            &["send of 100 bytes on loopback"],
        )]
    }

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        if self.arguments.max {
            search::highest_rate(self, target, progress)
        } else {
            self.run_at(self.arguments.rate(), target, progress)
        }
    }
}
