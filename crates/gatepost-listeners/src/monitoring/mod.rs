//! Figures of the gateway itself: the figures of each second, the snapshot that the dashboard
//! starts from, and `/metrics`.
//!
//! Everything here reads counters that others keep; nothing here is on the path of a message.

pub(crate) mod metrics;
pub(crate) mod prometheus;
mod state;
mod stats;

pub use state::{
    ListenerState, MonitoringSnapshot, ProcedureStats, STATS_TOPIC, SessionStats, Stats,
    TopicStats, Verdicts,
};
pub use stats::{OpenAddress, StatsKeeper};
