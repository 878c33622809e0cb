//! Publications at QoS 1 and 2 of one of several servers: they go through a log that all of them
//! read (see `nodes.rs`).

use std::sync::Arc;

use gatepost_message::{Publication, Qos};
use gatepost_store::{StoreChange, StoreError, Ticket};

use super::Publisher;
use crate::nodes::{LoggedBatch, LoggedPublication, OutOfMemory};
use crate::persistence::Audience;

impl Publisher {
    /// Whether the publication goes through the log.
    pub(super) fn is_logged(&self, publication: &Publication) -> bool {
        publication.qos > Qos::AtMostOnce && self.nodes_for(publication).is_some()
    }

    pub(super) fn has_room_in_log(&self) -> bool {
        let nodes = self.shared.nodes.as_ref();
        nodes.is_none_or(|nodes| nodes.has_room_in_log())
    }

    /// Adds a publication to those that the flush appends to the log.
    pub(super) fn log(&mut self, publication: &Arc<Publication>) {
        let session = self.session.as_ref();
        let number = session.and_then(|session| {
            let mut state = session.lock();
            state.persistent_mut().map(|persistent| persistent.number)
        });
        self.logged.push(LoggedPublication {
            publication: publication.clone(),
            session: number,
            passed_on: None,
        });
    }

    /// Keeps the publications of this batch in the database if their sender will not repeat them,
    /// so that a crash between the two commits loses none. Returns whether they are kept.
    pub(super) fn keep_logged(&mut self) -> bool {
        if self.logged.is_empty() {
            return false;
        }
        let are_kept = self.batch.ends_sending && self.shared.store.is_some();
        if are_kept && let Some(nodes) = &self.shared.nodes {
            let kept = self
                .logged
                .iter()
                .map(|logged| nodes.keep_until_logged(logged));
            self.batch.changes.extend(kept);
        }
        are_kept
    }

    /// Whether the changes of this batch are only the history of what is appended to the log: they
    /// are written again when the log is read, if they are lost.
    pub(super) fn log_has_changes(&self) -> bool {
        let mut logged = self.logged.iter();
        self.batch.changes.iter().all(|change| {
            let (StoreChange::History(publication) | StoreChange::HistoryAt(_, publication)) =
                change
            else {
                return false;
            };
            logged.any(|logged| Arc::ptr_eq(&logged.publication, publication))
        })
    }

    /// Appends the publications of this batch to the log; `None` if there are none. They wait for
    /// the changes of this batch, unless the log has these too.
    pub(super) fn append_logged(
        &mut self,
        stored: Option<&Result<Ticket, StoreError>>,
        are_kept: bool,
        is_in_log: bool,
    ) -> Option<Result<Ticket, StoreError>> {
        if self.logged.is_empty() {
            return None;
        }
        let earlier = self.last_logged.take();
        let failure = earlier.as_ref().and_then(Ticket::outcome);
        let failure = failure.and_then(Result::err).filter(|_| !are_kept);
        let stored = failure.map_or_else(|| stored.cloned().transpose(), Err);
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // Their sender receives a failure.
                self.logged.clear();
                return Some(Err(error));
            }
        };
        let nodes = self.shared.nodes.as_ref()?;
        let ticket = nodes.append(LoggedBatch {
            publications: &mut self.logged,
            stored: stored.filter(|_| !is_in_log),
            earlier,
            are_kept,
        });
        self.last_logged = Some(ticket.clone());
        Some(Ok(ticket))
    }

    /// Publishes what the log has of another node, whose rules were applied there. `is_retained`
    /// decides whether it is also retained; otherwise the retained message of its topic is this one
    /// or a later one already.
    pub fn publish_logged(
        &mut self,
        publication: Arc<Publication>,
        is_retained: impl FnOnce(&Publication) -> bool,
    ) -> Result<(), OutOfMemory> {
        let slot = self.slot_of(&publication.topic);
        if self.is_short_of_memory(slot) {
            return Err(OutOfMemory);
        }
        self.served_groups.clear();
        self.keeps_retained = !is_retained(&publication);
        self.publish_unchanged(slot, publication);
        self.keeps_retained = false;
        Ok(())
    }

    /// Delivers a publication of this node, read back from the log, to the sessions that receive it
    /// from there only.
    pub fn deliver_logged(&mut self, logged: &LoggedPublication) -> Result<(), OutOfMemory> {
        let publication = &logged.publication;
        let slot = self.slot_of(&publication.topic);
        if self.is_short_of_memory(slot) {
            return Err(OutOfMemory);
        }
        self.served_groups.clear();
        let route = self.route(slot);
        self.batch.audience = Audience::Persistent;
        let classes = route.classes.iter().flat_map(|class| &class.targets);
        for target in classes.chain(&route.singles) {
            let is_own =
                target.options.differs_for_own() && target.session.is_number(logged.session);
            self.deliver_to_target(target, is_own, publication);
        }
        self.batch.audience = Audience::All;
        self.deliver_to_groups(&route, publication);
        Ok(())
    }

    /// Adds a publication of this server that the log has to the history, if it is not there: the
    /// commit that had it failed, or an earlier run ended before.
    pub fn restore_history(&mut self, publication: &Arc<Publication>) {
        let slot = self.slot_of(&publication.topic);
        if !self.keeps_history_of(slot, publication) {
            return;
        }
        let position = self.shared.recent.place_again(publication);
        let publication = publication.clone();
        let restored = StoreChange::RestoreHistory(position, publication);
        self.batch.changes.push(restored);
    }

    /// Whether there are changes that the next flush stores.
    pub fn has_changes(&self) -> bool {
        !self.batch.changes.is_empty()
    }
}
