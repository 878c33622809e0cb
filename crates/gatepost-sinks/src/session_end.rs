//! Removal of what a sink that is no longer there left in the broker.

use gatepost_broker::Broker;
use gatepost_message::{Publication, Topic, TopicFilter};

use crate::bridge::state_topic;

/// Ends the session and discards its queued messages. The sessions of sinks belong to no user.
pub(crate) async fn end_session(broker: &Broker, client_id: &str) {
    let waiting = broker.session(client_id).map(|session| session.unfinished);
    match broker.end_sessions(client_id, Some("")).await {
        Ok(0) => {}
        Ok(_) => tracing::info!(target: "sinks", client = client_id, waiting,
            "the session of a removed sink is ended"),
        Err(error) => tracing::warn!(target: "sinks", client = client_id, %error,
            "the session of a removed sink could not be ended"),
    }
}

/// Removes the retained state of a bridge, if a sink of this name was one: there is none any more.
pub(crate) fn forget_bridge_state(broker: &Broker, name: &str) {
    let topic = state_topic(name);
    if let (Ok(filter), Ok(topic)) = (TopicFilter::new(&topic), Topic::new(&topic))
        && !broker.retained(&filter).is_empty()
    {
        let mut publication = Publication::new(topic, "");
        publication.retain = true;
        let _ = broker.publish_now(publication);
    }
}
