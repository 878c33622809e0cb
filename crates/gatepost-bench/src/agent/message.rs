//! The messages between conductor and agents, as JSON.

use serde::{Deserialize, Serialize};

use super::workload::Workload;
use crate::clock::Nanoseconds;
use crate::hosts::Assignment;
use crate::latency::Buckets;
use crate::outcome::{OperationCount, RunOutcome};
use crate::process::{Machine, ProcessRecord, Usage};
use crate::pubsub::TrackerCounts;
use crate::scenario::fanout::Plan;

/// The topic of the conductor's orders.
pub(super) const ORDERS: &str = "gatepost-bench/orders";
/// The topic of the agents' reports.
pub(super) const REPORTS: &str = "gatepost-bench/reports";

/// The phases of a run, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub(crate) warm_up: f64,
    pub(crate) measure: f64,
    /// Time without a message after which the missing ones count as lost.
    pub(crate) drain: f64,
}

/// The parameters of a FANOUT run, common to all agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FanoutParameters {
    pub(super) url: String,
    pub(super) publish_url: String,
    /// The level of the quality of service.
    pub(super) qos: u8,
    pub(super) publishers: u16,
    pub(super) subscribers: usize,
    pub(super) rate: f64,
    pub(super) size: usize,
    /// Receiving threads of each agent.
    pub(super) workers: usize,
    pub(super) run: u64,
    pub(super) seconds: Seconds,
}

impl FanoutParameters {
    /// The parameters of the conductor's plan.
    pub(crate) fn of(plan: &Plan, url: String, publish_url: String, seconds: Seconds) -> Self {
        Self {
            url,
            publish_url,
            qos: plan.qos.level(),
            publishers: plan.publishers,
            subscribers: plan.subscribers,
            rate: plan.rate,
            size: plan.size,
            workers: plan.workers,
            run: plan.run,
            seconds,
        }
    }
}

/// A command of the conductor to one agent or to all.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentCommand {
    /// Report your presence.
    Announce,
    /// Report your clock.
    Ping { number: u32 },
    /// Connect your share of a FANOUT run.
    Prepare {
        orders: Box<FanoutParameters>,
        assignment: Assignment,
        /// For each publisher: the difference to add to its times to convert them to the agent's
        /// clock.
        clock_shift_ns: Vec<i64>,
    },
    /// Start at these times of the agent's own clock.
    Go {
        begin: Nanoseconds,
        measure: Nanoseconds,
        end: Nanoseconds,
    },
    /// All messages were delivered or are lost; with the number sent by each publisher, if known.
    Finish { sent: Vec<Option<u32>> },
    /// Run a scenario other than FANOUT with this number of its clients, or monitor the server.
    RunWorkload {
        workload: Workload,
        endpoint: String,
        clients: usize,
        server: Option<u16>,
    },
    /// All agents have reached the gate: continue at this time of the agent's own clock.
    Pass { at: Nanoseconds },
    /// The user interrupted the run: report the results so far.
    Stop,
    /// The run is over: stop monitoring the server.
    EndWorkload,
    /// Abandon the run.
    Abort,
}

/// An order with its addressee.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AddressedOrder {
    /// The run; agents ignore orders of another one.
    pub(super) session: u64,
    /// The agent; all of them if absent.
    pub(super) to: Option<String>,
    pub(super) order: AgentCommand,
}

/// The deliveries that the subscribers of one agent received.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ReceivedReport {
    pub(super) latencies: Buckets,
    pub(super) in_time: u64,
    pub(super) by_second: Vec<u64>,
    pub(super) by_part: Vec<(u64, u64)>,
    pub(super) tally: TrackerCounts,
    pub(super) foreign: u64,
    pub(super) early: u64,
    pub(super) disconnected: Vec<String>,
}

/// A report of an agent to the conductor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentReport {
    /// The agent is present.
    Present { machine: Box<Machine> },
    /// Its clock when the order arrived and when this report was sent.
    Pong {
        number: u32,
        received: Nanoseconds,
        sent: Nanoseconds,
    },
    /// All its connections are established.
    Ready,
    /// Messages received and missing so far.
    Progress { received: u64, missing: i64 },
    /// Its publishers have finished: the number sent by each, the schedule slippage, and the
    /// latencies of acknowledgements.
    Sent {
        sent: Vec<u32>,
        slip: Buckets,
        unacknowledged: u64,
        given_up: u64,
        acknowledgements: Buckets,
    },
    /// The result of its FANOUT share.
    Done {
        report: Box<ReceivedReport>,
        generator: Box<ProcessRecord>,
        server: Option<Box<ProcessRecord>>,
    },
    /// It has reached this gate, counted from 1, and waits for the others.
    Reached { gate: u32 },
    /// Its progress, from 0 to 1.
    Doing { done: f64, said: String },
    /// The result of its clients.
    Result {
        outcome: Box<RunOutcome>,
        operations: OperationCount,
    },
    /// Resources used by the server on its host: in total, and one sample for each gate.
    Watched {
        server: Option<Box<ProcessRecord>>,
        usage: Vec<Usage>,
    },
    /// It cannot continue.
    Failed { reason: String },
    /// The will that the broker publishes: the agent has disconnected.
    Gone,
}

/// A report with the name of its agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SignedReport {
    pub(super) session: u64,
    pub(super) from: String,
    pub(super) report: AgentReport,
}
