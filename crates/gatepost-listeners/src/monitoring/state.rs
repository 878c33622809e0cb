//! The JSON that the dashboard reads: one snapshot (`GET /admin/state`) to start from, then a
//! [`GatewayStats`] each second on `$SYS/gatepost/stats` and a journal entry for each judged
//! message on `$SYS/gatepost/journal`.

use gatepost_alarms::AlarmStatus;
use gatepost_broker::{LiveNode, MemberNode, NodesStatus};
use gatepost_sinks::SinkStatus;
use serde::Serialize;

use super::slowdowns::Slowdown;

/// The topic of the [`GatewayStats`] published each second.
pub const STATS_TOPIC: &str = "$SYS/gatepost/stats";

/// Everything the dashboard shows, at one moment.
#[derive(Serialize, Debug, Clone, Default)]
pub struct MonitoringSnapshot {
    /// The version of Gatepost.
    pub version: String,
    /// Unix time of the start, in milliseconds.
    pub started_unix_ms: u64,
    /// The listeners that are configured.
    pub listeners: Vec<ListenerState>,
    /// The stats of the last seconds, oldest first.
    pub stats: Vec<GatewayStats>,
    /// The last judged messages, newest first; each as the journal publishes it.
    pub journal: Vec<serde_json::Value>,
}

/// One listener's state.
#[derive(Serialize, Debug, Clone, Default)]
pub struct ListenerState {
    /// Its name in the config.
    pub name: String,
    /// The address.
    pub bind: String,
    /// Whether it accepts connections.
    pub open: bool,
    /// The reason, if it does not.
    pub error: Option<String>,
    /// Connections open now.
    pub connections: u64,
    /// Messages received since the start.
    pub messages: u64,
}

/// The gateway's figures at one second.
#[derive(Serialize, Debug, Clone, Default)]
pub struct GatewayStats {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Messages received during the last second.
    pub messages_in_per_second: f64,
    /// Deliveries to subscribers during the last second.
    pub deliveries_per_second: f64,
    /// Messages received since the start.
    pub messages_in: u64,
    /// Deliveries since the start.
    pub deliveries: u64,
    /// Deliveries dropped since the start, because a subscriber was too slow.
    pub dropped: u64,
    /// Verdicts since the start, by action.
    pub verdicts: VerdictCounts,
    /// Subscriptions held now.
    pub subscriptions: u64,
    /// Sessions connected now, with the readers of streams, as the list of sessions has them.
    pub sessions_connected: u64,
    /// Retained messages held now.
    pub retained: u64,
    /// Messages in quarantine.
    pub quarantined: u64,
    /// Rows that have expired by a clock that jumped ahead, kept until an administrator accepts the
    /// clock.
    pub held_rows: u64,
    /// The number of seconds by which the clock is ahead.
    pub clock_ahead_seconds: u64,
    /// Resident memory of the process, in bytes.
    pub memory_bytes: u64,
    /// CPU time used during the last second, in cores.
    pub cpu_cores: f64,
    /// The busiest topics.
    pub topics: Vec<MonitoredTopic>,
    /// The sessions with the longest queues.
    pub sessions: Vec<MonitoredSession>,
    /// The subscribers that publishers wait for, or waited for in the last minutes.
    pub slowdowns: Vec<Slowdown>,
    /// The sinks.
    pub sinks: Vec<SinkStatus>,
    /// The alarms.
    pub alarms: Vec<AlarmStatus>,
    /// The cluster; absent if the server is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterState>,
    /// The procedures.
    pub procedures: Vec<ProcedureStats>,
    /// Connections and messages by listener.
    pub listeners: Vec<ListenerState>,
}

/// The cluster, as this node sees it.
#[derive(Serialize, Debug, Clone)]
pub struct ClusterState {
    /// The number of this node.
    pub node: u8,
    /// The reason why this node is not part of the cluster; `None` while it is.
    pub trouble: Option<String>,
    /// The nodes that are alive, this one first.
    pub nodes: Vec<LiveNode>,
    /// The nodes that have joined the cluster and are not alive.
    pub absent: Vec<MemberNode>,
    /// The reason why this node does not read a part further, which a later version has written;
    /// `None` if it reads everything.
    pub unreadable: Option<String>,
    /// Publications sent to the other nodes since the start.
    pub forwarded: u64,
    /// Publications that came from other nodes since the start.
    pub received: u64,
    /// Publications that the log of the cluster has not stored yet.
    pub log_waiting: u64,
    /// Entries of the log that this node has not read.
    pub log_unread: u64,
    /// Topics whose retained message the other nodes do not have yet.
    pub retained_unsent: u64,
    /// Sessions that came from other nodes since the start.
    pub sessions_adopted: u64,
    /// Sessions that went to other nodes since the start.
    pub sessions_released: u64,
}

impl From<NodesStatus> for ClusterState {
    fn from(status: NodesStatus) -> Self {
        let nodes = std::iter::once(status.this.clone()).chain(status.others);
        let nodes: Vec<LiveNode> = nodes.collect();
        let mut absent = status.members;
        absent.retain(|member| !nodes.iter().any(|node| node.node == member.node));
        Self {
            node: status.this.node,
            trouble: status.trouble,
            nodes,
            absent,
            unreadable: status.unreadable_reason,
            forwarded: status.forwarded,
            received: status.received,
            log_waiting: status.log_waiting,
            log_unread: status.log_unread.iter().sum(),
            retained_unsent: status.retained_unsent,
            sessions_adopted: status.sessions_adopted,
            sessions_released: status.sessions_released,
        }
    }
}

/// The number of messages by verdict.
#[derive(Serialize, Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // the names are the actions'
pub struct VerdictCounts {
    pub accept: u64,
    pub tag: u64,
    pub quarantine: u64,
    pub drop: u64,
    pub reject: u64,
    pub defer: u64,
}

/// One topic's traffic.
#[derive(Serialize, Debug, Clone, Default)]
pub struct MonitoredTopic {
    /// Its name.
    pub topic: String,
    /// Publications per second, recently.
    pub per_second: f64,
    /// Publications since the start.
    pub messages: u64,
    /// Payload bytes since the start.
    pub bytes: u64,
}

/// One subscriber.
#[derive(Serialize, Debug, Clone, Default)]
pub struct MonitoredSession {
    /// The client id, or the address for a client without one.
    pub client: String,
    /// `mqtt`, `websocket`, `sse` or `jsonl`.
    pub kind: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Its subscriptions.
    pub subscriptions: u64,
    /// Publications waiting for it.
    pub queued: u64,
    /// Publications that it missed.
    pub dropped: u64,
    /// The number of missed publications, by cause.
    pub dropped_by: std::collections::BTreeMap<String, u64>,
}

/// One procedure's counters.
#[derive(Serialize, Debug, Clone, Default)]
pub struct ProcedureStats {
    /// Its path.
    pub path: String,
    /// Messages judged.
    pub requests: u64,
    /// The number of messages whose judgement ended in an error.
    pub errors: u64,
    /// CPU time used, in seconds.
    pub cpu_seconds: f64,
    /// Its verdicts.
    pub verdicts: VerdictCounts,
}
