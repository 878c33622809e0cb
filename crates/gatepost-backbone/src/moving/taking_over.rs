//! The sessions of a failed node are taken over by this one.
//!
//! Each session gets this node in its key of the directory, and is stored here like one that moves.
//! The content that the failed node kept for others goes into the records of this node. What the
//! failed node had not yet got into the log is appended by this one, under the same message ids.
//!
//! The stream of the failed node stays until all of it is stored here, so each step may be
//! repeated, by any node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gatepost_broker::{ClaimError, SessionAbsence, SessionWill};
use gatepost_store::StoreChange;
use gatepost_tasks::Task;
use tokio::task::JoinSet;

use super::adopting::AdoptionRequest;
use super::claiming::ClaimMark;
use super::{MoveContext, due_wills, group_shares, log_kept, node_replica};
use crate::error::BackboneError;
use crate::log::position::LogPosition;
use crate::moves::ownership::{Ownership, SessionId};
use crate::moves::transfer::SessionTransfer;
use crate::node_epoch::NodeStreamId;
use crate::node_stream::replica::{self, Replica, ReplicaSession, ReplicaWill};
use crate::node_streams;

/// Sessions that are taken over at once.
const SESSIONS_MAX: usize = 256;
/// The longest time for one session.
const SESSION_TIME_MAX: Duration = Duration::from_mins(1);
/// Attempts to write a key that other nodes change.
const KEY_ATTEMPTS: usize = 50;
/// The pause between them.
const REPEAT_AFTER: Duration = Duration::from_millis(20);

/// Takes over everything in a stream, and empties it. `is_only` says that its node has no earlier
/// stream with sessions.
pub(super) async fn take_over(
    context: &MoveContext,
    stream_id: NodeStreamId,
    is_only: bool,
) -> Result<(), BackboneError> {
    let began = Instant::now();
    let name = context.shared.subjects.node_stream_name(stream_id);
    let Some(stream) = node_streams::find(&context.engine, &name).await? else {
        return Ok(());
    };
    let fence = node_replica::fence(context, &stream, stream_id).await?;
    let (replica, fenced) = node_replica::read(&stream, fence).await?;
    let content = TakeOver::new(context, stream_id, is_only, replica, fenced);
    let (sessions, wills) = Box::pin(content.run()).await?;
    // Last: this is the only step that another node would repeat as if it had not been done.
    due_wills::adopt(context, &wills).await?;
    let purged = stream.purge().sequence(fence).await;
    purged.map_err(|error| BackboneError::request("emptying a failed node's stream", error))?;
    tracing::warn!(target: "backbone", node = stream_id.node, sessions,
        milliseconds = began.elapsed().as_millis() as u64,
        "the sessions of a failed node are here now");
    Ok(())
}

/// The content of a failed node.
struct TakeOver {
    context: MoveContext,
    stream_id: NodeStreamId,
    is_only: bool,
    replica: Replica,
    /// The time from which the node stored nothing more.
    fenced: SystemTime,
    positions: Vec<LogPosition>,
}

/// A key of the directory, and what is to become of it.
struct KeyedSession {
    id: SessionId,
    /// The owner and the revision of the key when all keys were read. Another node may have changed
    /// it since.
    read: Option<(Ownership, u64)>,
    /// The session as the failed node had it.
    session: Option<ReplicaSession>,
    /// The content that the failed node kept for later owners, by claim.
    released: Vec<(u64, Vec<StoreChange>)>,
}

impl TakeOver {
    fn new(
        context: &MoveContext,
        stream_id: NodeStreamId,
        is_only: bool,
        replica: Replica,
        fenced: SystemTime,
    ) -> Self {
        let partitions = context.log.len() as u16;
        // A node stores its first positions before it delivers anything.
        let positions = replica.positions(partitions);
        if positions.is_none() && replica.has_sessions() {
            tracing::error!(target: "backbone", node = stream_id.node,
                "a failed node's stream has no positions in the log; its sessions get what is \
                 published from now on");
        }
        let positions = positions.or_else(|| context.shared.log.positions());
        Self {
            context: context.clone(),
            stream_id,
            is_only,
            positions: positions.unwrap_or_default(),
            replica,
            fenced,
        }
    }

    /// Returns the number of sessions that were taken over, and the wills of those that were over.
    async fn run(self) -> Result<(usize, Vec<ReplicaWill>), BackboneError> {
        let context = self.context.clone();
        let mut keys: HashMap<SessionId, Option<(Ownership, u64)>> = HashMap::new();
        let stream_id = self.stream_id;
        let visit = |id, ownership: Ownership, revision| {
            if ownership.is_or_was_of(stream_id) {
                keys.insert(id, Some((ownership, revision)));
            }
        };
        context.directory.each(visit).await?;
        log_kept::log_kept(&context, &self.positions, self.replica.kept()).await?;
        let has_positions = self.replica.positions(context.log.len() as u16).is_some();
        let shares = if has_positions {
            group_shares::of(self.stream_id, &self.replica, &self.positions)
        } else {
            Vec::new()
        };
        let Self {
            stream_id,
            is_only,
            replica,
            fenced,
            positions,
            ..
        } = self;
        let mut released: HashMap<SessionId, Vec<_>> = HashMap::new();
        for (id, claim) in replica.released_sessions() {
            // The server from which the keys were read may have lacked this one.
            keys.entry(id).or_default();
            let content = replica.released(id, claim);
            released.entry(id).or_default().push((claim, content));
        }
        // The clock of the engine may be ahead.
        let fenced = fenced.min(context.shared.log.store.time_for_ages());
        let (sessions, wills) = replica.into_sessions(fenced);
        let by_id = |session: ReplicaSession| (SessionId::of(&session.session.name), session);
        let mut sessions: HashMap<_, _> = sessions.into_iter().map(by_id).collect();
        let work = Arc::new(SessionWork {
            context,
            stream_id,
            is_only,
            positions,
        });
        let mut all: Vec<KeyedSession> = keys
            .into_iter()
            .map(|(id, read)| KeyedSession {
                id,
                read,
                session: sessions.remove(&id),
                released: released.remove(&id).unwrap_or_default(),
            })
            .collect();
        // Sessions without a key of the node: they began a moment before it failed, or another
        // node has a session of this name.
        all.extend(sessions.into_iter().map(|(id, session)| KeyedSession {
            id,
            read: None,
            session: Some(session),
            released: Vec::new(),
        }));
        let taken = run_all(&work, all).await?;
        group_shares::pass_on(&work.context, stream_id, shares, &work.positions).await?;
        Ok((taken, wills))
    }
}

/// Takes sessions over. After a failure no further one is begun, but those that were begun come to
/// their end: a key that was written has its session soon.
async fn run_all(
    work: &Arc<SessionWork>,
    mut all: Vec<KeyedSession>,
) -> Result<usize, BackboneError> {
    let mut tasks = JoinSet::new();
    let mut taken = 0;
    let mut failure = None;
    loop {
        while failure.is_none()
            && tasks.len() < SESSIONS_MAX
            && let Some(one) = all.pop()
        {
            let work = work.clone();
            let take: Task<_> = Box::pin(async move { work.take(one).await });
            tasks.spawn(take);
        }
        let ended = match tasks.join_next().await {
            Some(Ok(Ok(is_taken))) => {
                taken += usize::from(is_taken);
                continue;
            }
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => BackboneError::Lost(error.to_string()),
            None => return failure.map_or(Ok(taken), Err),
        };
        failure.get_or_insert(ended);
    }
}

struct SessionWork {
    context: MoveContext,
    stream_id: NodeStreamId,
    is_only: bool,
    positions: Vec<LogPosition>,
}

impl SessionWork {
    /// Takes a session over; returns whether it is here now.
    async fn take(&self, one: KeyedSession) -> Result<bool, BackboneError> {
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
            let own = wanted.and_then(|_| self.own_claim(found_by, &released));
            // A key that is not there has revision 0.
            let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
            if let Some(own) = own {
                let Some(revision) = self.context.directory.update(id, &own, revision).await?
                else {
                    continue;
                };
                let Some(session) = session else {
                    return Ok(false);
                };
                self.complete(id, session, &own, revision).await?;
                return Ok(true);
            }
            let Some((ownership, revision)) = found else {
                return Ok(false);
            };
            let is_done = self
                .keep_for_others(id, &ownership, revision, session.as_ref(), &released)
                .await?;
            if is_done {
                return Ok(false);
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

    /// The claim by which this node gets a session that the failed node had, `None` if another node
    /// has claimed it. Until the session is stored here, the key names the failed node as well: if
    /// this node fails before, the session is still looked for there.
    fn own_claim(
        &self,
        found: Option<&Ownership>,
        released: &[(u64, Vec<StoreChange>)],
    ) -> Option<Ownership> {
        let own = self.context.shared.stream_id();
        let Some(found) = found else {
            return Some(Ownership::first(self.stream_id).taken_over(own));
        };
        if self.is_of_stream(found) {
            return Some(found.taken_over(own));
        }
        // An earlier attempt of this node has written the key, and was interrupted. What the failed
        // node had released before is not its session, which came later.
        let is_own = (found.owner, found.epoch) == (own.node, own.epoch);
        let source = found.sources.first().filter(|_| is_own)?;
        let is_of_stream =
            source.node == self.stream_id.node && source.epoch <= self.stream_id.epoch;
        let mut released = released.iter();
        let is_released =
            released.any(|(claim, content)| *claim == source.claim && !content.is_empty());
        (is_of_stream && !is_released).then(|| found.clone())
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
    /// kept for a later owner is kept here. Returns whether the key was written, or stays.
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
            if source.node != self.stream_id.node || source.epoch > self.stream_id.epoch {
                return true;
            }
            let content = self.content(id, source.claim, session, released);
            if content.is_empty() {
                // An earlier stream of the node may have it.
                return !self.is_only;
            }
            kept.extend(content);
            (source.node, source.epoch) = (own.node, own.epoch);
            true
        });
        let is_without_session = self.is_only && self.is_of_stream(ownership);
        if is_without_session && next.sources.is_empty() {
            self.context.directory.remove(id, revision).await;
            return Ok(true);
        }
        if is_without_session {
            next = ownership.next(own, next.sources);
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

    /// Whether the node got the session in the epoch of the stream or an earlier one. What it has
    /// got since, it has.
    fn is_of_stream(&self, ownership: &Ownership) -> bool {
        ownership.owner == self.stream_id.node && ownership.epoch <= self.stream_id.epoch
    }
}
