//! The sessions of a failed node are taken over by this one.
//!
//! Each session gets this node in its key of the directory, and is stored here like one that moves.
//! The content that the failed node kept for others goes into the records of this node. What the
//! failed node had not yet got into the log is appended by this one, under the same message ids.
//!
//! The stream of the failed node stays until all of it is stored here, so each step may be
//! repeated, by any node. A session for which another node has begun that, and has failed as well,
//! waits until the stream of that one was adopted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gatepost_tasks::Task;
use tokio::task::JoinSet;

use super::stream_states::StreamStates;
use super::taken_session::{FailedStream, KeyedSession, SessionWork, TakeOutcome};
use super::{MoveContext, due_wills, group_shares, log_kept, node_replica};
use crate::error::BackboneError;
use crate::log::position::LogPosition;
use crate::moves::ownership::{Ownership, SessionId};
use crate::node_stream::replica::{Replica, ReplicaSession, ReplicaWill};
use crate::node_streams;

/// Sessions that are taken over at once.
const SESSIONS_MAX: usize = 256;

/// Takes over everything in a stream, and empties it, unless sessions wait.
pub(super) async fn take_over(
    context: &MoveContext,
    failed: FailedStream,
) -> Result<(), BackboneError> {
    let stream_id = failed.id;
    let began = Instant::now();
    let name = context.shared.subjects.node_stream_name(stream_id);
    let Some(stream) = node_streams::find(&context.engine, &name).await? else {
        return Ok(());
    };
    let fence = node_replica::fence(context, &stream, stream_id).await?;
    let (replica, fenced) = node_replica::read(&stream, fence).await?;
    let content = TakeOver::new(context, failed, replica, fenced);
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
    failed: FailedStream,
    replica: Replica,
    /// The time from which the node stored nothing more.
    fenced: SystemTime,
    positions: Vec<LogPosition>,
}

impl TakeOver {
    fn new(
        context: &MoveContext,
        failed: FailedStream,
        replica: Replica,
        fenced: SystemTime,
    ) -> Self {
        let partitions = context.log.len() as u16;
        // A node stores its first positions before it delivers anything.
        let positions = replica.positions(partitions);
        if positions.is_none() && replica.has_sessions() {
            tracing::error!(target: "backbone", node = failed.id.node,
                "a failed node's stream has no positions in the log; its sessions get what is \
                 published from now on");
        }
        let positions = positions.or_else(|| context.shared.log.positions());
        Self {
            context: context.clone(),
            failed,
            positions: positions.unwrap_or_default(),
            replica,
            fenced,
        }
    }

    /// Returns the number of sessions that were taken over, and the wills of those that were over.
    async fn run(self) -> Result<(usize, Vec<ReplicaWill>), BackboneError> {
        let context = self.context.clone();
        let mut keys: HashMap<SessionId, Option<(Ownership, u64)>> = HashMap::new();
        let stream_id = self.failed.id;
        let visit = |id, ownership: Ownership, revision| {
            if ownership.is_or_was_of(stream_id) {
                keys.insert(id, Some((ownership, revision)));
            }
        };
        context.directory.each(visit).await?;
        log_kept::log_kept(&context, &self.positions, self.replica.kept()).await?;
        let has_positions = self.replica.positions(context.log.len() as u16).is_some();
        let shares = if has_positions {
            group_shares::of(stream_id, &self.replica, &self.positions)
        } else {
            Vec::new()
        };
        let Self {
            failed,
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
            streams: StreamStates::new(&context),
            context,
            failed,
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
/// their end: a key that was written has its session soon. Those that wait keep no other back.
async fn run_all(
    work: &Arc<SessionWork>,
    mut all: Vec<KeyedSession>,
) -> Result<usize, BackboneError> {
    let mut tasks = JoinSet::new();
    let mut taken = 0;
    let (mut failure, mut waits) = (None, None);
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
            Some(Ok(Ok(outcome))) => {
                taken += usize::from(outcome == TakeOutcome::Taken);
                if let TakeOutcome::Waits(node) = outcome {
                    waits = Some(BackboneError::AdoptedLater(node));
                }
                continue;
            }
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => BackboneError::Lost(error.to_string()),
            None => return failure.or(waits).map_or(Ok(taken), Err),
        };
        failure.get_or_insert(ended);
    }
}
