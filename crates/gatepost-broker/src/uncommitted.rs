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

    fn has_failed(&self) -> bool {
        matches!(self.outcome(), Some(Err(_)))
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

    /// Removes and returns the effects that could not be stored. While the store is not ready,
    /// those that need it remain.
    pub(crate) fn take_failed(&self, is_ready: bool) -> Vec<DeferredEffects> {
        let mut all = self.0.lock();
        let failed = all.iter().filter(|submitted| submitted.has_failed());
        let failed: usize = failed.map(|submitted| submitted.effects.len()).sum();
        let mut excess = failed.saturating_sub(EFFECTS_MAX);
        let (mut taken, mut lost) = (Vec::new(), Vec::new());
        all.retain_mut(|submitted| {
            if !submitted.has_failed() {
                return !submitted.is_committed();
            }
            let effects = &mut submitted.effects;
            let given_up = excess.min(effects.len());
            excess -= given_up;
            lost.extend(effects.drain(..given_up));
            taken.extend(effects.extract_if(.., |one| is_ready || !one.need_ready_store()));
            !effects.is_empty()
        });
        drop(all);
        if !lost.is_empty() {
            tracing::error!(target: "broker", lost = lost.len(),
                "wills and ends of sessions are given up: the disk failed for too long");
        }
        for effects in lost {
            effects.were_given_up();
        }
        taken
    }

    /// Gives up the wills of persistent sessions: another node publishes them. The other changes
    /// are stored nevertheless. The will of a session without rows is known here only.
    pub(crate) fn abandon_wills(&self) {
        let mut all = self.0.lock();
        let uncommitted = all.iter_mut().filter(|submitted| !submitted.is_committed());
        for effects in uncommitted.flat_map(|submitted| &mut submitted.effects) {
            if effects.has_rows() {
                effects.will = None;
            }
        }
    }

    /// Whether effects of this client could not be stored.
    pub(crate) fn has_failed(&self, client_id: &str) -> bool {
        let all = self.0.lock();
        all.iter().any(|submitted| {
            let mut effects = submitted.effects.iter();
            effects.any(|effects| &*effects.session.client_id == client_id)
                && submitted.has_failed()
        })
    }

    /// The commit of the ends of this client's sessions, unless all are known to have succeeded: a
    /// session that was discarded on request must not reappear \[MQTT-3.1.2-4\].
    pub(crate) fn end_of(&self, client_id: &str) -> Option<Result<Ticket, StoreError>> {
        let all = self.0.lock();
        let ends_session_of_client = |submitted: &&SubmittedEffects| {
            let mut effects = submitted.effects.iter();
            effects.any(|one| &*one.session.client_id == client_id && one.ends_session())
        };
        let ends = all.iter().rev().filter(ends_session_of_client);
        let mut uncommitted = ends
            .filter(|submitted| !submitted.is_committed())
            .peekable();
        // The last one is committed after the others, unless one of these has failed.
        let last = uncommitted.peek().map(|last| last.ticket.clone());
        let failed = uncommitted.find_map(|submitted| submitted.outcome()?.err());
        failed.map(Err).or(last)
    }
}
