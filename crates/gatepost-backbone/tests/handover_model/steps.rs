//! The steps of the model, and which of them are possible in a state.
//!
//! A step is what one party does without waiting: a compare-and-set of the engine, an append that
//! the engine receives, a message that arrives. Everything may happen between two steps, a crash
//! included, so delays need no step of their own.

use crate::Rules;
use crate::state::{Cluster, Envelope, PacketId, Phase, ProcessId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A publication is appended to the partition, and acknowledged to its publisher.
    Publish,
    /// The client connects to a process, which claims the session unless it serves it.
    Connect(ProcessId),
    /// `kill -9`.
    Kill(ProcessId),
    /// The process's key expires: because it was killed, or because it is cut off or suspended.
    LeaseEnds(ProcessId),
    /// A process claims the log of another.
    Adopt { adopter: ProcessId, log: ProcessId },
    /// The adopter appends a fence to the adopted log.
    Fence(ProcessId),
    /// The adopter appends the rows of a fenced log to its own.
    CopyAdopted(ProcessId),
    /// The engine receives a pending append.
    Apply(ProcessId),
    /// A process that has claimed the session asks for its rows, or finds them in its own log.
    Ask(ProcessId),
    /// A message arrives.
    Arrive(Envelope),
    /// The owner removes the sources from the directory.
    ClearSources(ProcessId),
    /// The next publication is queued for the session.
    Queue(ProcessId),
    /// PUBLISH is sent for a delivery, and PUBREC is received.
    SendPublish(ProcessId, PacketId),
    /// PUBREC is recorded.
    Release(ProcessId, PacketId),
    /// PUBREL is sent, and PUBCOMP is received.
    SendPubrel(ProcessId, PacketId),
    /// PUBCOMP is recorded.
    Complete(ProcessId, PacketId),
}

pub(crate) fn possible(cluster: &Cluster, rules: &Rules, steps: &mut Vec<Step>) {
    if usize::from(cluster.last_message) < cluster.client.deliveries.len() {
        steps.push(Step::Publish);
    }
    steps.extend(cluster.network.iter().cloned().map(Step::Arrive));
    for (id, process) in cluster.processes.iter().enumerate() {
        let may_move = cluster.moves_left > 0 && id != cluster.client.process;
        if process.is_usable() && (may_move || !cluster.client_is_connected()) {
            steps.push(Step::Connect(id));
        }
        if process.is_running && process.has_lease && cluster.failures_left > 0 {
            steps.push(Step::Kill(id));
        }
        if process.has_lease && (!process.is_running || cluster.failures_left > 0) {
            steps.push(Step::LeaseEnds(id));
        }
        if process.pending.is_some() {
            steps.push(Step::Apply(id));
        }
        adoption(cluster, rules, id, steps);
        session(cluster, rules, id, steps);
    }
}

/// The steps by which another process takes over the log of `id`.
fn adoption(cluster: &Cluster, rules: &Rules, id: ProcessId, steps: &mut Vec<Step>) {
    let process = &cluster.processes[id];
    if process.has_lease {
        return;
    }
    for (adopter, other) in cluster.processes.iter().enumerate() {
        // An adopter that failed before it had copied the rows is replaced, once its log is fenced
        // and the copy cannot happen any more.
        let is_free = process.adopter.is_none_or(|earlier| {
            let log = &cluster.processes[earlier].log;
            rules.adopters_are_replaced
                && cluster.processes[earlier].adopter == Some(adopter)
                && log.is_fenced
                && !log.adopted.contains(&id)
        });
        if adopter != id && other.is_usable() && is_free {
            steps.push(Step::Adopt { adopter, log: id });
        }
    }
    let Some(adopter) = process.adopter.map(|adopter| &cluster.processes[adopter]) else {
        return;
    };
    if !process.log.is_fenced {
        if adopter.is_running {
            steps.push(Step::Fence(id));
        }
    } else if adopter.is_settled() && !adopter.log.adopted.contains(&id) {
        steps.push(Step::CopyAdopted(id));
    }
}

/// The steps of the process `id` with the session.
fn session(cluster: &Cluster, rules: &Rules, id: ProcessId, steps: &mut Vec<Step>) {
    let process = &cluster.processes[id];
    if !process.is_settled() {
        return;
    }
    if let Phase::Waiting {
        sources,
        source,
        is_asked: false,
        ..
    } = &process.phase
    {
        match sources.get(*source) {
            None => steps.push(Step::Ask(id)),
            Some(&(log, _)) => {
                let responsible = cluster.responsible(log);
                let holder = &cluster.processes[responsible];
                let has_rows = responsible == log || holder.log.adopted.contains(&log);
                if holder.has_lease && has_rows {
                    steps.push(Step::Ask(id));
                }
            }
        }
    }
    let (Phase::Serving, Some(rows)) = (&process.phase, &process.log.rows) else {
        return;
    };
    let directory = &cluster.directory;
    if directory.claim == rows.claim && !directory.sources.is_empty() {
        steps.push(Step::ClearSources(id));
    }
    if rows.position < cluster.last_message {
        steps.push(Step::Queue(id));
    }
    let may_send = process.has_lease || !rules.sends_need_a_lease;
    for (&packet, delivery) in &rows.deliveries {
        let answers = if delivery.is_released {
            &process.completed
        } else {
            &process.received
        };
        let is_sent = answers.contains(&packet);
        let is_connected = process.connection.is_some() && may_send;
        match (delivery.is_released, is_sent) {
            (false, false) if is_connected => steps.push(Step::SendPublish(id, packet)),
            (false, true) => steps.push(Step::Release(id, packet)),
            (true, false) if is_connected => steps.push(Step::SendPubrel(id, packet)),
            (true, true) => steps.push(Step::Complete(id, packet)),
            _ => {}
        }
    }
}
