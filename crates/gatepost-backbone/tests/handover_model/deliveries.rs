//! The deliveries of the session at QoS 2, as its owner sends and records them.

use crate::Rules;
use crate::state::{Cluster, Delivery, Message, PacketId, ProcessId, Rows};

/// Changes the rows of the session in the own log.
pub(crate) fn change(cluster: &mut Cluster, id: ProcessId, edit: impl FnOnce(&mut Rows)) {
    let process = &mut cluster.processes[id];
    let mut rows = process.log.rows.clone();
    rows.as_mut().map(edit);
    let adopted = process.log.adopted.clone();
    process.append(rows, adopted, false);
}

pub(crate) fn queue(cluster: &mut Cluster, rules: &Rules, id: ProcessId) {
    change(cluster, id, |rows| {
        let message = rows.position + 1;
        let is_queued = rows.deliveries.values().any(|of| of.message == message);
        // The mutation: the queue in one append, the position in the next.
        if !rules.position_commits_with_queue && !is_queued {
            insert(rows, message);
            return;
        }
        rows.position = message;
        if rules.position_commits_with_queue {
            insert(rows, message);
        }
    });
}

/// Queues a message under the lowest free packet identifier.
fn insert(rows: &mut Rows, message: Message) {
    let is_free = |packet: &u8| !rows.deliveries.contains_key(packet);
    if let Some(packet) = (1..=u8::MAX).find(is_free) {
        let delivery = Delivery {
            message,
            is_released: false,
        };
        rows.deliveries.insert(packet, delivery);
    }
}

pub(crate) fn send_publish(cluster: &mut Cluster, id: ProcessId, packet: PacketId) {
    use_connection(cluster, id);
    let rows = cluster.processes[id].log.rows.as_ref();
    let delivery = rows.and_then(|rows| rows.deliveries.get(&packet).copied());
    if let Some(delivery) = delivery
        && cluster.client.held.insert(packet)
    {
        cluster.client.deliveries[usize::from(delivery.message) - 1] += 1;
    }
    cluster.processes[id].received.insert(packet);
}

/// PUBREL is answered by PUBCOMP, which frees the packet identifier.
pub(crate) fn send_pubrel(cluster: &mut Cluster, id: ProcessId, packet: PacketId) {
    use_connection(cluster, id);
    cluster.client.held.remove(&packet);
    let process = &mut cluster.processes[id];
    process.received.remove(&packet);
    process.completed.insert(packet);
}

fn use_connection(cluster: &mut Cluster, id: ProcessId) {
    let is_accepted = cluster.processes[id].connection == Some(cluster.client.accepted);
    cluster.violations.used_old_connection |= !is_accepted;
}
