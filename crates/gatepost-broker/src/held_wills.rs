//! Wills that are due and cannot be published yet: memory is short, the queue of a receiving
//! session is on disk, or the log of the cluster has no room.
//!
//! Such a will is kept as the will of a session of its own, which has already ended. With a store
//! that session has a row, so that a will which this run cannot publish is published at the next
//! start. The client's own session continues, or ends, without the will.
//!
//! The wills that come from a failed node are kept like this too, until their rows are stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{MessageId, Publication};
use gatepost_store::{Store, StoreChange, StoreError, Ticket};
use parking_lot::Mutex;

use crate::moved_session::AdoptedWill;
use crate::publisher::Publisher;
use crate::session::{DeferredEffects, Session, SessionWill};
use crate::shared::BrokerShared;

/// The number of wills in memory; with a store, further ones wait on disk for the next start.
const WILLS_MAX: usize = 10_000;

/// Wills of failed nodes that are recognized when an adoption is repeated.
const ADOPTED_MAX: usize = 200_000;

/// The wills of this run that wait.
#[derive(Default)]
pub(crate) struct HeldWills(Mutex<WaitingWills>);

#[derive(Default)]
struct WaitingWills {
    /// In the order in which they were due.
    wills: Vec<HeldWill>,
    /// The numbers of sessions of failed nodes whose wills came here.
    adopted: BTreeSet<u64>,
    /// The commit of the last ones; it follows those of the others.
    last_adoption: Option<Ticket>,
}

struct HeldWill {
    /// The session that keeps it.
    session: Arc<Session>,
    origin: WillOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WillOrigin {
    /// A session that ends with its connection.
    Transient,
    /// A persistent session.
    Persistent,
    /// A session of a failed node, which had this number.
    FailedNode(u64),
}

/// The knowledge about the rows of a kept will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowStatus {
    Undecided,
    Failed,
    /// On disk, and copied for other nodes.
    Stored,
}

impl HeldWill {
    fn rows(&self) -> RowStatus {
        let mut state = self.session.lock();
        let Some(persistent) = state.persistent_mut() else {
            return RowStatus::Undecided;
        };
        if persistent.unmet_prerequisite().is_some() {
            RowStatus::Failed
        } else if persistent.prerequisite.is_some() {
            RowStatus::Undecided
        } else {
            RowStatus::Stored
        }
    }

    /// Whether the will may be published, as far as its rows are concerned. If the rows of a failed
    /// node's will cannot be stored, it is adopted again.
    fn may_be_published(&self) -> bool {
        let is_own = !matches!(self.origin, WillOrigin::FailedNode(_));
        is_own || self.rows() == RowStatus::Stored
    }
}

impl WaitingWills {
    /// Forgets the wills of failed nodes that could not be stored.
    fn forget_failed(&mut self) {
        let last = self.last_adoption.as_ref().and_then(Ticket::outcome);
        if matches!(last, Some(Err(_))) {
            self.last_adoption = None;
        }
        let Self { wills, adopted, .. } = self;
        wills.retain(|will| {
            let WillOrigin::FailedNode(number) = will.origin else {
                return true;
            };
            let has_failed = will.rows() == RowStatus::Failed;
            if has_failed {
                adopted.remove(&number);
            }
            !has_failed
        });
    }
}

impl HeldWills {
    /// Takes the will, which cannot be published now, out of these effects. Its rows are added to
    /// their other changes.
    pub(crate) fn hold(&self, effects: &mut DeferredEffects, shared: &BrokerShared) {
        let Some(will) = effects.will.take() else {
            return;
        };
        let owner = effects.session.clone();
        let origin = if effects.has_rows() {
            WillOrigin::Persistent
        } else {
            WillOrigin::Transient
        };
        let session = Session::new(owner.client_id.clone(), owner.kind.clone());
        let (user, authorization) = {
            let state = owner.lock();
            (state.user.clone(), state.authorization.clone())
        };
        {
            let mut state = session.lock();
            (state.user, state.authorization) = (user, authorization);
        }
        let number = MessageId::next().number();
        keep(&session, will, number, shared, &mut effects.changes);
        let session = Arc::new(session);
        effects.held_will = Some(session.clone());
        let mut held = self.0.lock();
        if held.wills.len() < WILLS_MAX {
            held.wills.push(HeldWill { session, origin });
            return;
        }
        drop(held);
        let is_stored = shared.store.is_some();
        let until = if is_stored { "the next start" } else { "ever" };
        tracing::error!(target: "broker", client = owner.client_id(), until,
            "a will is not published: it cannot be delivered now, and too many wills wait");
    }

    /// Removes and returns the sessions whose wills can be published, in the order in which these
    /// were due.
    pub(crate) fn take_publishable(&self, shared: &Arc<BrokerShared>) -> Vec<Arc<Session>> {
        let mut held = self.0.lock();
        if held.wills.is_empty() {
            return Vec::new();
        }
        held.forget_failed();
        let mut publisher = Publisher::new(shared.clone(), None);
        let mut can_publish = |held: &mut HeldWill| {
            let will = held.session.lock().will.clone();
            let has_room = will.map(|will| will.publication).is_none_or(|will| {
                !publisher.lacks_memory_for(&will) && !publisher.lacks_room_in_log_for(&will)
            });
            has_room && held.may_be_published()
        };
        let publishable = held.wills.extract_if(.., |held| can_publish(held));
        publishable.map(|held| held.session).collect()
    }

    /// Removes and returns the sessions of wills that the node has which adopted the sessions of
    /// this one: with the session of their client, as a row that was copied, or from the same
    /// failed node as this one.
    pub(crate) fn take_adopted(&self) -> Vec<Arc<Session>> {
        let mut held = self.0.lock();
        let is_adopted = |held: &mut HeldWill| {
            held.origin != WillOrigin::Transient || held.rows() == RowStatus::Stored
        };
        let adopted = held.wills.extract_if(.., is_adopted);
        adopted.map(|held| held.session).collect()
    }

    /// See [`Broker::adopt_wills`](crate::Broker::adopt_wills).
    pub(crate) fn adopt(
        &self,
        wills: Vec<AdoptedWill>,
        store: &Store,
        shared: &BrokerShared,
    ) -> Result<Option<Ticket>, StoreError> {
        let mut held = self.0.lock();
        held.forget_failed();
        if held.wills.len() + wills.len() > WILLS_MAX {
            return Ok(None);
        }
        let mut changes = Vec::new();
        let mut new = Vec::new();
        for will in wills {
            if held.adopted.contains(&will.number) {
                continue;
            }
            let session = Session::new(will.name.client_id, will.kind.into());
            {
                let mut state = session.lock();
                state.user = will.name.user;
                state.authorization = Some(will.authorization);
            }
            keep(
                &session,
                will.publication,
                will.number,
                shared,
                &mut changes,
            );
            let origin = WillOrigin::FailedNode(will.number);
            let session = Arc::new(session);
            new.push(HeldWill { session, origin });
        }
        if new.is_empty()
            && let Some(earlier) = &held.last_adoption
        {
            return Ok(Some(earlier.clone()));
        }
        let ticket = store.submit(changes)?;
        for will in new {
            if let Some(persistent) = will.session.lock().persistent_mut() {
                persistent.prerequisite = Some(Ok(ticket.clone()));
            }
            if let WillOrigin::FailedNode(number) = will.origin {
                held.adopted.insert(number);
            }
            held.wills.push(will);
        }
        while held.adopted.len() > ADOPTED_MAX {
            held.adopted.pop_first();
        }
        held.last_adoption = Some(ticket.clone());
        Ok(Some(ticket))
    }
}

/// Makes a session one that has ended and has only this will; its rows, under this number, are
/// added to the changes.
fn keep(
    session: &Session,
    publication: Publication,
    number: u64,
    shared: &BrokerShared,
    changes: &mut Vec<StoreChange>,
) {
    let now = shared.clock.now();
    let mut state = session.lock();
    (state.will_due, state.expires) = (Some(now), Some(now));
    let delay = Duration::ZERO;
    state.will = Some(Box::new(SessionWill { publication, delay }));
    if let Some(store) = &shared.store {
        state.make_persistent(number);
        state.store_will();
        session.collect_row(&mut state, store, now);
        if let Some(persistent) = state.persistent_mut() {
            changes.append(&mut persistent.changes);
        }
    }
}
