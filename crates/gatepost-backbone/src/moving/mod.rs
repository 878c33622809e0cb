//! The tasks of a connection that move sessions (see `moves/`).
//!
//! - `claiming.rs`: the node that the client has connected to;
//! - `adopting.rs`, `missed_log.rs`: there, the sessions that join, and what they have missed of
//!   the log;
//! - `releasing.rs`: the earlier owner;
//! - `reconciling.rs`: at the beginning of a connection, the sessions of this node and the keys;
//! - `failed_nodes.rs`, `stream_states.rs`, `node_replica.rs`, `taking_over.rs`,
//!   `taken_session.rs`, `log_kept.rs`, `due_wills.rs`: the sessions of nodes that have failed;
//! - `group_shares.rs`: what these nodes were to serve to shared subscriptions;
//! - `log_range.rs`: reading a part of the log.

mod adopting;
mod claiming;
mod due_wills;
mod failed_nodes;
mod group_shares;
mod log_kept;
mod log_range;
mod missed_log;
mod node_replica;
mod reconciling;
mod releasing;
mod stream_states;
mod taken_session;
mod taking_over;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_nats::Client;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{Context, kv};
use gatepost_broker::{Broker, OwnerRights};
use gatepost_tasks::Task;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::BackboneError;
use crate::moves::MoveQueues;
use crate::moves::directory::Directory;
use crate::shared::Shared;
use failed_nodes::AbandonedStreams;

/// Claims that are made at once.
const CLAIMS_MAX: usize = 1_024;
/// Sessions that wait to join.
const ADOPTIONS_MAX: usize = 4_096;

/// The parts of a connection that moves need.
#[derive(Clone)]
pub(crate) struct MoveContext {
    shared: Arc<Shared>,
    broker: Broker,
    client: Client,
    directory: Directory,
    /// The streams of the log, by partition.
    log: Arc<Vec<Stream>>,
    adoptions: mpsc::Sender<adopting::AdoptionRequest>,
    engine: Context,
    /// The bucket of nodes.
    nodes: kv::Store,
    rights: Arc<dyn OwnerRights>,
}

/// The parts of the engine that moves use.
pub(crate) struct MoveEngine {
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) directory: Directory,
    /// The streams of the log, by partition.
    pub(crate) log: Vec<Stream>,
    /// The bucket of nodes.
    pub(crate) nodes: kv::Store,
}

/// The queues of a connection, which are left to the next one.
struct UsedQueues {
    shared: Arc<Shared>,
    queues: Option<MoveQueues>,
}

impl Drop for UsedQueues {
    fn drop(&mut self) {
        *self.shared.moves.queues.lock() = self.queues.take();
    }
}

/// Moves sessions for as long as the connection lasts.
pub(crate) async fn run(
    shared: Arc<Shared>,
    broker: Broker,
    rights: Arc<dyn OwnerRights>,
    engine: MoveEngine,
) -> BackboneError {
    let client = engine.client;
    let subjects = &shared.subjects;
    let questions = client
        .subscribe(subjects.session_questions(shared.node))
        .await;
    let replaced = client.subscribe(subjects.replaced_sessions()).await;
    let (questions, replaced) = match (questions, replaced) {
        (Ok(questions), Ok(replaced)) => (questions, replaced),
        (Err(error), _) | (_, Err(error)) => {
            return BackboneError::request("subscribing", error);
        }
    };
    let (adoptions, waiting) = mpsc::channel(ADOPTIONS_MAX);
    let context = MoveContext {
        shared: shared.clone(),
        broker,
        client,
        directory: engine.directory,
        log: Arc::new(engine.log),
        adoptions,
        engine: engine.context,
        nodes: engine.nodes,
        rights,
    };
    let mut abandoned = AbandonedStreams::default();
    if context.shared.settings.adopts_sessions()
        && let Err(error) = abandoned.update(&context).await
    {
        return error;
    }
    if let Err(error) = reconciling::reconcile(&context).await {
        return error;
    }
    let queues = shared.moves.queues.lock().take();
    let used = UsedQueues { shared, queues };
    tokio::select! {
        error = serve(&context, used) => error,
        error = adopting::run(context.clone(), waiting) => error,
        error = releasing::run(context.clone(), questions) => error,
        error = releasing::follow_replacements(&context, replaced) => error,
        error = failed_nodes::run(context.clone(), abandoned) => error,
    }
}

/// Begins the claims of this node, and follows the beginnings and ends of its sessions.
async fn serve(context: &MoveContext, mut used: UsedQueues) -> BackboneError {
    let lost = || BackboneError::Lost("the queue of claims ended".to_owned());
    let Some(queues) = &mut used.queues else {
        return lost();
    };
    let mut claims = JoinSet::new();
    loop {
        tokio::select! {
            Some(request) = queues.requests.recv(), if claims.len() < CLAIMS_MAX => {
                let context = context.clone();
                let claim: Task = Box::pin(claiming::claim(context, request));
                claims.spawn(claim);
            }
            Some(name) = queues.replacements.recv() => {
                if let Err(error) = context.announce_replaced(&name, 0).await {
                    return error;
                }
            }
            Some(name) = queues.began.recv() => {
                let context = context.clone();
                let enter: Task =
                    Box::pin(async move { reconciling::enter(&context, &name).await });
                claims.spawn(enter);
            }
            Some((name, claim)) = queues.ended.recv() => {
                let context = context.clone();
                let forget: Task =
                    Box::pin(async move { reconciling::forget(&context, &name, claim).await });
                claims.spawn(forget);
            }
            Some(_) = claims.join_next() => {}
            else => return lost(),
        }
    }
}
