//! The state of the modelled cluster: the engine's streams and keys, the processes, one client.
//!
//! A *process* is one start of a node. A node that starts again is another process with a log of
//! its own, which adopts the log of its predecessor as it would any other, so the model needs no
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

/// The number of a process, and of its log.
pub(crate) type ProcessId = usize;
/// The number of a claim: how often the ownership of the session has changed.
pub(crate) type Claim = u8;
/// The number of a connection of the client.
pub(crate) type Connection = u8;
/// The number of a publication in the partition, from 1.
pub(crate) type Message = u8;
/// An MQTT packet identifier.
pub(crate) type PacketId = u8;

/// The whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cluster {
    /// The last publication of the partition. All up to it are acknowledged.
    pub(crate) last_message: Message,
    /// The session's key.
    pub(crate) directory: Directory,
    pub(crate) processes: Vec<Process>,
    /// Messages between processes, which arrive in any order, or never at one that has ended.
    pub(crate) network: BTreeSet<Envelope>,
    pub(crate) client: Client,
    /// The number of processes that may still be killed, or cut off from the engine.
    pub(crate) failures_left: u8,
    /// The number of times that the client may still connect although it is connected.
    pub(crate) moves_left: u8,
    pub(crate) violations: Violations,
}

/// The key of the session: who owns it, and where its rows may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    pub(crate) claim: Claim,
    pub(crate) owner: ProcessId,
    /// The earlier owners whose rows the owner may not have yet, the latest first, each with its
    /// claim. Empty once the owner has imported the rows.
    pub(crate) sources: Vec<(ProcessId, Claim)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) is_running: bool,
    /// The process's key exists. A process without it that still runs was cut off or suspended.
    pub(crate) has_lease: bool,
    /// The process that adopted the log, by compare-and-set.
    pub(crate) adopter: Option<ProcessId>,
    pub(crate) log: Log,
    /// The entries of its own log that the process knows.
    pub(crate) known_entries: u8,
    /// An append that the engine has not received yet.
    pub(crate) pending: Option<Append>,
    pub(crate) phase: Phase,
    pub(crate) connection: Option<Connection>,
    /// Packet identifiers for which PUBREC, or PUBCOMP, was received over this connection.
    pub(crate) received: BTreeSet<PacketId>,
    pub(crate) completed: BTreeSet<PacketId>,
}

/// The process's own stream, as it reads when it is replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    pub(crate) entries: u8,
    pub(crate) is_fenced: bool,
    pub(crate) rows: Option<Rows>,
    /// The logs whose rows are in this one.
    pub(crate) adopted: BTreeSet<ProcessId>,
}

/// The rows of the session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rows {
    /// The claim under which they were written.
    pub(crate) claim: Claim,
    /// The last publication that was queued.
    pub(crate) position: Message,
    pub(crate) deliveries: BTreeMap<PacketId, Delivery>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Delivery {
    pub(crate) message: Message,
    /// PUBREC was received: PUBREL is sent instead of PUBLISH.
    pub(crate) is_released: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Append {
    /// The number of entries that the log must have.
    pub(crate) expected_entries: u8,
    pub(crate) rows: Option<Rows>,
    pub(crate) adopted: BTreeSet<ProcessId>,
    /// The rows are imported ones, and are served once the append is acknowledged.
    pub(crate) is_import: bool,
}

/// The use that a process makes of the session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// The process has claimed the session and looks for its rows.
    Waiting {
        claim: Claim,
        sources: Vec<(ProcessId, Claim)>,
        /// The source that is asked.
        source: usize,
        is_asked: bool,
    },
    Serving,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Envelope {
    /// A request for the rows of the claim `wanted`.
    Ask {
        from: ProcessId,
        to: ProcessId,
        wanted: Claim,
        claim: Claim,
    },
    Answer {
        to: ProcessId,
        claim: Claim,
        wanted: Claim,
        rows: Option<Rows>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The latest connection, and the process that it leads to.
    pub(crate) connection: Connection,
    pub(crate) process: ProcessId,
    /// The connection that has received the latest CONNACK.
    pub(crate) accepted: Connection,
    /// Packet identifiers of QoS 2 publications that are received and not released.
    pub(crate) held: BTreeSet<PacketId>,
    /// By message: how many times the application has received it.
    pub(crate) deliveries: Vec<u8>,
}

/// Events that must never happen, and that a state does not show by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Violations {
    /// A process wrote to its log after another one had fenced it.
    pub(crate) wrote_after_fence: bool,
    /// A publication was sent on another connection than the one accepted last.
    pub(crate) used_old_connection: bool,
    /// The owner found the session's rows nowhere.
    pub(crate) lost_session: bool,
}

impl Cluster {
    /// The session belongs to the first process, which serves the client's first connection.
    pub(crate) fn new(processes: usize, messages: u8, failures: u8, moves: u8) -> Self {
        let mut cluster = Self {
            last_message: 0,
            directory: Directory {
                claim: 1,
                owner: 0,
                sources: Vec::new(),
            },
            processes: vec![Process::new(); processes],
            network: BTreeSet::new(),
            client: Client {
                connection: 1,
                process: 0,
                accepted: 1,
                held: BTreeSet::new(),
                deliveries: vec![0; usize::from(messages)],
            },
            failures_left: failures,
            moves_left: moves,
            violations: Violations::default(),
        };
        let first = &mut cluster.processes[0];
        first.log.rows = Some(Rows {
            claim: 1,
            position: 0,
            deliveries: BTreeMap::new(),
        });
        first.phase = Phase::Serving;
        first.connection = Some(1);
        cluster
    }

    /// The process that answers for a log: the one that has adopted it, directly or in turn.
    pub(crate) fn responsible(&self, log: ProcessId) -> ProcessId {
        let mut process = log;
        while let Some(adopter) = self.processes[process].adopter {
            process = adopter;
        }
        process
    }

    /// Whether the client is connected to a process that can serve it.
    pub(crate) fn client_is_connected(&self) -> bool {
        let process = &self.processes[self.client.process];
        process.is_usable() && process.connection == Some(self.client.connection)
    }
}

impl Process {
    fn new() -> Self {
        Self {
            is_running: true,
            has_lease: true,
            adopter: None,
            log: Log::default(),
            known_entries: 0,
            pending: None,
            phase: Phase::Idle,
            connection: None,
            received: BTreeSet::new(),
            completed: BTreeSet::new(),
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.is_running && self.has_lease
    }

    /// Whether the log's state is known to the process: nothing it sent is undecided.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_running && self.pending.is_none()
    }

    /// Begins an append to the own log.
    pub(crate) fn append(
        &mut self,
        rows: Option<Rows>,
        adopted: BTreeSet<ProcessId>,
        is_import: bool,
    ) {
        self.pending = Some(Append {
            expected_entries: self.known_entries,
            rows,
            adopted,
            is_import,
        });
    }

    /// Ends the connection, or replaces it.
    pub(crate) fn connect(&mut self, connection: Option<Connection>) {
        self.connection = connection;
        self.received.clear();
        self.completed.clear();
    }
}
