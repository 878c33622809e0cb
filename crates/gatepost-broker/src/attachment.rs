//! A connection's hold on its session: what the connection's own task does with it.

use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{StoreError, Ticket};

use crate::acknowledged::{Acknowledged, StrayAcknowledgement};
use crate::core::Core;
use crate::filter::{RequestedFilter, RetainHandling, SubscribeOptions};
use crate::keeping::Gathering;
use crate::limits::Limit;
use crate::publisher::Publisher;
use crate::session::{Ended, Session};
use crate::subscription::{Member, Subscription, Target};

/// Why a subscription is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The bound of the settings is reached.
    #[error("the session has as many subscriptions as the settings allow")]
    TooMany,
    /// The filter is longer or deeper than the settings allow.
    #[error("the filter is longer or deeper than this server allows")]
    BeyondLimits,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Close {
    /// Whether the will is due: the client did not say goodbye, or asked for it.
    pub with_will: bool,
    /// How long the session goes on, where that changed at the end.
    pub expiry: Option<Duration>,
}

/// A connection's hold on its session. Dropped without [`Attachment::close`], the connection
/// counts as lost and the will is due.
pub struct Attachment {
    core: Arc<Core>,
    session: Arc<Session>,
    epoch: u64,
    is_closed: bool,
}

impl Attachment {
    pub(crate) const fn new(core: Arc<Core>, session: Arc<Session>, epoch: u64) -> Self {
        Self {
            core,
            session,
            epoch,
            is_closed: false,
        }
    }

    /// The session.
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A publisher that is known to be this session's, for no-local subscriptions.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.core.clone(), Some(self.session.clone()))
    }

    /// Lets the greeting, and what follows it, be written at the next flush.
    pub fn begin(&self) {
        let mut state = self.session.lock();
        if self.is_current() {
            state.begin();
        }
    }

    /// Notes that the client was heard, for the keep alive.
    pub fn heard(&self) {
        let now = self.core.now_seconds.load(Ordering::Relaxed);
        if self.session.heard_seconds.load(Ordering::Relaxed) != now {
            self.session.heard_seconds.store(now, Ordering::Relaxed);
        }
    }

    fn is_current(&self) -> bool {
        self.session.epoch.load(Ordering::Acquire) == self.epoch
    }

    /// Waits until the broker ends the connection, and meanwhile writes what the socket refused
    /// to others. `poll_writable` waits for room in the socket.
    pub fn poll_ended(
        &self,
        context: &mut Context<'_>,
        poll_writable: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<Ended> {
        let mut state = self.session.lock();
        if !self.is_current() {
            return Poll::Ready(Ended::TakenOver);
        }
        let around = self.core.around();
        self.session
            .poll_owner(&mut state, context, poll_writable, around)
    }

    /// Whether the socket's stream of frames ends at a boundary, so that a last frame of the
    /// connection's own may follow.
    pub fn may_say_goodbye(&self) -> bool {
        let state = self.session.lock();
        if self.is_current() {
            state.outbox.is_empty()
        } else {
            state.was_cut_cleanly
        }
    }

    /// Appends frames that are not publications; [`Attachment::flush`] writes them.
    pub fn append<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> Option<T> {
        // A connection that lost its session must not write into the next one's outbox.
        self.is_current()
            .then(|| self.session.append_control(write))
    }

    /// Writes what waits, as far as the socket takes it.
    pub fn flush(&self) {
        self.session.flush(self.core.around());
    }

    /// Whether the session outlives its connection and the server, so that what changes in it must
    /// be durable before the client is told.
    pub fn is_kept(&self) -> bool {
        self.session.lock().is_kept()
    }

    /// Hands what changed in the session to the store: to be called once for what one read gave,
    /// after the publisher's flush. The ticket, where there is one, is for what must be durable
    /// before the client is told of it: subscriptions, and the steps of exactly-once deliveries.
    pub fn submit(&self) -> Option<Result<Ticket, StoreError>> {
        let store = self.core.store.as_ref()?;
        if self.is_current() {
            self.session.submit(store)
        } else {
            None
        }
    }

    /// Adds a subscription, or replaces the one of the same filter \[MQTT-3.8.4-3\]. Returns
    /// what the topics kept for it; to be handed to [`Attachment::deliver_retained`] when the
    /// client has been told of its success.
    pub fn subscribe(
        &self,
        requested: &RequestedFilter,
        options: &SubscribeOptions,
    ) -> Result<Vec<Arc<Publication>>, SubscribeError> {
        if !self.is_current() {
            return Ok(Vec::new());
        }
        if !self.core.is_within_limits(requested.text.as_str()) {
            self.core.reached(Limit::Topic, self.session.client_id());
            return Err(SubscribeError::BeyondLimits);
        }
        let is_new = {
            let mut filters = self.session.filters.lock();
            let is_full = filters.len() >= self.core.settings.subscriptions_per_session_max;
            if is_full && !filters.contains(&requested.text) {
                drop(filters);
                self.core
                    .reached(Limit::Subscriptions, self.session.client_id());
                return Err(SubscribeError::TooMany);
            }
            filters.insert(requested.text.clone())
        };
        self.session.keep_subscription(&requested.text, *options);
        let member = Member::new(self.session.clone(), *options);
        let index = &self.core.index;
        if let Some(share) = &requested.share {
            index.join(&share.filter, &share.name, member);
            return Ok(Vec::new()); // § 4.8.2: shared subscriptions get no retained messages.
        }
        if is_new {
            index.insert(&requested.text, Subscription::Session(member));
        } else {
            index.replace(
                &requested.text,
                Subscription::Session(member),
                &|other| matches!(other, Subscription::Session(member) if member.is(&self.session)),
            );
        }
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        Ok(if wants_retained {
            self.core.retained.matching(&requested.text)
        } else {
            Vec::new()
        })
    }

    /// The filters that the session subscribes to.
    pub fn filters(&self) -> Vec<TopicFilter> {
        self.session.filters.lock().iter().cloned().collect()
    }

    /// Removes a subscription; tells whether there was one.
    pub fn unsubscribe(&self, text: &TopicFilter) -> bool {
        let existed = self.is_current()
            && self.session.filters.lock().remove(text)
            && self.core.remove_subscription(&self.session, text);
        if existed {
            self.session.forget_subscription(text);
        }
        existed
    }

    /// Delivers what topics kept, as [`Attachment::subscribe`] returned it.
    pub fn deliver_retained(&self, kept: &[Arc<Publication>], options: &SubscribeOptions) {
        let target = Target::from(&Member::new(self.session.clone(), *options));
        let around = self.core.around();
        let mut gathering = Gathering::default();
        let session = &self.session;
        for publication in kept {
            session.deliver(publication, &target, true, &mut gathering, around);
        }
        if let Some(store) = &self.core.store
            && !gathering.changes.is_empty()
        {
            session.lock().submit_with(&mut gathering, store);
            session.go_on(around, &mut gathering.changes);
            // Removals only; refused, the next start makes them.
            let _ = store.submit_all(&mut gathering.changes);
        }
    }

    /// PUBACK: a QoS 1 delivery is complete.
    pub fn acknowledge(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.acknowledge(packet_id))
    }

    /// PUBREC: a QoS 2 delivery arrived. The caller answers with PUBREL.
    pub fn release(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.release(packet_id))
    }

    /// PUBREC with a failure: the QoS 2 delivery is over.
    pub fn refuse(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.refuse(packet_id))
    }

    /// PUBCOMP: a QoS 2 delivery is complete.
    pub fn finish(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.finish(packet_id))
    }

    fn acknowledged(
        &self,
        act: impl FnOnce(&mut Acknowledged) -> Result<(), StrayAcknowledgement>,
    ) -> Result<(), StrayAcknowledgement> {
        if !self.is_current() {
            return Ok(());
        }
        self.session.with_acknowledged(self.core.around(), act)
    }

    /// Whether a QoS 2 publication of this identifier was received and not released: it is the
    /// same again \[MQTT-4.3.3-10\]. [`Publisher::note_received`] tells of new ones.
    pub fn is_received(&self, packet_id: NonZeroU16) -> bool {
        self.session.is_received(packet_id)
    }

    /// QoS 2 publications of the client that it has not released.
    pub fn received_count(&self) -> usize {
        self.session.received_count()
    }

    /// Notes that a QoS 2 publication was received that is yet to be judged. Published under this
    /// message id, it becomes durable together with the identifier; otherwise
    /// [`Attachment::settle_received`] tells what became of it.
    pub fn expect_received(&self, packet_id: NonZeroU16, message: MessageId) {
        self.session.receive_for_now(packet_id);
        if self.is_kept() {
            let claim = (self.session.clone(), packet_id);
            self.core.claims.insert(message, claim);
        }
    }

    /// The judged publication was not published: it was taken all the same (its repetition is
    /// known for one), or refused.
    pub fn settle_received(&self, packet_id: NonZeroU16, message: MessageId, is_taken: bool) {
        let claim = self.core.claims.take(message);
        if !is_taken {
            self.session.unreceive(packet_id);
        } else if let Some((session, packet_id)) = claim {
            session.keep_received(packet_id);
        }
    }

    /// PUBREL: the identifier is free again; tells whether it was in use.
    pub fn note_released(&self, packet_id: NonZeroU16) -> bool {
        self.is_current() && self.session.unreceive(packet_id)
    }

    /// How long the session would outlive this connection.
    pub fn expiry(&self) -> Duration {
        self.session.lock().expiry
    }

    /// Ends the connection.
    pub fn close(mut self, close: &Close) {
        self.is_closed = true;
        self.core.close(&self.session, self.epoch, close);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_closed {
            let lost = Close {
                with_will: true,
                expiry: None,
            };
            self.core.close(&self.session, self.epoch, &lost);
        }
    }
}
