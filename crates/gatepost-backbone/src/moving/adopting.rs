//! Sessions that join this node.
//!
//! The content of a session goes up to some position in the log, and this node has delivered
//! further than that. The session receives most of what lies in between (`missed_log.rs`). Then the
//! delivery of the log pauses, the session receives the rest, and joins. Its rows, those deliveries
//! and this node's positions are stored in one commit, so after a crash of this node the session is
//! here as a whole, or not at all.
//!
//! What fails here concerns the sessions that are to join. They are refused, and the connection
//! goes on.

use std::time::{Duration, Instant};

use gatepost_broker::{ClaimError, MissedPublications, SessionAbsence, SessionAdoption};
use gatepost_store::{StoreChange, StoreError};
use gatepost_tasks::Task;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::MoveContext;
use crate::error::BackboneError;
use crate::log::position::LogPosition;
use crate::moves::ownership::SessionId;
use crate::moves::transfer::SessionTransfer;

/// Sessions that join in one pause.
const BATCH_MAX: usize = 256;
/// The interval at which this node's positions are compared with those of the sessions.
const REACHED_EVERY: Duration = Duration::from_millis(2);
/// The time for reading in a pause, after which those that miss more join in a later one.
const PAUSE_TIME_MAX: Duration = Duration::from_millis(500);
/// Readings for sessions that have missed much, each for [`BATCH_MAX`] of them.
const APPROACHES_MAX: usize = 2;
/// Sessions that wait for such a reading.
const FAR_MAX: usize = 4_096;

/// A session that is to join.
pub(super) struct AdoptionRequest {
    pub(super) transfer: SessionTransfer,
    /// The publications before the positions of the session that were missing.
    pub(super) missed: MissedPublications,
    /// The entries before these positions that the log had removed.
    pub(super) removed: u64,
    /// The claim of this node.
    pub(super) claim: u64,
    /// Changes of the same commit.
    pub(super) changes: Vec<StoreChange>,
    /// `None` if the client is about to connect.
    pub(super) absence: Option<SessionAbsence>,
    pub(super) deadline: Instant,
    reply: oneshot::Sender<Result<(), ClaimError>>,
}

impl AdoptionRequest {
    /// A request without changes, for a session whose client is about to connect.
    pub(super) fn new(
        context: &MoveContext,
        transfer: SessionTransfer,
        claim: u64,
        deadline: Instant,
    ) -> (Self, oneshot::Receiver<Result<(), ClaimError>>) {
        let (reply, stored) = oneshot::channel();
        let request = Self {
            missed: context.broker.missed_by(&transfer.session),
            transfer,
            removed: 0,
            claim,
            changes: Vec::new(),
            absence: None,
            deadline,
            reply,
        };
        (request, stored)
    }
}

/// Lets sessions join for as long as the connection lasts.
pub(super) async fn run(
    context: MoveContext,
    mut waiting: mpsc::Receiver<AdoptionRequest>,
) -> BackboneError {
    let mut far = Vec::new();
    let mut approaching = JoinSet::new();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            received = waiting.recv_many(&mut batch, BATCH_MAX) => if received == 0 {
                return BackboneError::Lost("sessions are not adopted".to_owned());
            },
            // The requests of a task that has failed end without an answer, as with a connection.
            Some(near) = approaching.join_next() => batch = near.unwrap_or_default(),
        }
        let batch = context.reached(batch).await;
        let near = context.set_aside(batch, &mut far);
        context.adopt_all(near).await;
        if approaching.len() < APPROACHES_MAX && !far.is_empty() {
            let next = far.drain(..far.len().min(BATCH_MAX)).collect();
            let approach: Task<Vec<AdoptionRequest>> = Box::pin(context.clone().approach(next));
            approaching.spawn(approach);
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
                    self.join_later(request);
                }
            } else if !batch.is_empty() {
                tokio::time::sleep(REACHED_EVERY).await;
            }
        }
        reached
    }

    fn join_later(&self, request: AdoptionRequest) {
        let adoptions = self.adoptions.clone();
        gatepost_tasks::spawn(async move {
            tokio::time::sleep(REACHED_EVERY).await;
            let _ = adoptions.send(request).await;
        });
    }

    /// Adds the sessions that have missed much to `far`; returns the others.
    fn set_aside(
        &self,
        batch: Vec<AdoptionRequest>,
        far: &mut Vec<AdoptionRequest>,
    ) -> Vec<AdoptionRequest> {
        let Some(own) = self.shared.log.positions() else {
            return batch;
        };
        let is_near = |request: &AdoptionRequest| request.is_near(&own);
        let (near, mut distant): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_near);
        let room = FAR_MAX.saturating_sub(far.len());
        let refused = distant.split_off(distant.len().min(room));
        refuse(refused, "too many sessions read what they have missed");
        far.append(&mut distant);
        near
    }

    /// Lets sessions join that have missed little. Those that still miss something after
    /// [`PAUSE_TIME_MAX`] join later.
    async fn adopt_all(&self, mut batch: Vec<AdoptionRequest>) {
        if batch.is_empty() {
            return;
        }
        let log = &self.shared.log;
        let pause = log.pause.begin();
        // A position may only be stored after everything before it.
        let settled = self.settle().await;
        let positions = log.positions().filter(|_| settled.is_ok());
        let Some(positions) = positions else {
            refuse(batch, "earlier messages of the cluster could not be stored");
            return;
        };
        let end = Instant::now() + PAUSE_TIME_MAX;
        for (index, own) in positions.iter().enumerate() {
            batch = self.read_missed(batch, index, own, end).await;
        }
        for request in batch {
            if request.has_reached(&positions) {
                self.adopt(request, &positions);
            } else {
                self.join_later(request);
            }
        }
        drop(pause);
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

    /// Adds a session, and answers when it is stored.
    fn adopt(&self, request: AdoptionRequest, positions: &[LogPosition]) {
        let AdoptionRequest {
            transfer: SessionTransfer { session, .. },
            missed,
            removed,
            claim,
            mut changes,
            absence,
            reply,
            ..
        } = request;
        let numbers = 1_u16..;
        changes.extend(numbers.zip(positions).map(|(number, one)| one.put(number)));
        let (name, id) = (session.name.clone(), SessionId::of(&session.name));
        if removed > 0 {
            self.shared.log.note_missed(removed);
            tracing::warn!(target: "backbone", client = %name.client_id, entries = removed,
                "a session has missed messages that the log has removed");
        }
        let moves = &self.shared.moves;
        moves.own.lock().insert(id, claim);
        moves.joining.lock().insert(id);
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
            context.shared.moves.joining.lock().remove(&id);
            let answer = stored.map_err(|error| ClaimError::NotStored(error.to_string()));
            let _ = reply.send(answer);
        });
    }
}

pub(super) fn refuse(batch: Vec<AdoptionRequest>, reason: &str) {
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

pub(super) fn is_before(one: &LogPosition, other: &LogPosition) -> bool {
    one.stream == other.stream && (one.sequence, one.delivered) < (other.sequence, other.delivered)
}
