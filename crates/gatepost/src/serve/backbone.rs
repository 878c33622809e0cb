//! The broker, as one of several nodes where the config has a cluster.

use std::sync::Arc;

use gatepost_backbone::{Backbone, EngineFindingKind, RunningBackbone};
use gatepost_broker::Broker;
use gatepost_gateway::{SHARED_SENDER_LISTS, SHARED_SENDERS};
use gatepost_listeners::mqtt::UsersRights;
use gatepost_message::NodeNumber;
use gatepost_operations::learner::{self, Learner};
use gatepost_store::{SharedSet, Store};
use gatepost_topics::TopicRules;
use gatepost_users::{SHARED_ACCESS, SHARED_PEPPER};

use super::error::StartError;
use crate::config::Config;

/// The records that all servers of a cluster share. A server that joins adds its own in this order,
/// so that a list of senders has its user when another server reads it.
pub(crate) static SHARED_RECORDS: &[&SharedSet] = &[
    &SHARED_ACCESS,
    &SHARED_PEPPER,
    &SHARED_SENDERS,
    &SHARED_SENDER_LISTS,
];

/// Prepares the backbone, where the config has a cluster: from now on, the cluster decides about
/// the records that are shared, and about what is learned.
/// Otherwise, this server does, even if it was part of a cluster.
pub(super) async fn prepare(
    config: &Config,
    store: &Store,
    learner: &Arc<Learner>,
) -> Result<Option<Backbone>, StartError> {
    let settings = &config.backbone;
    if !settings.is_set() {
        gatepost_backbone::leave_cluster(store).await?;
        learner::leave_cluster(store).await?;
        return Ok(None);
    }
    let node = config.node().unwrap_or(NodeNumber::FIRST);
    let backbone = Backbone::new(settings, node, store, SHARED_RECORDS)?;
    learner.share(backbone.share_learning(learner.clone()));
    Ok(Some(backbone))
}

/// Opens the broker and, where there is one, joins the cluster. NATS servers that cannot be reached
/// do not prevent the start.
pub(super) async fn open_broker(
    config: &Config,
    backbone: Option<Backbone>,
    store: &Store,
    rights: &UsersRights,
) -> Result<(Broker, Option<RunningBackbone>), StartError> {
    let nodes = backbone.as_ref().map(Backbone::nodes);
    let rules = TopicRules::new(&config.topics).map_err(StartError::Topics)?;
    let broker = Broker::open_as_node(config.broker.clone(), store.clone(), rights, nodes, rules)?;
    let Some(backbone) = backbone else {
        return Ok((broker, None));
    };
    let mut running = backbone
        .start(&broker, Arc::new(rights.clone()))
        .map_err(StartError::Threads)?;
    if let Err(error) = running.joined().await {
        running.stop().await;
        return Err(error.into());
    }
    gatepost_tasks::spawn(log_findings(config.clone()));
    Ok((broker, Some(running)))
}

/// Logs the problems of the NATS servers.
async fn log_findings(config: Config) {
    let packet_bytes_max = config.listeners.mqtt.packet_max.bytes();
    for finding in gatepost_backbone::check(&config.backbone, packet_bytes_max).await {
        if finding.kind != EngineFindingKind::Good {
            tracing::warn!(target: "backbone", "{}", finding.text);
        }
    }
}
