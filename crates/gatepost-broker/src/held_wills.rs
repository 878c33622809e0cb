//! Wills that are due and cannot be published yet: memory is short, the queue of a receiving
//! session is on disk, or the log of the cluster has no room.
//!
//! Such a will is kept as the will of a session of its own, which has already ended. With a store
//! that session has a row, so that a will which this run cannot publish is published at the next
//! start. The client's own session continues, or ends, without the will.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{MessageId, Publication};
use parking_lot::Mutex;

use crate::publisher::Publisher;
use crate::session::{DeferredEffects, Session, SessionWill};
use crate::shared::BrokerShared;

/// The number of wills in memory; with a store, further ones wait on disk for the next start.
const WILLS_MAX: usize = 10_000;

/// The wills of this run that wait for memory, or for room in the log.
#[derive(Default)]
pub(crate) struct HeldWills(Mutex<Vec<HeldWill>>);

struct HeldWill {
    /// The session that keeps it.
    session: Arc<Session>,
    /// Whether the session of its client is persistent.
    is_of_persistent: bool,
}

impl HeldWill {
    /// Whether the rows of the session that keeps it are on disk, and copied for other nodes.
    fn is_stored(&self) -> bool {
        let mut state = self.session.lock();
        let persistent = state.persistent_mut();
        persistent.is_some_and(|persistent| {
            persistent.unmet_prerequisite().is_none() && persistent.prerequisite.is_none()
        })
    }
}

impl HeldWills {
    /// Takes the will, which cannot be published now, out of these effects. Its rows are added to
    /// their other changes.
    pub(crate) fn hold(&self, effects: &mut DeferredEffects, shared: &BrokerShared) {
        let Some(will) = effects.will.take() else {
            return;
        };
        let client = effects.session.client_id();
        let mut held = self.0.lock();
        let is_stored = shared.store.is_some();
        if held.len() >= WILLS_MAX {
            let until = if is_stored { "the next start" } else { "ever" };
            tracing::error!(target: "broker", client, until,
                "a will is not published: it cannot be delivered now, and too many wills wait");
        }
        let is_of_persistent = effects.has_rows();
        let session = Arc::new(session_of(effects, will, shared));
        if held.len() < WILLS_MAX {
            held.push(HeldWill {
                session: session.clone(),
                is_of_persistent,
            });
        }
        drop(held);
        effects.held_will = Some(session);
    }

    /// Removes and returns the sessions whose wills can be published, in the order in which these
    /// were due.
    pub(crate) fn take_publishable(&self, shared: &Arc<BrokerShared>) -> Vec<Arc<Session>> {
        let mut held = self.0.lock();
        if held.is_empty() {
            return Vec::new();
        }
        let mut publisher = Publisher::new(shared.clone(), None);
        let mut can_publish = |held: &mut HeldWill| {
            let will = held.session.lock().will.clone();
            will.map(|will| will.publication).is_none_or(|will| {
                !publisher.lacks_memory_for(&will) && !publisher.lacks_room_in_log_for(&will)
            })
        };
        let publishable = held.extract_if(.., |held| can_publish(held));
        publishable.map(|held| held.session).collect()
    }

    /// Removes and returns the sessions of wills that the node has which adopted the sessions of
    /// this one: with the session of their client, or as a row that was copied.
    pub(crate) fn take_adopted(&self) -> Vec<Arc<Session>> {
        let mut held = self.0.lock();
        let adopted = held.extract_if(.., |held| held.is_of_persistent || held.is_stored());
        adopted.map(|held| held.session).collect()
    }
}

/// A session that has ended and has only this will; its rows are added to the effects.
fn session_of(
    effects: &mut DeferredEffects,
    publication: Publication,
    shared: &BrokerShared,
) -> Session {
    let owner = &effects.session;
    let session = Session::new(owner.client_id.clone(), owner.kind.clone());
    let (user, authorization) = {
        let state = owner.lock();
        (state.user.clone(), state.authorization.clone())
    };
    let now = shared.clock.now();
    let mut state = session.lock();
    (state.user, state.authorization) = (user, authorization);
    (state.will_due, state.expires) = (Some(now), Some(now));
    let delay = Duration::ZERO;
    state.will = Some(Box::new(SessionWill { publication, delay }));
    if let Some(store) = &shared.store {
        state.make_persistent(MessageId::next().number());
        state.store_will();
        session.collect_row(&mut state, store, now);
        if let Some(persistent) = state.persistent_mut() {
            effects.changes.append(&mut persistent.changes);
        }
    }
    drop(state);
    session
}
