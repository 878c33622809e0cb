//! Scenarios on several hosts: agents generate load and monitor servers, a conductor directs them.
//!
//! `gatepost bench agent --join mqtt://CONTROL` waits on each client or server host. The conductor
//! (`gatepost bench fanout TARGET --join mqtt://CONTROL …`) assigns each agent its share of the
//! connections, or the server to monitor, compares the agents' clocks with its own, starts all of
//! them at the same time, and merges their histograms and counts. They communicate through any
//! MQTT broker, preferably one that is not under test.
//!
//! FANOUT's publishers and subscribers depend on each other, so it has its own schedule and shares
//! (`conduct_fanout`, `fanout_worker`, `merge_fanout`). Of every other scenario, each agent runs a
//! complete instance with its share of the clients, and waits for the other agents at the gates
//! between its phases (`distributed`, `scenario_worker`, `merge`).
//!
//! Invariants: a one-way latency is shown only if the clock offset is known more precisely than
//! the latency itself. An agent that fails is named in the report and its share is reported as
//! missing; no figure is scaled up to hide the gap. An agent that loses the broker abandons its
//! run, because the conductor has lost it too, and joins again.

mod agent_loop;
mod backoff;
mod clocks;
mod conduct_fanout;
mod conductor;
mod distributed;
mod fanout_worker;
mod link;
mod merge;
mod merge_fanout;
mod message;
mod scenario_worker;
mod transport;
mod workload;

pub use agent_loop::{AgentArguments, run};
pub(crate) use conduct_fanout::conduct;
pub(crate) use distributed::DistributedScenario;
pub(crate) use workload::Workload;
