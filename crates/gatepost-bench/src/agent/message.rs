//! What conductor and agents tell each other, as JSON.

use super::part::Part;
use super::shares::Assignment;
use crate::clock::Nanoseconds;
use crate::latency::Buckets;
use crate::outcome::{Operations, Outcome};
use crate::process::{Machine, ProcessRecord, Usage};
use crate::pubsub::Tally;
use crate::scenario::fanout::Plan;
use gatepost_message::Qos;
use serde::{Deserialize, Serialize};

/// Where the conductor speaks.
pub(super) const ORDERS: &str = "gatepost-bench/orders";
/// Where the agents speak.
pub(super) const REPORTS: &str = "gatepost-bench/reports";

/// The parts of a run, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub(crate) warm_up: f64,
    pub(crate) measure: f64,
    /// Without a message, after which the rest counts as lost.
    pub(crate) drain: f64,
}

/// What all agents must know of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(super) url: String,
    pub(super) publish_url: String,
    pub(super) at_least_once: bool,
    pub(super) publishers: u16,
    pub(super) subscribers: usize,
    pub(super) rate: f64,
    pub(super) size: usize,
    pub(super) run: u64,
    pub(super) seconds: Seconds,
}

impl Orders {
    /// As the conductor planned it.
    pub(crate) fn of(plan: &Plan, url: String, publish_url: String, seconds: Seconds) -> Self {
        Self {
            url,
            publish_url,
            at_least_once: plan.qos == Qos::AtLeastOnce,
            publishers: plan.publishers,
            subscribers: plan.subscribers,
            rate: plan.rate,
            size: plan.size,
            run: plan.run,
            seconds,
        }
    }
}

/// The conductor's word to one agent, or to all.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Who is there?
    Call,
    /// What time is it?
    Ping { number: u32 },
    /// Get ready.
    Prepare {
        orders: Box<Orders>,
        assignment: Assignment,
        /// What to add to each publisher's times to have them in the agent's.
        clock_shift_ns: Vec<i64>,
    },
    /// Begin at these times of the agent's own clock.
    Go {
        begin: Nanoseconds,
        measure: Nanoseconds,
        end: Nanoseconds,
    },
    /// Nothing more will come; so many were sent by each publisher, where that is known.
    Finish { sent: Vec<Option<u32>> },
    /// Take part in a scenario other than FANOUT, with so many of its clients, or watch the server.
    TakePart {
        part: Part,
        endpoint: String,
        clients: usize,
        server: Option<u16>,
    },
    /// All are at this gate: go on at this time of the agent's own clock.
    Pass { at: Nanoseconds },
    /// The user wants it to end: tell what there is.
    Stop,
    /// It is over.
    Leave,
    /// Forget it.
    Abort,
}

/// An order with its address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Addressed {
    /// The run; agents of an earlier one do not answer.
    pub(super) session: u64,
    /// The agent; all of them where absent.
    pub(super) to: Option<String>,
    pub(super) order: Order,
}

/// What an agent received.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Harvest {
    pub(super) latencies: Buckets,
    pub(super) in_time: u64,
    pub(super) by_second: Vec<u64>,
    pub(super) by_part: Vec<(u64, u64)>,
    pub(super) tally: Tally,
    pub(super) foreign: u64,
    pub(super) early: u64,
    pub(super) disconnected: Vec<String>,
}

/// An agent's word.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// It is there.
    Present { machine: Box<Machine> },
    /// Its clock when the question came and when the answer went.
    Pong {
        number: u32,
        received: Nanoseconds,
        sent: Nanoseconds,
    },
    /// Its connections stand.
    Ready,
    /// It lives, and has received so many.
    Progress { received: u64, missing: i64 },
    /// Its publishers are done: sent by each, and how late.
    Sent {
        sent: Vec<u32>,
        slip: Buckets,
        unacknowledged: u64,
    },
    /// Its part is over.
    Done {
        harvest: Box<Harvest>,
        generator: Box<ProcessRecord>,
        server: Option<Box<ProcessRecord>>,
    },
    /// It has come to this gate, counted from 1, and waits for the others.
    Reached { gate: u32 },
    /// It lives, and this is how far it is.
    Doing { done: f64, said: String },
    /// What its clients measured.
    Result {
        outcome: Box<Outcome>,
        operations: Operations,
    },
    /// What the server on its host used, and one look at it for each gate.
    Watched {
        server: Option<Box<ProcessRecord>>,
        looks: Vec<Usage>,
    },
    /// It cannot go on.
    Failed { reason: String },
    /// Left behind with the broker: it is gone.
    Gone,
}

/// A word with its author.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Signed {
    pub(super) session: u64,
    pub(super) from: String,
    pub(super) word: Word,
}
