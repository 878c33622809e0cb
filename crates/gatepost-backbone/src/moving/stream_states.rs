//! The states of the streams of nodes, as one adoption reads them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::MoveContext;
use crate::error::BackboneError;
use crate::node_epoch::NodeStreamId;
use crate::node_stream::message::MessageKind;
use crate::node_streams;

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeStreamState {
    /// Its node is running.
    Written,
    /// Its node is not running, or has begun a later epoch.
    Abandoned,
    /// All that it had was adopted.
    Emptied,
}

/// The states, each of which is read once.
pub(super) struct StreamStates {
    context: MoveContext,
    known: Mutex<HashMap<NodeStreamId, Arc<OnceCell<NodeStreamState>>>>,
}

impl StreamStates {
    pub(super) fn new(context: &MoveContext) -> Self {
        Self {
            context: context.clone(),
            known: Mutex::default(),
        }
    }

    /// The state of a stream. A node without an epoch has no stream, and keeps its sessions until
    /// it runs again.
    pub(super) async fn state(&self, id: NodeStreamId) -> Result<NodeStreamState, BackboneError> {
        let shared = &self.context.shared;
        let alive = shared.known_nodes.alive();
        let is_written = id == shared.stream_id() || alive.iter().any(|one| one.writes(id));
        if id.epoch == 0 || is_written {
            return Ok(NodeStreamState::Written);
        }
        let known = self.known.lock().entry(id).or_default().clone();
        let state = known.get_or_try_init(|| async {
            let is_emptied = is_emptied(&self.context, id).await?;
            Ok::<_, BackboneError>(if is_emptied {
                NodeStreamState::Emptied
            } else {
                NodeStreamState::Abandoned
            })
        });
        state.await.copied()
    }
}

/// Whether a stream has nothing but a fence. A message of a later version is none that this one
/// knows.
pub(super) async fn is_emptied(
    context: &MoveContext,
    id: NodeStreamId,
) -> Result<bool, BackboneError> {
    let subjects = &context.shared.subjects;
    let Some(stream) = node_streams::find(&context.engine, &subjects.node_stream_name(id)).await?
    else {
        return Ok(true);
    };
    if stream.cached_info().state.messages > 1 {
        return Ok(false);
    }
    match node_streams::last_message(&stream, &subjects.node_stream(id)).await {
        Ok(last) => Ok(last.is_some_and(|(_, last)| last.kind == MessageKind::Fence)),
        Err(BackboneError::Later { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
