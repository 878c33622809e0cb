//! The effects of ended sessions and connections: wills, and changes that must be stored.

use gatepost_store::{StoreError, Ticket};

use super::SessionTable;
use crate::publisher::Publisher;
use crate::session::DeferredEffects;

impl SessionTable {
    /// Publishes wills and submits the related changes; the ticket, if any, is for all of them.
    /// Changes that cannot be stored are tried again. To be called when no lock is held.
    pub(crate) fn settle(
        &self,
        mut all_effects: Vec<DeferredEffects>,
    ) -> Option<Result<Ticket, StoreError>> {
        if all_effects.iter().all(DeferredEffects::is_nothing) {
            return None;
        }
        let follows_failed = all_effects.iter().any(|effects| effects.follows_failed);
        let _repeating = follows_failed.then(|| self.repeating.lock());
        if follows_failed {
            // These changes belong to the same commit as the earlier ones, since a crash could come
            // between two commits.
            let later = std::mem::replace(&mut all_effects, self.uncommitted.take_failed());
            all_effects.extend(later);
        }
        let mut publisher = Publisher::new(self.shared.clone(), None);
        for effects in &mut all_effects {
            self.held_wills.hold(effects, &mut publisher, &self.shared);
            if let Some(will) = effects.will_to_publish() {
                publisher.publish(will);
            }
            publisher.add_changes(effects.changes.clone());
        }
        let ticket = publisher.flush_effects()?;
        for effects in &all_effects {
            effects.were_submitted(&ticket);
        }
        self.uncommitted.push(all_effects, ticket.clone());
        Some(ticket)
    }

    /// The same before a client gets its session: the ticket also covers earlier ended sessions.
    pub(super) fn settle_for_client(
        &self,
        client_id: &str,
        mut all_effects: Vec<DeferredEffects>,
    ) -> Option<Result<Ticket, StoreError>> {
        // A session that is discarded on request must not reappear after a crash [MQTT-3.1.2-4].
        let _repeating = self.repeating.lock();
        if self.uncommitted.has_failed(client_id) {
            let later = std::mem::replace(&mut all_effects, self.uncommitted.take_failed());
            all_effects.extend(later);
        }
        match self.settle(all_effects) {
            None => self.uncommitted.of_client(client_id),
            settled => settled,
        }
    }

    /// Stores failed changes again, and publishes wills that waited for memory; for the
    /// housekeeper.
    pub(crate) fn settle_again(&self) {
        let repeating = self.repeating.lock();
        let _ = self.settle(self.uncommitted.take_failed());
        drop(repeating);
        let publishable = self.held_wills.take_publishable(&self.shared);
        let ended = publishable.iter().map(|session| self.end_session(session));
        let _ = self.settle(ended.collect());
    }
}
