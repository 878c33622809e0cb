//! Figures of the gateway itself: the figures of each second, the snapshot that the dashboard
//! starts from, and `/metrics`.
//!
//! Everything here reads counters that others keep; nothing here is on the path of a message.

pub(crate) mod metrics;
mod node_metrics;
pub(crate) mod prometheus;
pub(crate) mod series;
mod slowdowns;
mod state;
mod stats;

pub use slowdowns::Slowdown;
pub use state::{
    GatewayStats, ListenerState, MonitoredSession, MonitoredTopic, MonitoringSnapshot,
    ProcedureStats, STATS_TOPIC, VerdictCounts,
};
pub use stats::{OpenAddress, StatsKeeper};
