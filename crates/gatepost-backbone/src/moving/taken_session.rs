//! One session of a failed node: the node that gets it, and its key of the directory.
//!
//! Usually that is this node. If another one has begun to adopt the session and was interrupted,
//! the key names that one, and the failed node as its source. If it runs, it is asked whether it
//! has the session; if it has failed as well, its own stream says that, which is adopted first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_broker::{ClaimError, SessionAbsence, SessionWill};
use gatepost_store::StoreChange;

use super::MoveContext;
use super::adopting::AdoptionRequest;
use super::claiming::ClaimMark;
use super::stream_states::{NodeStreamState, StreamStates};
use crate::error::BackboneError;
use crate::log::position::LogPosition;
use crate::moves::ownership::{Ownership, SessionId, SessionSource};
use crate::moves::transfer::SessionTransfer;
use crate::node_epoch::NodeStreamId;
use crate::node_stream::replica::{self, ReplicaSession};

/// The longest time for one session.
const SESSION_TIME_MAX: Duration = Duration::from_mins(1);
/// Attempts to write a key that other nodes change.
const KEY_ATTEMPTS: usize = 50;
/// The pause between them.
const REPEAT_AFTER: Duration = Duration::from_millis(20);

/// The stream of a failed node, and what is to be done with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedStream {
    pub(super) id: NodeStreamId,
    /// Whether its node has no earlier stream with sessions.
    pub(super) is_only: bool,
    /// Whether sessions may wait for the adoption of another failed node, which has begun to adopt
    /// them.
    pub(super) may_wait: bool,
}

/// A key of the directory, and what is to become of it.
pub(super) struct KeyedSession {
    pub(super) id: SessionId,
    /// The owner and the revision of the key when all keys were read. Another node may have changed
    /// it since.
    pub(super) read: Option<(Ownership, u64)>,
    /// The session as the failed node had it.
    pub(super) session: Option<ReplicaSession>,
    /// The content that the failed node kept for later owners, by claim.
    pub(super) released: Vec<(u64, Vec<StoreChange>)>,
}

/// The parts of a take-over that each session needs.
pub(super) struct SessionWork {
    pub(super) context: MoveContext,
    pub(super) failed: FailedStream,
    pub(super) positions: Vec<LogPosition>,
    pub(super) streams: StreamStates,
}

/// The state of a session after an attempt to take it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakeOutcome {
    /// It is here now.
    Taken,
    /// It is another node's, or there is none.
    Left,
    /// This node, which has failed as well, had begun to take it over, and its own stream is to be
    /// adopted first: only that one says whether it has the session.
    Waits(u8),
}

/// The node that gets a session.
enum Successor {
    /// This one, by this claim.
    This(Ownership),
    /// Another one, or none.
    Other,
    /// The one that is known when the stream of this node was adopted.
    After(u8),
}

impl SessionWork {
    /// Takes a session over.
    pub(super) async fn take(&self, one: KeyedSession) -> Result<TakeOutcome, BackboneError> {
        let _mark = ClaimMark::begin(&self.context.shared, one.id).await;
        let KeyedSession {
            id,
            read,
            session,
            released,
        } = one;
        // Compare-and-set finds out whether the key has changed. Only the leader knows whether a
        // key that needs another decision is current.
        let mut read = read.filter(|(read, _)| self.is_of_stream(read) && session.is_some());
        for attempt in 0..KEY_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(REPEAT_AFTER).await;
            }
            if self.context.shared.moves.is_joining(id) {
                continue; // An earlier attempt has not come to its end.
            }
            let found = match read.take() {
                Some(read) => Some(read),
                None => self.context.directory.find_at_leader(id).await?,
            };
            let found_by = found.as_ref().map(|(ownership, _)| ownership);
            // One that has expired and has no key may have ended since an earlier attempt.
            let wanted = session
                .as_ref()
                .filter(|one| found.is_some() || !self.is_over(one));
            let successor = match wanted {
                Some(wanted) => self.successor(found_by, wanted, &released).await?,
                None => Successor::Other,
            };
            // A key that is not there has revision 0.
            let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
            match successor {
                Successor::This(own) => {
                    let directory = &self.context.directory;
                    let Some(revision) = directory.update(id, &own, revision).await? else {
                        continue;
                    };
                    let Some(session) = session else {
                        return Ok(TakeOutcome::Left);
                    };
                    self.complete(id, session, &own, revision).await?;
                    return Ok(TakeOutcome::Taken);
                }
                Successor::After(node) => return Ok(TakeOutcome::Waits(node)),
                Successor::Other => {}
            }
            let Some((ownership, revision)) = found else {
                return Ok(TakeOutcome::Left);
            };
            let is_done = self
                .keep_for_others(id, &ownership, revision, session.as_ref(), &released)
                .await?;
            if is_done {
                return Ok(TakeOutcome::Left);
            }
        }
        Err(BackboneError::Lost(
            "a key of the directory is changed all the time".to_owned(),
        ))
    }

    /// Whether a session has expired by now.
    fn is_over(&self, session: &ReplicaSession) -> bool {
        let now = self.context.shared.log.store.time_for_ages();
        replica::is_over(session.ended, session.session.expiry, now)
    }

    /// The node that gets a session that the failed node had. Until the session is stored there,
    /// its key names the failed node as well: if the new owner fails before, the session is still
    /// looked for there.
    async fn successor(
        &self,
        found: Option<&Ownership>,
        session: &ReplicaSession,
        released: &[(u64, Vec<StoreChange>)],
    ) -> Result<Successor, BackboneError> {
        let own = self.context.shared.stream_id();
        let Some(found) = found else {
            let claim = Ownership::first(self.failed.id).taken_over(own);
            return Ok(Successor::This(claim));
        };
        if self.is_of_stream(found) {
            return Ok(Successor::This(found.taken_over(own)));
        }
        // The owner may have begun to adopt the session. What the failed node had released before
        // is not its session, which came later.
        let is_released = |source: &SessionSource| {
            let mut released = released.iter();
            released.any(|(claim, content)| *claim == source.claim && !content.is_empty())
        };
        let source = found.sources.first();
        if !source.is_some_and(|source| self.is_source(source) && !is_released(source)) {
            return Ok(Successor::Other);
        }
        if found.stream() == own {
            // An earlier attempt of this node was interrupted.
            return Ok(Successor::This(found.clone()));
        }
        let next = || Successor::This(found.next(own, found.sources.clone()));
        Ok(match self.streams.state(found.stream()).await? {
            NodeStreamState::Emptied => next(),
            NodeStreamState::Abandoned if self.failed.may_wait => Successor::After(found.owner),
            NodeStreamState::Abandoned => Successor::Other,
            NodeStreamState::Written => {
                let name = &session.session.name;
                if self.context.is_denied(found, name).await {
                    next()
                } else {
                    Successor::Other
                }
            }
        })
    }

    /// Stores a session here whose key names this node, unless an earlier attempt has, and removes
    /// the sources from the key.
    async fn complete(
        &self,
        id: SessionId,
        session: ReplicaSession,
        own: &Ownership,
        revision: u64,
    ) -> Result<(), BackboneError> {
        let context = &self.context;
        let is_stored = context.shared.moves.own_claim(id) == Some(own.claim)
            && context.broker.has_persistent_session(&session.session.name);
        if !is_stored {
            self.store(id, session, own).await?;
        }
        let cleared = own.without_sources();
        context.directory.update(id, &cleared, revision).await?;
        Ok(())
    }

    /// Stores a session here.
    async fn store(
        &self,
        id: SessionId,
        session: ReplicaSession,
        ownership: &Ownership,
    ) -> Result<(), BackboneError> {
        let ReplicaSession {
            session,
            ended,
            will,
        } = session;
        debug_assert_eq!(id, SessionId::of(&session.name));
        let (user, client) = (session.name.user.as_deref(), &session.name.client_id);
        let authorization = self.context.rights.of_owner(user, client);
        let will = will.map(|(publication, delay)| SessionWill {
            publication: Arc::unwrap_or_clone(publication),
            delay,
        });
        let transfer = SessionTransfer {
            session,
            positions: self.positions.clone(),
        };
        let deadline = Instant::now() + SESSION_TIME_MAX;
        let (mut request, stored) =
            AdoptionRequest::new(&self.context, transfer, ownership.claim, deadline);
        request.absence = Some(SessionAbsence {
            ended,
            will,
            authorization,
        });
        let lost = || BackboneError::Lost("sessions are not adopted".to_owned());
        let sent = self.context.adoptions.send(request).await;
        sent.map_err(|_| lost())?;
        let stored = stored.await.map_err(|_| lost())?;
        stored.map_err(|error: ClaimError| BackboneError::request("storing a session", error))
    }

    /// Handles a key under which this node does not get the session: content that the failed node
    /// kept for a later owner is kept here. A key whose owner has failed, and has nothing, stays as
    /// it is while the stream of its first source is to be adopted, which may have the session.
    /// Returns whether the key was written.
    async fn keep_for_others(
        &self,
        id: SessionId,
        ownership: &Ownership,
        revision: u64,
        session: Option<&ReplicaSession>,
        released: &[(u64, Vec<StoreChange>)],
    ) -> Result<bool, BackboneError> {
        let own = self.context.shared.stream_id();
        let mut next = ownership.clone();
        let mut kept = Vec::new();
        next.sources.retain_mut(|source| {
            if !self.is_source(source) {
                return true;
            }
            let content = self.content(id, source.claim, session, released);
            if content.is_empty() {
                // An earlier stream of the node may have it.
                return !self.failed.is_only;
            }
            kept.extend(content);
            (source.node, source.epoch) = (own.node, own.epoch);
            true
        });
        if self.failed.is_only && self.has_failed(ownership).await? {
            let Some(source) = next.sources.first() else {
                self.context.directory.remove(id, revision).await;
                return Ok(true);
            };
            if self.streams.state(source.stream()).await? != NodeStreamState::Abandoned {
                next = ownership.next(own, next.sources);
            }
        }
        if !kept.is_empty() {
            let failed = |error| BackboneError::request("keeping a session for its owner", error);
            let stored = self.context.shared.log.store.submit(kept);
            stored.map_err(failed)?.committed().await.map_err(failed)?;
        }
        // A key that stays is written too: its last change may not be known here.
        let updated = self.context.directory.update(id, &next, revision).await?;
        Ok(updated.is_some())
    }

    /// The records that keep the content of the session under a claim of the failed node.
    fn content(
        &self,
        id: SessionId,
        claim: u64,
        session: Option<&ReplicaSession>,
        released: &[(u64, Vec<StoreChange>)],
    ) -> Vec<StoreChange> {
        let found = released.iter().find(|(of, _)| *of == claim);
        if let Some((_, content)) = found.filter(|(_, content)| !content.is_empty()) {
            return content.clone();
        }
        let Some(session) = session else {
            return Vec::new();
        };
        let transfer = SessionTransfer {
            session: session.session.clone(),
            positions: self.positions.clone(),
        };
        transfer.put(id, claim)
    }

    /// Whether the owner has failed and does not have the session: it is the node of the stream, or
    /// its own stream was adopted.
    async fn has_failed(&self, ownership: &Ownership) -> Result<bool, BackboneError> {
        if self.is_of_stream(ownership) {
            return Ok(true);
        }
        let state = self.streams.state(ownership.stream()).await?;
        Ok(state == NodeStreamState::Emptied)
    }

    /// Whether the node got the session in the epoch of the stream or an earlier one. What it has
    /// got since, it has.
    fn is_of_stream(&self, ownership: &Ownership) -> bool {
        let id = self.failed.id;
        ownership.owner == id.node && ownership.epoch <= id.epoch
    }

    fn is_source(&self, source: &SessionSource) -> bool {
        let id = self.failed.id;
        source.node == id.node && source.epoch <= id.epoch
    }
}
