//! Delivery of publications from before a subscription: retained messages, and the history.

use std::sync::Arc;

use gatepost_message::Publication;

use crate::attachment::Attachment;
use crate::counters::DropCause;
use crate::filter::{DeliveryOptions, SubscribeOptions};
use crate::persistence::ChangeBatch;
use crate::retained_of_subscription::RetainedOfSubscription;
use crate::session::{RetainedSpace, Session};
use crate::subscription::{DeliveryTarget, GroupMember};

/// Retained messages that are delivered in one step; the connection's other work continues before
/// the next one.
const STEP_MESSAGES: usize = 256;
/// Retained messages that are examined for the queue of a client that disconnects before it has
/// received them.
const EXAMINED_AT_END_MAX: usize = 100_000;

impl Attachment {
    fn delivery_options(&self, options: SubscribeOptions) -> DeliveryOptions {
        let member = GroupMember::new(self.session().clone(), options);
        DeliveryTarget::from(&member).options
    }

    /// Delivers the retained messages that [`Attachment::subscribe`] returned: as many as there is
    /// space for, and the others from [`Attachment::poll_ended`] as the client reads and
    /// acknowledges. A message whose topic has got a later one is omitted, since the client
    /// receives that one.
    pub fn deliver_retained(&self, retained: RetainedOfSubscription) {
        let session = self.session();
        // The client may have sent UNSUBSCRIBE before its SUBACK was due.
        if retained.is_empty() || !session.filters.lock().contains(&retained.filter) {
            return;
        }
        let options = self.delivery_options(retained.options);
        {
            let mut state = session.lock();
            if !self.is_current() {
                return;
            }
            let waiting = state.retained.get_or_insert_default();
            waiting.push(retained.filter, options, retained.messages);
        }
        self.deliver_waiting_retained();
    }

    /// The number of retained messages that wait for space.
    pub fn retained_waiting(&self) -> usize {
        let state = self.session().lock();
        state.retained.as_ref().map_or(0, |waiting| waiting.len())
    }

    /// Delivers some of the waiting retained messages; returns whether more can be delivered now.
    pub(crate) fn deliver_waiting_retained(&self) -> bool {
        let (shared, session) = (self.shared(), self.session());
        let broker = shared.view();
        let mut batch = ChangeBatch::default();
        for _ in 0..STEP_MESSAGES {
            // One at a time: publishers wait for this lock.
            let mut state = session.lock();
            let has_taken = self.is_current()
                && session.deliver_next_retained(
                    &mut state,
                    RetainedSpace::Half,
                    &shared.retained,
                    &mut batch,
                    broker,
                );
            if !has_taken {
                break;
            }
        }
        self.submit_stored(&mut batch);
        session.flush(broker);
        let mut state = session.lock();
        self.is_current() && Session::may_deliver_retained(&mut state, &shared.retained, broker)
    }

    /// Queues the waiting retained messages of a client that has disconnected, as far as its
    /// session outlives the connection and has space for them.
    pub(crate) fn queue_waiting_retained(&self) {
        let (shared, session) = (self.shared(), self.session());
        let broker = shared.view();
        let mut batch = ChangeBatch::default();
        for _ in 0..EXAMINED_AT_END_MAX {
            let mut state = session.lock();
            // Another connection of the client continues the delivery.
            if !self.is_current() {
                break;
            }
            let space = RetainedSpace::WholeQueue;
            let retained = &shared.retained;
            if !session.deliver_next_retained(&mut state, space, retained, &mut batch, broker) {
                break;
            }
        }
        self.submit_stored(&mut batch);
        let mut state = session.lock();
        if self.is_current()
            && let Some(left) = state.retained.take()
        {
            session.count_drop(broker, DropCause::ConnectionLost, left.len() as u64);
        }
    }

    /// Delivers publications from before the subscription, each with its retain flag.
    pub(crate) fn deliver_stored<'a>(
        &self,
        publications: impl Iterator<Item = (&'a Arc<Publication>, bool)>,
        options: SubscribeOptions,
    ) {
        let options = self.delivery_options(options);
        let broker = self.shared().view();
        let mut batch = ChangeBatch::default();
        for (publication, retain) in publications {
            let session = self.session();
            session.deliver(publication, &options, retain, &mut batch, broker);
        }
        self.submit_stored(&mut batch);
    }

    fn submit_stored(&self, batch: &mut ChangeBatch) {
        let shared = self.shared();
        if let Some(store) = &shared.store
            && !batch.is_empty()
        {
            self.session().lock().submit_with(batch, store);
            self.session()
                .continue_after_submit(shared.view(), Some(store));
        }
    }
}
