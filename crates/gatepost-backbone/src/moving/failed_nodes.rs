//! Nodes that have failed: their streams are found, and one of the living nodes adopts the sessions
//! of each.
//!
//! A stream is abandoned when its node has had no key for [`BackboneSettings::adopt_after`], as
//! seen by this node, or when its node has begun a later epoch. A key of the bucket of nodes, which
//! expires, decides which node adopts it. If that node fails as well, another one begins again:
//! each step may be repeated.
//!
//! [`BackboneSettings::adopt_after`]: crate::BackboneSettings::adopt_after

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, CreateErrorKind};
use bytes::Bytes;

use super::stream_states::is_emptied;
use super::taken_session::FailedStream;
use super::{MoveContext, taking_over};
use crate::error::BackboneError;
use crate::membership::{LEASE, RENEW_EVERY};
use crate::node_epoch::NodeStreamId;
use crate::node_streams;

/// The interval at which the streams of nodes are listed.
const LIST_EVERY: Duration = Duration::from_secs(2);
/// The longest time for which sessions of a stream wait for the adoption of another one, beyond
/// the time after which that begins.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The streams that no living node writes.
#[derive(Default)]
pub(super) struct AbandonedStreams {
    /// Since when each is abandoned, as seen by this node.
    since: HashMap<NodeStreamId, Instant>,
    /// Streams whose sessions were adopted.
    emptied: HashSet<NodeStreamId>,
    /// Since when sessions of a stream wait for the adoption of another one.
    waiting: HashMap<NodeStreamId, Instant>,
}

impl AbandonedStreams {
    /// Compares the streams with the nodes that are alive.
    pub(super) async fn update(&mut self, context: &MoveContext) -> Result<(), BackboneError> {
        let shared = &context.shared;
        let all = node_streams::list(&context.engine, &shared.subjects).await?;
        let alive = shared.known_nodes.alive();
        let mut since = HashMap::new();
        let is_written = |id: &NodeStreamId| {
            *id == shared.stream_id() || alive.iter().any(|one| one.writes(*id))
        };
        for id in all.into_iter().filter(|id| !is_written(id)) {
            if !self.emptied.contains(&id) && is_emptied(context, id).await? {
                self.emptied.insert(id);
                shared.unreadable.clear(&description(id));
            }
            if !self.emptied.contains(&id) {
                let first_seen = self.since.get(&id).copied();
                since.insert(id, first_seen.unwrap_or_else(Instant::now));
            } else if id.node == shared.node {
                // Its fence was for this node, which has begun another epoch.
                delete_stream(context, id).await;
            }
        }
        self.since = since;
        self.waiting.retain(|id, _| self.since.contains_key(id));
        let has_own = self.since.keys().any(|id| id.node == shared.node);
        shared.moves.set_earlier_epoch(has_own);
        Ok(())
    }

    /// The stream that is due, the later epochs of a node first. An earlier epoch waits until the
    /// later ones of its node are adopted. A stream that this version cannot read is left to a node
    /// of a later one, and one whose sessions wait for the adoption of another stream to the next
    /// time.
    fn due(&self, adopt_after: Duration, left: &HashSet<NodeStreamId>) -> Option<NodeStreamId> {
        let is_due = |since: &Instant| since.elapsed() >= adopt_after;
        let due = self.since.iter().filter(|(_, since)| is_due(since));
        due.map(|(id, _)| *id)
            .filter(|id| !self.has_later(*id) && !left.contains(id))
            .min()
    }

    fn has_later(&self, id: NodeStreamId) -> bool {
        let mut others = self.since.keys();
        others.any(|other| other.node == id.node && other.epoch > id.epoch)
    }

    /// Whether this is the only abandoned stream of its node.
    fn is_only(&self, id: NodeStreamId) -> bool {
        let of_node = self.since.keys().filter(|other| other.node == id.node);
        of_node.count() == 1
    }

    /// Sessions of a stream may wait for the adoption of another one.
    fn may_wait(&self, id: NodeStreamId, adopt_after: Duration) -> bool {
        let waiting = self.waiting.get(&id);
        waiting.is_none_or(|since| since.elapsed() < adopt_after + WAIT_MAX)
    }

    fn failed_stream(&self, id: NodeStreamId, adopt_after: Duration) -> FailedStream {
        FailedStream {
            id,
            is_only: self.is_only(id),
            may_wait: self.may_wait(id, adopt_after),
        }
    }
}

/// Adopts the sessions of failed nodes for as long as the connection lasts.
pub(super) async fn run(context: MoveContext, mut streams: AbandonedStreams) -> BackboneError {
    let adopt_after = context.shared.settings.adopt_after.duration();
    if adopt_after.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LIST_EVERY.min(adopt_after)).await;
        if let Err(error) = streams.update(&context).await {
            tracing::debug!(target: "backbone", %error, "the nodes' streams are not listed");
            continue;
        }
        let mut left = HashSet::new();
        while let Some(id) = streams.due(adopt_after, &left) {
            let failed = streams.failed_stream(id, adopt_after);
            match Box::pin(adopt_node(&context, failed)).await {
                Ok(true) => {
                    streams.since.remove(&id);
                    context.shared.unreadable.clear(&description(id));
                }
                // Another node adopts them.
                Ok(false) => break,
                Err(error @ BackboneError::Later { .. }) => {
                    context.shared.unreadable.note(&description(id), &error);
                    left.insert(id);
                }
                Err(error @ BackboneError::AdoptedLater(_)) => {
                    tracing::info!(target: "backbone", node = id.node, %error,
                        "sessions of a failed node wait");
                    streams.waiting.entry(id).or_insert_with(Instant::now);
                    left.insert(id);
                }
                Err(error) => {
                    tracing::warn!(target: "backbone", node = id.node, %error,
                        "the sessions of a failed node are not adopted yet");
                    break;
                }
            }
        }
    }
}

/// The name of a stream for operators.
fn description(id: NodeStreamId) -> String {
    format!("the sessions of node {}", id.node)
}

async fn delete_stream(context: &MoveContext, id: NodeStreamId) {
    let deleted = context
        .engine
        .delete_stream(context.shared.subjects.node_stream_name(id))
        .await;
    if let Err(error) = deleted {
        tracing::debug!(target: "backbone", %error, "an empty stream stays");
    }
}

/// Adopts the sessions of a stream, unless another node does.
async fn adopt_node(context: &MoveContext, failed: FailedStream) -> Result<bool, BackboneError> {
    let id = failed.id;
    let key = format!("adopting.{}.{:x}", id.node, id.epoch);
    let value = Bytes::from(context.shared.node.to_string());
    let revision = match context.nodes.create(&key, value.clone()).await {
        Ok(revision) => revision,
        Err(error) if error.kind() == CreateErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(BackboneError::request("claiming a node's stream", error)),
    };
    let claim = StreamClaim {
        nodes: &context.nodes,
        key: &key,
        value,
        revision,
    };
    let adopted = tokio::select! {
        adopted = taking_over::take_over(context, failed) => adopted,
        error = claim.keep() => Err(error),
    };
    let _ = context.nodes.delete(&key).await;
    adopted.map(|()| true)
}

/// The claim of this node to the stream of a failed one.
pub(super) struct StreamClaim<'a> {
    pub(super) nodes: &'a kv::Store,
    pub(super) key: &'a str,
    pub(super) value: Bytes,
    pub(super) revision: u64,
}

impl StreamClaim<'_> {
    /// Renews the claim until it has expired, or another node has it.
    async fn keep(mut self) -> BackboneError {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            let began = Instant::now();
            let update = self
                .nodes
                .update(self.key, self.value.clone(), self.revision);
            match update.await {
                Ok(revision) => (self.revision, renewed) = (revision, began),
                // An election of the engine takes some seconds.
                Err(error) if renewed.elapsed() >= LEASE || self.is_lost().await => {
                    return BackboneError::request("renewing the claim to a stream", error);
                }
                Err(error) => {
                    tracing::debug!(target: "backbone", %error, "a claim is not renewed yet");
                }
            }
        }
    }

    /// Whether the key is no longer this node's. Otherwise an update whose answer was lost may have
    /// changed its revision, which is noted.
    pub(super) async fn is_lost(&mut self) -> bool {
        let Ok(entry) = self.nodes.entry(self.key).await else {
            return false;
        };
        match entry.filter(|entry| entry.value == self.value) {
            Some(entry) => {
                self.revision = self.revision.max(entry.revision);
                false
            }
            None => true,
        }
    }
}
