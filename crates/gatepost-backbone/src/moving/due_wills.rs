//! The wills of sessions that were over when their node failed: sessions that had expired, and
//! those that kept a will which could not be published yet.
//!
//! The broker of this node stores them before it publishes them. It passes over those that an
//! earlier attempt of this run has brought. If this node fails as well, after it has stored them
//! and before the stream is emptied, such a will may be published twice.

use std::time::{Duration, Instant};

use gatepost_broker::AdoptedWill;
use gatepost_message::Publication;

use super::MoveContext;
use crate::error::BackboneError;
use crate::node_stream::replica::ReplicaWill;

/// Wills that are stored in one commit.
const WILLS_AT_ONCE: usize = 1_000;
/// The longest time for which all of them wait until earlier ones are published.
const TIME_MAX: Duration = Duration::from_mins(1);
/// The interval at which the broker is asked meanwhile.
const REPEAT_AFTER: Duration = Duration::from_millis(200);

/// Stores the wills here, to be published.
pub(super) async fn adopt(
    context: &MoveContext,
    wills: &[ReplicaWill],
) -> Result<(), BackboneError> {
    let failed = |error| BackboneError::request("storing wills", error);
    let deadline = Instant::now() + TIME_MAX;
    for wills in wills.chunks(WILLS_AT_ONCE) {
        let ticket = loop {
            let adopted = wills.iter().map(|will| adopted(context, will)).collect();
            match context.broker.adopt_wills(adopted).map_err(failed)? {
                Some(ticket) => break ticket,
                None if Instant::now() >= deadline => {
                    return Err(BackboneError::Lost("too many wills wait".to_owned()));
                }
                None => tokio::time::sleep(REPEAT_AFTER).await,
            }
        };
        ticket.committed().await.map_err(failed)?;
    }
    Ok(())
}

fn adopted(context: &MoveContext, will: &ReplicaWill) -> AdoptedWill {
    let user = will.name.user.as_deref();
    AdoptedWill {
        number: will.number,
        name: will.name.clone(),
        kind: will.kind.clone(),
        publication: Publication::clone(&will.publication),
        authorization: context.rights.of_owner(user, &will.name.client_id),
    }
}
