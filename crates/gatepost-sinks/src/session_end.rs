//! The end of a session that no sink needs any more.

use gatepost_broker::Broker;

/// Ends the session, with what waits in it. The sessions of sinks belong to no user.
pub(crate) async fn end_session(broker: &Broker, client_id: &str) {
    let waiting = broker.session(client_id).map(|session| session.unfinished);
    match broker.end_sessions(client_id, Some("")).await {
        Ok(0) => {}
        Ok(_) => tracing::info!(target: "sinks", client = client_id, waiting,
            "the session of a sink that is no more is over"),
        Err(error) => tracing::warn!(target: "sinks", client = client_id, %error,
            "the session of a sink that is no more could not be ended"),
    }
}
