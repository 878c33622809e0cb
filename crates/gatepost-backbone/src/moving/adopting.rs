//! Sessions that join this node.
//!
//! The content of a session goes up to some position in the log, and this node has delivered
//! further than that. The delivery of the log pauses, the session receives what lies in between,
//! and joins. Its rows, those deliveries and this node's positions are stored in one commit, so
//! after a crash of this node the session is here as a whole, or not at all.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Stream;
use gatepost_broker::{ClaimError, LoggedPublication, SessionAbsence, SessionAdoption};
use gatepost_store::{StoreChange, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::{MoveContext, log_range};
use crate::error::BackboneError;
use crate::log::entry::EntryContent;
use crate::log::position::LogPosition;
use crate::moves::ownership::SessionId;
use crate::moves::transfer::SessionTransfer;

/// Sessions that join in one pause.
const BATCH_MAX: usize = 256;
/// The interval at which this node's positions are compared with those of the sessions.
const REACHED_EVERY: Duration = Duration::from_millis(2);
/// The longest time for the entries that sessions have missed.
const READ_TIME_MAX: Duration = Duration::from_secs(4);

/// A session that is to join.
pub(super) struct AdoptionRequest {
    pub(super) transfer: SessionTransfer,
    /// The claim of this node.
    pub(super) claim: u64,
    /// Changes of the same commit.
    pub(super) changes: Vec<StoreChange>,
    /// `None` if the client is about to connect.
    pub(super) absence: Option<SessionAbsence>,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<(), ClaimError>>,
}

/// The part of a partition that sessions have missed.
#[derive(Default)]
struct MissedPart {
    /// The first entry that the log still has.
    first: u64,
    publications: Vec<MissedPublication>,
}

/// A publication of the log, and its place there.
struct MissedPublication {
    sequence: u64,
    index: usize,
    logged: Arc<LoggedPublication>,
}

/// Lets sessions join for as long as the connection lasts.
pub(super) async fn run(
    context: MoveContext,
    mut waiting: mpsc::Receiver<AdoptionRequest>,
) -> BackboneError {
    loop {
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return BackboneError::Lost("sessions are not adopted".to_owned());
        }
        let batch = context.reached(batch).await;
        if let Err(error) = context.adopt_all(batch).await {
            return error;
        }
    }
}

impl MoveContext {
    /// Waits until this node has delivered what the sessions have received. Those for which that
    /// takes too long are refused.
    async fn reached(&self, mut batch: Vec<AdoptionRequest>) -> Vec<AdoptionRequest> {
        let mut reached = Vec::new();
        while !batch.is_empty() {
            let positions = self.shared.log.positions();
            let mut rest = Vec::new();
            for request in batch {
                let own = positions.as_deref();
                if own.is_some_and(|own| is_reached(own, &request.transfer.positions)) {
                    reached.push(request);
                } else if Instant::now() >= request.deadline {
                    let _ = request.reply.send(Err(ClaimError::NotJoined));
                } else {
                    rest.push(request);
                }
            }
            batch = rest;
            if !reached.is_empty() {
                // The others join in a later pause.
                for request in batch.drain(..) {
                    let adoptions = self.adoptions.clone();
                    gatepost_tasks::spawn(async move {
                        tokio::time::sleep(REACHED_EVERY).await;
                        let _ = adoptions.send(request).await;
                    });
                }
            } else if !batch.is_empty() {
                tokio::time::sleep(REACHED_EVERY).await;
            }
        }
        reached
    }

    async fn adopt_all(&self, batch: Vec<AdoptionRequest>) -> Result<(), BackboneError> {
        if batch.is_empty() {
            return Ok(());
        }
        let log = &self.shared.log;
        let pause = log.pause.begin();
        // A position may only be stored after everything before it.
        let settled = self.settle().await;
        let positions = log.positions().filter(|_| settled.is_ok());
        let Some(positions) = positions else {
            refuse(batch, "earlier messages of the cluster could not be stored");
            return Ok(());
        };
        let mut missed = Vec::new();
        for (index, own) in positions.iter().enumerate() {
            let received = batch.iter();
            let from = received
                .map(|request| request.transfer.positions[index])
                .filter(|received| is_before(received, own))
                .min_by_key(|received| (received.sequence, received.delivered));
            missed.push(match from {
                Some(from) => match self.read(index, from, own).await {
                    Err(error @ BackboneError::Later { .. }) => {
                        refuse(batch, &error.to_string());
                        return Ok(());
                    }
                    read => read?,
                },
                None => MissedPart::default(),
            });
        }
        for request in batch {
            self.adopt(request, &positions, &missed);
        }
        drop(pause);
        Ok(())
    }

    async fn settle(&self) -> Result<(), StoreError> {
        for partition in &self.shared.log.partitions {
            while let Some(ticket) = partition.progress.first_uncommitted() {
                ticket.committed().await?;
                // A failure is left to the reader, which has to return to an earlier position.
                if partition.progress.has_failed() {
                    return Err(StoreError::Closed);
                }
                partition.progress.settle()?;
            }
        }
        Ok(())
    }

    /// The part of a partition after `from`, up to this node's position.
    async fn read(
        &self,
        index: usize,
        from: LogPosition,
        until: &LogPosition,
    ) -> Result<MissedPart, BackboneError> {
        let reading = read_part(&self.log[index], from, until);
        match tokio::time::timeout(READ_TIME_MAX, reading).await {
            Ok(read) => read,
            Err(_) => Err(BackboneError::Lost("the log does not answer".to_owned())),
        }
    }

    /// Adds a session, and answers when it is stored.
    fn adopt(&self, request: AdoptionRequest, positions: &[LogPosition], missed: &[MissedPart]) {
        let AdoptionRequest {
            transfer,
            claim,
            mut changes,
            absence,
            reply,
            ..
        } = request;
        let SessionTransfer {
            session,
            positions: received,
        } = transfer;
        let numbers = 1_u16..;
        changes.extend(numbers.zip(positions).map(|(number, one)| one.put(number)));
        let of_partitions = received.iter().zip(positions).zip(missed);
        // The sequences of a stream that was replaced mean nothing in the present one.
        let of_partitions = of_partitions.filter(|((received, own), _)| is_before(received, own));
        let mut missed = Vec::new();
        let mut removed = 0;
        for ((received, own), part) in of_partitions {
            let has = |one: &&MissedPublication| !received.includes(one.sequence, one.index);
            let of_session = part.publications.iter().filter(has);
            missed.extend(of_session.map(|one| one.logged.clone()));
            removed += part.removed(received, own);
        }
        let (name, id) = (session.name.clone(), SessionId::of(&session.name));
        if removed > 0 {
            self.shared.log.note_missed(removed);
            tracing::warn!(target: "backbone", client = %name.client_id, entries = removed,
                "a session has missed messages that the log has removed");
        }
        let moves = &self.shared.moves;
        moves.own.lock().insert(id, claim);
        moves.note_adopted();
        let adopted = self.broker.adopt_session(SessionAdoption {
            session,
            missed,
            changes,
            absence,
        });
        let context = self.clone();
        // The end of the connection does not end this wait: the session is here until its commit
        // has failed.
        gatepost_tasks::spawn(async move {
            let stored = match adopted {
                Ok(ticket) => ticket.committed().await,
                Err(error) => Err(error),
            };
            if stored.is_err() {
                context.shared.moves.own.lock().remove(&id);
                context.broker.disown_session(&name);
            }
            let answer = stored.map_err(|error| ClaimError::NotStored(error.to_string()));
            let _ = reply.send(answer);
        });
    }
}

impl MissedPart {
    /// Entries after those that a session has received that the log has removed, up to this node's
    /// position.
    const fn removed(&self, received: &LogPosition, own: &LogPosition) -> u64 {
        let own = own.sequence + 1;
        let first = if self.first < own { self.first } else { own };
        first.saturating_sub(received.next_sequence())
    }
}

fn refuse(batch: Vec<AdoptionRequest>, reason: &str) {
    for request in batch {
        let _ = request
            .reply
            .send(Err(ClaimError::NotStored(reason.to_owned())));
    }
}

/// Whether this node's positions are not before those of a session. A partition that another
/// stream has replaced has nothing in common with the earlier one.
fn is_reached(own: &[LogPosition], of_session: &[LogPosition]) -> bool {
    own.len() == of_session.len()
        && own
            .iter()
            .zip(of_session)
            .all(|(own, of_session)| own.stream != of_session.stream || !is_before(own, of_session))
}

fn is_before(one: &LogPosition, other: &LogPosition) -> bool {
    one.stream == other.stream && (one.sequence, one.delivered) < (other.sequence, other.delivered)
}

async fn read_part(
    stream: &Stream,
    from: LogPosition,
    until: &LogPosition,
) -> Result<MissedPart, BackboneError> {
    let mut publications = Vec::new();
    let visit = |sequence, _, content: EntryContent| {
        for (index, one) in content.publications().into_iter().enumerate() {
            // The members of shared subscriptions are served by their nodes.
            let is_for_all =
                one.logged.passed_on.is_none() && !one.logged.publication.topic.is_internal();
            if until.includes(sequence, index) && is_for_all {
                let logged = Arc::new(one.logged);
                publications.push(MissedPublication {
                    sequence,
                    index,
                    logged,
                });
            }
        }
        ControlFlow::Continue(())
    };
    let first = from.next_sequence();
    let end = log_range::read(stream, first, until.sequence, visit).await?;
    Ok(MissedPart {
        first: end.first,
        publications,
    })
}
