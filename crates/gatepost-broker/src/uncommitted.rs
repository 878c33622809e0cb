//! Wills and ends of sessions that were submitted to the store, until their commit is known:
//! changes that a failing disk refused are tried again.

use gatepost_store::{StoreError, Ticket};
use parking_lot::Mutex;

use crate::session::DeferredEffects;

/// The number of effects that wait for a failing disk; beyond it the oldest are given up.
const EFFECTS_MAX: usize = 100_000;

/// Effects that were submitted to the store together.
struct SubmittedEffects {
    effects: Vec<DeferredEffects>,
    ticket: Result<Ticket, StoreError>,
}

impl SubmittedEffects {
    /// The outcome, `None` while it is unknown.
    fn outcome(&self) -> Option<Result<(), StoreError>> {
        match &self.ticket {
            Ok(ticket) => ticket.outcome(),
            Err(error) => Some(Err(error.clone())),
        }
    }

    fn is_committed(&self) -> bool {
        matches!(self.outcome(), Some(Ok(())))
    }
}

/// All effects whose commit is not known to have succeeded.
#[derive(Default)]
pub(crate) struct UncommittedEffects(Mutex<Vec<SubmittedEffects>>);

impl UncommittedEffects {
    pub(crate) fn push(&self, effects: Vec<DeferredEffects>, ticket: Result<Ticket, StoreError>) {
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            // Checked before the list grows: nearly all are committed by then.
            all.retain(|submitted| !submitted.is_committed());
        }
        all.push(SubmittedEffects { effects, ticket });
    }

    /// Removes and returns the effects that could not be stored.
    pub(crate) fn take_failed(&self) -> Vec<DeferredEffects> {
        let mut failed = Vec::new();
        self.0.lock().retain_mut(|submitted| {
            let outcome = submitted.outcome();
            if matches!(outcome, Some(Err(_))) {
                failed.append(&mut submitted.effects);
            }
            outcome.is_none()
        });
        if failed.len() > EFFECTS_MAX {
            let lost = failed.len() - EFFECTS_MAX;
            tracing::error!(target: "broker", lost,
                "wills and ends of sessions are given up: the disk failed for too long");
            for effects in failed.drain(..lost) {
                effects.were_given_up();
            }
        }
        failed
    }

    /// Whether effects of this client could not be stored.
    pub(crate) fn has_failed(&self, client_id: &str) -> bool {
        let all = self.0.lock();
        all.iter().any(|submitted| {
            let mut effects = submitted.effects.iter();
            effects.any(|effects| &*effects.session.client_id == client_id)
                && matches!(submitted.outcome(), Some(Err(_)))
        })
    }

    /// The commit of this client's last effects, unless it is known to have succeeded: a session
    /// that was discarded on request must not reappear \[MQTT-3.1.2-4\].
    pub(crate) fn of_client(&self, client_id: &str) -> Option<Result<Ticket, StoreError>> {
        let all = self.0.lock();
        let last = all.iter().rev().find(|submitted| {
            let mut effects = submitted.effects.iter();
            effects.any(|effects| &*effects.session.client_id == client_id)
        })?;
        (!last.is_committed()).then(|| last.ticket.clone())
    }
}
