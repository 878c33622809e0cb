//! The resources that the parts of a bridge share, and the reasons why a connection ends.

use std::sync::Arc;

use gatepost_broker::Broker;
use gatepost_message::Topic;
use tokio::sync::watch;

use super::Bridge;
use crate::settings::SinkSettings;
use crate::status::SinkProgress;

/// The reason why a connection ended.
pub(super) enum ConnectionEnding {
    /// The bridge is being stopped.
    Stop,
    /// The bridge must reconnect, for this reason.
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

/// Waits until the sink is stopped.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A closed channel means stop, too.
    let _ = stop.wait_for(|&stop| stop).await;
}
