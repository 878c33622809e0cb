//! The shared resources of a bridge's work, and the ways in which it ends.

use std::sync::Arc;

use gatepost_broker::Broker;
use gatepost_message::Topic;
use tokio::sync::watch;

use super::Bridge;
use crate::settings::SinkSettings;
use crate::status::SinkProgress;

/// The reason why a connection is over.
pub(super) enum ConnectionEnding {
    /// The bridge is to stop.
    Stop,
    /// It is to be made again.
    Again(String),
}

pub(crate) struct RunningBridge {
    pub(crate) broker: Broker,
    pub(crate) settings: SinkSettings,
    pub(crate) bridge: Bridge,
    pub(crate) progress: Arc<SinkProgress>,
    pub(crate) dead_letter: Option<Topic>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Waits until the sink is to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender it is to stop too.
    let _ = stop.wait_for(|&stop| stop).await;
}
