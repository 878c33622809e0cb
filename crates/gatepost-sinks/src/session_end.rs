//! Removal of a session that no sink uses any more.

use gatepost_broker::Broker;

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
