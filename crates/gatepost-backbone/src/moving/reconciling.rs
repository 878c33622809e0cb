//! The sessions of this node and the keys of the directory, compared when a connection begins.
//!
//! While this node was not connected, a client may have replaced its session on another node; then
//! the session here ends. Sessions from before this server joined a cluster get their keys.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use gatepost_broker::SessionName;

use super::MoveContext;
use crate::error::BackboneError;
use crate::moves::ownership::{Ownership, SessionId};
use crate::moves::transfer;

/// Attempts to remove a key that this node is changing.
const REMOVE_ATTEMPTS: usize = 3;
/// Sessions whose keys are written at once.
const SESSIONS_AT_ONCE: usize = 256;

/// The keys that name this node, each with its revision.
type OwnKeys = HashMap<SessionId, (Ownership, u64)>;

/// Compares all sessions and keys.
pub(super) async fn reconcile(context: &MoveContext) -> Result<(), BackboneError> {
    let node = context.shared.node;
    let mut keys = OwnKeys::new();
    let visit = |id, ownership: Ownership, revision| {
        if ownership.claim_of(node).is_some() {
            keys.insert(id, (ownership, revision));
        }
    };
    context.directory.each(visit).await?;
    let names = context.broker.persistent_sessions();
    let confirmed = stream::iter(names)
        .map(|name| confirm_session(context, &keys, name))
        .buffer_unordered(SESSIONS_AT_ONCE);
    let confirmed: Vec<Option<(SessionId, u64)>> = confirmed.try_collect().await?;
    let own: HashMap<SessionId, u64> = confirmed.into_iter().flatten().collect();
    for (id, (ownership, revision)) in &keys {
        let is_over = ownership.owner == node && ownership.sources.is_empty();
        // The key of a session of an earlier epoch is left to the node that adopts it.
        let is_over = is_over && !context.shared.moves.has_earlier_epoch();
        if is_over && !own.contains_key(id) {
            context.directory.remove(*id, *revision).await;
        }
    }
    remove_content(context, &keys)?;
    *context.shared.moves.own.lock() = own;
    Ok(())
}

/// The claim of a session that is here, or was until now.
async fn confirm_session(
    context: &MoveContext,
    keys: &OwnKeys,
    name: SessionName,
) -> Result<Option<(SessionId, u64)>, BackboneError> {
    let id = SessionId::of(&name);
    let claim = match keys.get(&id) {
        Some((ownership, revision)) => confirm(context, id, ownership, *revision).await?,
        None => enter_or_end(context, &name).await?,
    };
    Ok(claim.map(|claim| (id, claim)))
}

/// The claim of a session that has a key of this node.
async fn confirm(
    context: &MoveContext,
    id: SessionId,
    ownership: &Ownership,
    revision: u64,
) -> Result<Option<u64>, BackboneError> {
    let node = context.shared.node;
    if ownership.owner == node && !ownership.sources.is_empty() {
        // The session was stored here, and this server stopped before it said so.
        let cleared = ownership.without_sources();
        context.directory.update(id, &cleared, revision).await?;
    }
    Ok(ownership.claim_of(node))
}

/// The claim of a session that has no key of this node: a new one, or none, if its client has
/// another session.
async fn enter_or_end(
    context: &MoveContext,
    name: &SessionName,
) -> Result<Option<u64>, BackboneError> {
    let (id, directory) = (SessionId::of(name), &context.directory);
    let first = Ownership::first(context.shared.stream_id());
    loop {
        if directory.create(id, &first).await?.is_some() {
            return Ok(Some(first.claim));
        }
        // The server from which the keys were read may have lacked this one.
        let Some((ownership, revision)) = directory.find_at_leader(id).await? else {
            continue;
        };
        if ownership.claim_of(context.shared.node).is_some() {
            return confirm(context, id, &ownership, revision).await;
        }
        // A leader that has been replaced does not know the last change.
        if directory.update(id, &ownership, revision).await?.is_some() {
            break;
        }
    }
    tracing::warn!(target: "backbone", client = &*name.client_id,
        "a session is discarded: its client has another one, on another node");
    context.broker.disown_session(name);
    Ok(None)
}

/// Removes the content of released sessions that their new owners have stored. An owner writes its
/// key before it asks for the content, so the keys name this node for all that is needed.
fn remove_content(context: &MoveContext, keys: &OwnKeys) -> Result<(), BackboneError> {
    let node = context.shared.node;
    let store = &context.shared.log.store;
    let kept = transfer::kept(store);
    let kept = kept.map_err(|error| BackboneError::request("reading released sessions", error))?;
    let is_needed = |id, claim| {
        keys.get(&id).is_some_and(|(ownership, _)| {
            let mut sources = ownership.sources.iter();
            sources.any(|source| (source.node, source.claim) == (node, claim))
        })
    };
    let removals = kept
        .into_iter()
        .filter(|&(id, claim)| !is_needed(id, claim));
    // Content that stays is removed the next time.
    let _ = store.submit_deferred(removals.map(|(id, claim)| transfer::remove(id, claim)));
    Ok(())
}

/// Makes the key of a session that has begun here.
pub(super) async fn enter(context: &MoveContext, name: &SessionName) {
    let (id, first) = (
        SessionId::of(name),
        Ownership::first(context.shared.stream_id()),
    );
    if matches!(context.directory.create(id, &first).await, Ok(Some(_))) {
        context.shared.moves.own.lock().insert(id, first.claim);
    }
}

/// Removes the key of a session that has ended here, unless a session of this name has begun since.
pub(super) async fn forget(context: &MoveContext, name: &SessionName, claim: u64) {
    let (id, moves) = (SessionId::of(name), &context.shared.moves);
    for attempt in 0..REMOVE_ATTEMPTS {
        let Ok(Some((ownership, revision))) = context.directory.find_at_leader(id).await else {
            return;
        };
        let is_ours = ownership.owner == context.shared.node && ownership.claim == claim;
        if !is_ours || context.broker.has_persistent_session(name) {
            return;
        }
        {
            let mut own = moves.own.lock();
            if own.get(&id).copied() != (attempt == 0).then_some(claim) {
                return; // The client is connecting again.
            }
            own.remove(&id);
        }
        // The claim by which the session came may be about to remove the sources from the key.
        if context.directory.remove(id, revision).await {
            context.remove_contents(name, &ownership).await;
            return;
        }
    }
}
