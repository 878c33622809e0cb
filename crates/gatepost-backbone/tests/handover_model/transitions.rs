//! The effects of the steps: claims, adoptions, and messages between processes.

use crate::Rules;
use crate::deliveries::{self, change};
use crate::state::{Append, Claim, Cluster, Envelope, Phase, ProcessId, Rows};
use crate::steps::Step;

/// Changes the state as a step does that is possible in it.
pub(crate) fn take(cluster: &mut Cluster, rules: &Rules, step: Step) {
    match step {
        Step::Publish => cluster.last_message += 1,
        Step::Connect(id) => connect(cluster, rules, id),
        Step::Kill(id) => {
            cluster.failures_left -= 1;
            let process = &mut cluster.processes[id];
            process.is_running = false;
            process.phase = Phase::Idle;
            process.connect(None);
        }
        Step::LeaseEnds(id) => {
            cluster.processes[id].has_lease = false;
            cluster.failures_left -= u8::from(cluster.processes[id].is_running);
        }
        Step::Adopt { adopter, log } => cluster.processes[log].adopter = Some(adopter),
        Step::Fence(id) => {
            let log = &mut cluster.processes[id].log;
            log.entries += 1;
            log.is_fenced = true;
        }
        Step::CopyAdopted(id) => copy_adopted(cluster, id),
        Step::Apply(id) => apply(cluster, rules, id),
        Step::Ask(id) => ask(cluster, id),
        Step::Arrive(envelope) => arrive(cluster, rules, envelope),
        Step::ClearSources(_) => cluster.directory.sources.clear(),
        Step::Queue(id) => deliveries::queue(cluster, rules, id),
        Step::SendPublish(id, packet) => deliveries::send_publish(cluster, id, packet),
        Step::Release(id, packet) => change(cluster, id, |rows| {
            if let Some(delivery) = rows.deliveries.get_mut(&packet) {
                delivery.is_released = true;
            }
        }),
        Step::SendPubrel(id, packet) => {
            deliveries::send_pubrel(cluster, id, packet);
        }
        Step::Complete(id, packet) => {
            cluster.processes[id].completed.remove(&packet);
            change(cluster, id, |rows| {
                rows.deliveries.remove(&packet);
            });
        }
    }
}

fn connect(cluster: &mut Cluster, rules: &Rules, id: ProcessId) {
    cluster.moves_left -= u8::from(cluster.client_is_connected());
    cluster.client.connection += 1;
    cluster.client.process = id;
    let connection = cluster.client.connection;
    let process = &mut cluster.processes[id];
    process.connect(Some(connection));
    match process.phase {
        Phase::Serving => cluster.client.accepted = connection,
        Phase::Waiting { .. } => {}
        Phase::Idle => {
            let directory = &mut cluster.directory;
            let earlier = (directory.owner, directory.claim);
            if !rules.claims_keep_sources {
                directory.sources.clear();
            }
            directory.sources.insert(0, earlier);
            directory.claim += 1;
            directory.owner = id;
            process.phase = Phase::Waiting {
                claim: directory.claim,
                sources: directory.sources.clone(),
                source: 0,
                is_asked: false,
            };
            if !rules.connack_follows_import {
                cluster.client.accepted = connection;
            }
        }
    }
}

/// The adopter copies the rows of a fenced log, unless its own are of a later claim.
fn copy_adopted(cluster: &mut Cluster, id: ProcessId) {
    let log = cluster.processes[id].log.clone();
    let Some(adopter) = cluster.processes[id].adopter else {
        return;
    };
    let adopter = &mut cluster.processes[adopter];
    let mut adopted = adopter.log.adopted.clone();
    adopted.insert(id);
    adopted.extend(&log.adopted);
    let own = adopter.log.rows.clone();
    let claim_of = |rows: &Option<Rows>| rows.as_ref().map(|rows| rows.claim);
    let rows = if claim_of(&own) >= claim_of(&log.rows) {
        own
    } else {
        log.rows
    };
    adopter.append(rows, adopted, false);
}

/// The engine compares the expected sequence, which the fence has changed.
fn apply(cluster: &mut Cluster, rules: &Rules, id: ProcessId) {
    let process = &mut cluster.processes[id];
    let Some(append) = process.pending.take() else {
        return;
    };
    let is_expected = append.expected_entries == process.log.entries;
    if rules.appends_are_fenced && !is_expected {
        // The process learns that it was fenced, and ends.
        process.is_running = false;
        process.phase = Phase::Idle;
        process.connect(None);
        return;
    }
    cluster.violations.wrote_after_fence |= process.log.is_fenced;
    process.log.entries += 1;
    let Append {
        rows,
        adopted,
        is_import,
        ..
    } = append;
    process.log.rows = rows;
    process.log.adopted = adopted;
    if !process.is_running {
        return;
    }
    process.known_entries = process.log.entries;
    if is_import {
        process.phase = Phase::Serving;
        if let Some(connection) = process.connection {
            cluster.client.accepted = connection;
        }
    }
}

/// Asks the process that is responsible for the next source.
fn ask(cluster: &mut Cluster, id: ProcessId) {
    let mut phase = cluster.processes[id].phase.clone();
    let Phase::Waiting {
        claim,
        sources,
        source,
        is_asked,
    } = &mut phase
    else {
        return;
    };
    let Some(&(log, wanted)) = sources.get(*source) else {
        // A later claim may have taken the rows meanwhile; otherwise no process has them.
        cluster.violations.lost_session |= cluster.directory.claim == *claim;
        cluster.processes[id].phase = Phase::Idle;
        cluster.processes[id].connect(None);
        return;
    };
    let to = cluster.responsible(log);
    if to != id {
        *is_asked = true;
        cluster.network.insert(Envelope::Ask {
            from: id,
            to,
            wanted,
            claim: *claim,
        });
    } else if let Some(rows) = rows_of_claim(cluster, id, wanted) {
        import(cluster, id, *claim, rows);
        return;
    } else {
        *source += 1;
    }
    cluster.processes[id].phase = phase;
}

fn rows_of_claim(cluster: &Cluster, id: ProcessId, claim: Claim) -> Option<Rows> {
    let rows = cluster.processes[id].log.rows.as_ref();
    rows.filter(|rows| rows.claim == claim).cloned()
}

fn import(cluster: &mut Cluster, id: ProcessId, claim: Claim, rows: Rows) {
    let process = &mut cluster.processes[id];
    let adopted = process.log.adopted.clone();
    process.append(Some(Rows { claim, ..rows }), adopted, true);
}

fn arrive(cluster: &mut Cluster, rules: &Rules, envelope: Envelope) {
    let (Envelope::Ask { to, .. } | Envelope::Answer { to, .. }) = envelope;
    let process = &cluster.processes[to];
    if process.is_running && process.pending.is_some() {
        // Handled once the append is decided: its statements about the rows must not change any
        // more.
        return;
    }
    cluster.network.remove(&envelope);
    match envelope {
        Envelope::Ask {
            from,
            to,
            wanted,
            claim,
        } => {
            if cluster.processes[to].is_running {
                let rows = give_rows(cluster, rules, to, wanted);
                cluster.network.insert(Envelope::Answer {
                    to: from,
                    claim,
                    wanted,
                    rows,
                });
            } else {
                // The request is lost with the process: it is sent again to the adopter.
                ask_again(cluster, from, claim);
            }
        }
        Envelope::Answer {
            to,
            claim,
            wanted,
            rows,
        } => take_rows(cluster, to, claim, wanted, rows),
    }
}

/// The rows of a claim. From now on the process writes nothing under that claim.
fn give_rows(cluster: &mut Cluster, rules: &Rules, id: ProcessId, wanted: Claim) -> Option<Rows> {
    let rows = rows_of_claim(cluster, id, wanted);
    let process = &mut cluster.processes[id];
    let is_claiming = matches!(process.phase, Phase::Waiting { claim, .. } if claim == wanted);
    if is_claiming || rows.is_some() && process.phase == Phase::Serving {
        if rules.holders_stop {
            process.phase = Phase::Idle;
        }
        process.connect(None);
    }
    rows
}

/// Imports the rows that were asked for, or continues with the next source.
fn take_rows(
    cluster: &mut Cluster,
    id: ProcessId,
    of_claim: Claim,
    wanted: Claim,
    rows: Option<Rows>,
) {
    let Phase::Waiting {
        claim,
        sources,
        source,
        is_asked,
    } = &mut cluster.processes[id].phase
    else {
        return;
    };
    let is_current = sources.get(*source).is_some_and(|of| of.1 == wanted);
    if *claim != of_claim || !is_current {
        return;
    }
    if let Some(rows) = rows {
        import(cluster, id, of_claim, rows);
    } else {
        *source += 1;
        *is_asked = false;
    }
}

fn ask_again(cluster: &mut Cluster, from: ProcessId, of_claim: Claim) {
    if let Phase::Waiting {
        claim, is_asked, ..
    } = &mut cluster.processes[from].phase
        && *claim == of_claim
    {
        *is_asked = false;
    }
}
