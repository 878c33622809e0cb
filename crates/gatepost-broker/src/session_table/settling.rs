//! The effects of ended sessions and connections: wills, and changes that must be stored.

use gatepost_store::{Store, StoreError, Ticket};

use super::SessionTable;
use crate::limits::Limit;
use crate::moved_session::AdoptedWill;
use crate::publisher::{PublishRefusal, Publisher};
use crate::session::DeferredEffects;

/// There is no memory for the will, or no room in the log of the cluster.
struct MustWait;

impl SessionTable {
    /// Publishes wills and submits the related changes; the ticket, if any, is for all of them.
    /// What cannot be stored is tried again. To be called when no lock is held.
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
            if let Err(error) = self.readiness() {
                let follows = |effects: &mut DeferredEffects| effects.follows_failed;
                let followers = all_effects.extract_if(.., follows).collect();
                self.uncommitted.push(followers, Err(error.clone()));
                let _ = self.submit_effects(all_effects);
                return Some(Err(error));
            }
            // These changes belong to the same commit as the earlier ones, since a crash could come
            // between two commits.
            let later = std::mem::replace(&mut all_effects, self.uncommitted.take_failed(true));
            all_effects.extend(later);
        }
        self.submit_effects(all_effects)
    }

    /// Does the same before a client gets its session. The ticket is for the ends of its earlier
    /// sessions, which must not reappear after a crash if they were discarded on request
    /// [MQTT-3.1.2-4]. The client waits for nothing else: a will that cannot be stored does not
    /// keep it out.
    pub(super) fn settle_for_client(
        &self,
        client_id: &str,
        mut all_effects: Vec<DeferredEffects>,
    ) -> Option<Result<Ticket, StoreError>> {
        let _repeating = self.repeating.lock();
        if self.uncommitted.has_failed(client_id) {
            let is_ready = self.readiness().is_ok();
            let earlier = self.uncommitted.take_failed(is_ready);
            let later = std::mem::replace(&mut all_effects, earlier);
            all_effects.extend(later);
        }
        let _ = self.settle(all_effects);
        self.uncommitted.end_of(client_id)
    }

    /// Stores failed changes again, and publishes wills that had to wait; for the housekeeper.
    pub(crate) fn settle_again(&self) {
        let repeating = self.repeating.lock();
        let is_ready = self.readiness().is_ok();
        let _ = self.settle(self.uncommitted.take_failed(is_ready));
        drop(repeating);
        let publishable = self.held_wills.take_publishable(&self.shared);
        let ended = publishable.iter().map(|session| self.end_session(session));
        let _ = self.settle(ended.collect());
    }

    /// The reason why no message can be stored now.
    fn readiness(&self) -> Result<(), StoreError> {
        let store = self.shared.store.as_ref();
        store.map_or(Ok(()), Store::readiness)
    }

    /// Publishes the wills, and submits them with all changes in one commit.
    fn submit_effects(
        &self,
        mut all_effects: Vec<DeferredEffects>,
    ) -> Option<Result<Ticket, StoreError>> {
        let mut publisher = Publisher::new(self.shared.clone(), None);
        for effects in &mut all_effects {
            publisher.act_for(Some(effects.session.clone()));
            if self.publish_will(effects, &mut publisher).is_err() {
                self.held_wills.hold(effects, &self.shared);
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

    /// Publishes the will, if there is one and it need not wait.
    fn publish_will(
        &self,
        effects: &mut DeferredEffects,
        publisher: &mut Publisher,
    ) -> Result<(), MustWait> {
        let Some(will) = &effects.will else {
            return Ok(());
        };
        // The publisher does not refuse what it cannot retain.
        if publisher.lacks_memory_for(will) {
            self.shared
                .reached(Limit::Memory, effects.session.client_id());
            return Err(MustWait);
        }
        let outcome = effects
            .will_to_publish()
            .map(|will| publisher.publish(will));
        match outcome.and_then(|outcome| outcome.refused) {
            Some(PublishRefusal::Memory | PublishRefusal::Log) => Err(MustWait),
            _ => Ok(()),
        }
    }

    /// See [`Broker::adopt_wills`](crate::Broker::adopt_wills).
    pub(crate) fn adopt_wills(
        &self,
        wills: Vec<AdoptedWill>,
    ) -> Result<Option<Ticket>, StoreError> {
        let store = self.shared.store.as_ref().ok_or(StoreError::Closed)?;
        self.held_wills.adopt(wills, store, &self.shared)
    }

    /// See [`Broker::abandon_wills`](crate::Broker::abandon_wills).
    pub(crate) fn abandon_wills(&self) {
        let _repeating = self.repeating.lock();
        self.uncommitted.abandon_wills();
        let adopted = self.held_wills.take_adopted();
        let ended = adopted.iter().map(|session| {
            let mut ended = self.end_session(session);
            ended.will = None;
            ended
        });
        let _ = self.settle(ended.collect());
    }
}
