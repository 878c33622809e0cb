//! A server that led a stream, when it was stopped and continues.

use std::time::Duration;

use super::servers::{Servers, eventually};

const ROUNDS: usize = 3;
const APPENDS: usize = 30;

/// An answer for the end of a stream may come from a leader that does not know of its successor
/// yet, but an append follows everything that is stored. `log_end.rs` rests on this.
#[tokio::test]
async fn an_append_follows_all_that_is_stored_although_a_stopped_leader_continues() {
    let Some(servers) = Servers::start() else {
        return;
    };
    let context = servers.connect().await;
    servers.create_stream(&context, "log").await;
    for _ in 0..ROUNDS {
        let stopped = servers.leader(&context, "log").await;
        let at_stopped = servers.connect_to(stopped).await;
        let at_other = servers.connect_to((stopped + 1) % 3).await;
        servers.signal(stopped, "STOP");
        let mut last = 0;
        for _ in 0..APPENDS {
            last = eventually("an entry is stored", async || {
                let sent = at_other.publish("log.entry", "x".into()).await;
                sent.map_err(|error| error.to_string())?
                    .await
                    .map_err(|error| error.to_string())
            })
            .await
            .sequence;
        }
        servers.signal(stopped, "CONT");
        let end = eventually("the end is stored", async || {
            let sent = at_stopped.publish("log.entry", "end".into()).await;
            sent.map_err(|error| error.to_string())?
                .await
                .map_err(|error| error.to_string())
        })
        .await;
        assert!(end.sequence > last, "{end:?} after {last}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
