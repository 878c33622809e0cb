//! The sessions of a node that does not return, on an operator's request.
//!
//! While a node is not running, the clients whose sessions it has are refused, since the sessions
//! are in its database. If that is lost, the directory must no longer name the node.

use async_nats::jetstream;
use gatepost_tasks::BoxedFuture;

use super::directory::Directory;
use super::ownership::Ownership;
use crate::connection::Connection;
use crate::error::BackboneError;
use crate::members;
use crate::membership;
use crate::settings::BackboneSettings;
use crate::subjects::Subjects;

/// Removes a node that is not running from the directory of sessions, so that its clients get new
/// sessions on other nodes. Returns the number of sessions. If the node returns, its sessions that
/// were not replaced are there again.
pub fn forget_node(
    settings: &BackboneSettings,
    node: u8,
) -> BoxedFuture<'_, Result<usize, BackboneError>> {
    Box::pin(async move {
        let connection = Connection::open(settings, "gatepost nodes forget", 0).await?;
        let context = jetstream::new(connection.client);
        let subjects = Subjects::new(&settings.cluster);
        if let Some(bucket) = membership::existing_bucket(&context, &subjects).await {
            let alive = membership::list(&bucket).await?;
            if alive.iter().any(|record| record.node == node) {
                return Err(BackboneError::Running(node));
            }
        }
        members::forget(&context, &subjects, node).await?;
        let Some(directory) = Directory::existing(&context, &subjects).await else {
            return Ok(0);
        };
        let mut keys = Vec::new();
        let visit = |id, ownership: Ownership, revision| {
            if ownership.claim_of(node).is_some() {
                keys.push((id, ownership, revision));
            }
        };
        directory.each(visit).await?;
        for (id, ownership, revision) in &keys {
            let mut rest = ownership.clone();
            rest.sources.retain(|source| source.node != node);
            if ownership.owner == node && rest.sources.is_empty() {
                directory.remove(*id, *revision).await;
            } else {
                // A key that has changed meanwhile belongs to a node that is running.
                directory.update(*id, &rest, *revision).await?;
            }
        }
        Ok(keys.len())
    })
}
