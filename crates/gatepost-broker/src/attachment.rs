//! The handle by which a connection's own task uses its session.

use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::{MessageId, TopicFilter};
use gatepost_store::{StoreError, Ticket};
use smallvec::SmallVec;

use crate::acknowledged::{AcknowledgedDeliveries, Receipt, StrayAcknowledgement, identifier_of};
use crate::authorization::Authorization;
use crate::connect::ConnectionClose;
use crate::nodes::InterestBarrier;
use crate::publisher::Publisher;
use crate::senders::RecordedSender;
use crate::session::{DisconnectCause, QueueBounds, Session};
use crate::session_table::SessionTable;
use crate::shared::BrokerShared;

/// The reason why a subscription is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The bound of the settings is reached.
    #[error("the session has as many subscriptions as the settings allow")]
    TooMany,
    /// The filter is longer or deeper than the settings allow.
    #[error("the filter is longer or deeper than this server allows")]
    BeyondLimits,
    /// The server is out of memory, or the retained messages of the filter's topics are on disk,
    /// and memory is too short to load them.
    #[error("the server has no memory for the subscription or its retained messages")]
    OutOfMemory,
}

/// The result of a successful connect.
pub struct Connected {
    /// The handle of the session.
    pub attachment: Attachment,
    /// Whether state of an earlier connection is present.
    pub session_present: bool,
    /// The commits that must be durable before the client is greeted: of its session, if that must
    /// survive the server, and of the end of an earlier one. Nothing is written to the client
    /// before [`Attachment::begin`], which the broker calls itself if there is no commit to wait
    /// for.
    pub tickets: SmallVec<[Result<Ticket, StoreError>; 2]>,
}

/// Reports the results of judged exactly-once publications to a session. The value may outlive the
/// connection of these publications.
#[derive(Clone)]
pub struct VerdictReporter {
    sessions: Arc<SessionTable>,
    session: Arc<Session>,
}

impl VerdictReporter {
    /// Records the verdict on a publication. An accepted publication counts as received, whether it
    /// was published or not, so that its repetition is recognised; a refused one is forgotten.
    pub fn settle(&self, packet_id: NonZeroU16, message: MessageId, is_taken: bool) {
        let pending = self.sessions.shared().receipts.take(message);
        if !is_taken {
            self.session.unreceive(packet_id);
        } else if pending.is_some() {
            self.session.store_received(packet_id);
        }
        // A repetition by a later connection may wait for this.
        self.session.lock().wake_owner();
    }
}

/// The handle of a connection on its session. If it is dropped without [`Attachment::close`], the
/// connection counts as lost and the will is due.
pub struct Attachment {
    sessions: Arc<SessionTable>,
    session: Arc<Session>,
    epoch: u64,
    /// Whether the client was greeted: before that its will is not due.
    is_begun: bool,
    is_closed: bool,
}

impl Attachment {
    pub(crate) fn new(sessions: Arc<SessionTable>, session: Arc<Session>, epoch: u64) -> Self {
        session.attachments.fetch_add(1, Ordering::AcqRel);
        Self {
            sessions,
            session,
            epoch,
            is_begun: false,
            is_closed: false,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<BrokerShared> {
        self.sessions.shared()
    }

    /// The session.
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A publisher that belongs to this session, for no-local subscriptions.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.shared().clone(), Some(self.session.clone()))
    }

    /// Permits the first and all later frames to be written at the next flush.
    pub fn begin(&mut self) {
        self.is_begun = true;
        let mut state = self.session.lock();
        if self.is_current() {
            state.begin();
        }
    }

    /// Makes the session the sender of a message that others publish for it under this id, as long
    /// as the returned value exists.
    pub fn record_sender(&self, message: MessageId) -> RecordedSender {
        let senders = self.shared().senders.clone();
        RecordedSender::new(senders, message, self.session.clone())
    }

    /// Records activity of the client, for the keep alive.
    pub fn note_activity(&self) {
        let now = self.shared().clock.now_seconds();
        if self.session.heard_seconds.load(Ordering::Relaxed) != now {
            self.session.heard_seconds.store(now, Ordering::Relaxed);
        }
    }

    /// Records whether the client's packets are read. While they are not, its silence does not
    /// count against the keep alive: a PINGREQ may wait in the socket.
    pub fn note_reading(&self, is_reading: bool) {
        let is_unread = &self.session.is_unread;
        let was_reading = !is_unread.load(Ordering::Relaxed);
        if was_reading == is_reading || !self.is_current() {
            return;
        }
        if is_reading {
            self.note_activity();
        }
        is_unread.store(!is_reading, Ordering::Release);
    }

    pub(crate) fn is_current(&self) -> bool {
        self.session.epoch.load(Ordering::Acquire) == self.epoch
    }

    /// Waits until the broker ends the connection, and meanwhile writes the bytes that the socket
    /// refused before, and the retained messages that wait for space. `poll_writable` waits until
    /// the socket can be written.
    pub fn poll_ended(
        &self,
        context: &mut Context<'_>,
        poll_writable: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<DisconnectCause> {
        let mut state = self.session.lock();
        if !self.is_current() {
            // A session that has ended keeps the reason; otherwise another connection has taken it
            // over.
            let why = state.ended.filter(|_| state.has_ended);
            return Poll::Ready(why.unwrap_or(DisconnectCause::TakenOver));
        }
        let broker = self.shared().view();
        let ended = self
            .session
            .poll_owner(&mut state, context, poll_writable, broker);
        let has_retained = state.retained.is_some();
        drop(state);
        if has_retained && ended.is_pending() && self.deliver_waiting_retained() {
            context.waker().wake_by_ref();
        }
        ended
    }

    /// Whether the socket's stream of frames ends at a boundary, so that a last frame of the
    /// connection's own may follow.
    pub fn may_send_last_frame(&self) -> bool {
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
            .then(|| self.session.append_control(write, self.shared().view()))
    }

    /// Whether so many answers wait for the client (`broker.outbox_max`) that it must read some
    /// before it may send more requests. [`Attachment::poll_ended`] wakes its caller when that
    /// changes.
    pub fn has_many_answers(&self) -> bool {
        self.session.has_many_answers()
    }

    /// Writes the waiting bytes, as far as the socket accepts them.
    pub fn flush(&self) {
        self.session.flush(self.shared().view());
    }

    /// Whether the session outlives its connection and the server, so that its changes must be
    /// durable before the client is answered.
    pub fn is_persistent(&self) -> bool {
        self.session.lock().is_persistent()
    }

    /// Submits the session's changes to the store: to be called once per read, after the
    /// publisher's flush. The ticket, if any, is for changes that must be durable before they are
    /// acknowledged: subscriptions, and the steps of exactly-once deliveries.
    pub fn submit(&self) -> Option<Result<Ticket, StoreError>> {
        let store = self.shared().store.as_ref()?;
        if self.is_current() {
            self.session.submit(store)
        } else {
            None
        }
    }

    /// The wait until other nodes know the subscriptions so far, which are to be acknowledged no
    /// earlier; `None` where there is nothing to wait for.
    pub fn interest_barrier(&self) -> Option<InterestBarrier> {
        self.shared().nodes.as_ref()?.interest_barrier()
    }

    /// The filters that the session subscribes to.
    pub fn filters(&self) -> Vec<TopicFilter> {
        self.session.filters.lock().iter().cloned().collect()
    }

    /// Sets the rights after a change or another login: the rights for queued messages are checked
    /// again before they are sent.
    pub fn set_authorization(&self, authorization: Option<Arc<dyn Authorization>>) {
        let mut state = self.session.lock();
        if self.is_current() {
            state.set_authorization(authorization);
        }
    }

    /// Sets the bounds of the session's queue, in place of the settings.
    pub fn bound_queue(&self, bounds: QueueBounds) {
        let mut state = self.session.lock();
        if self.is_current() {
            state.queue_bounds = Some(bounds);
        }
    }

    /// Removes a subscription; returns whether there was one.
    pub fn unsubscribe(&self, text: &TopicFilter) -> bool {
        let existed = self.is_current()
            && self.session.filters.lock().remove(text)
            && self.shared().index.remove_session(&self.session, text);
        if existed {
            self.session.forget_subscription(text);
            self.session.lock().end_retained(text); // [MQTT-3.10.4-2]
        }
        existed
    }

    /// PUBACK: a QoS 1 delivery is complete.
    pub fn acknowledge(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.acknowledge(packet_id))
    }

    /// PUBREC: a QoS 2 delivery arrived. The caller answers with PUBREL.
    pub fn release(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.release(packet_id))
    }

    /// PUBREC with a failure: the QoS 2 delivery ends.
    pub fn refuse(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.refuse(packet_id))
    }

    /// PUBCOMP: a QoS 2 delivery is complete.
    pub fn finish(&self, packet_id: NonZeroU16) -> Result<(), StrayAcknowledgement> {
        self.acknowledged(|state| state.finish(packet_id))
    }

    fn acknowledged(
        &self,
        act: impl FnOnce(&mut AcknowledgedDeliveries) -> Result<(), StrayAcknowledgement>,
    ) -> Result<(), StrayAcknowledgement> {
        if !self.is_current() {
            return Ok(());
        }
        self.session.with_acknowledged(self.shared().view(), act)
    }

    /// Whether a QoS 2 publication of this identifier was received and not released, so that it is
    /// a repetition \[MQTT-4.3.3-10\]. [`Publisher::note_received`] records new ones.
    pub fn receipt(&self, packet_id: NonZeroU16) -> Receipt {
        self.session.receipt(packet_id)
    }

    /// QoS 2 publications of the client that it has not released.
    pub fn received_count(&self) -> usize {
        self.session.received_count()
    }

    /// The packet identifiers of these publications.
    pub fn received_ids(&self) -> Vec<NonZeroU16> {
        self.session.received_ids()
    }

    /// Records a received QoS 2 publication that must still be judged. If it is published under
    /// this message id, it becomes durable together with the identifier; otherwise
    /// [`Attachment::verdicts`] settles it.
    pub fn expect_received(&self, packet_id: NonZeroU16, message: MessageId) {
        self.session.begin_judging(packet_id);
        let receipt = (self.session.clone(), packet_id);
        self.shared().receipts.insert(message, receipt);
    }

    /// The handle that completes publications that are being judged.
    pub fn verdicts(&self) -> VerdictReporter {
        VerdictReporter {
            sessions: self.sessions.clone(),
            session: self.session.clone(),
        }
    }

    /// PUBREL: the identifier is free again; returns whether it was in use.
    pub fn note_released(&self, packet_id: NonZeroU16) -> bool {
        self.is_current() && self.session.unreceive(packet_id)
    }

    /// A packet identifier that no delivery has or will soon have: the one furthest from the last
    /// that was sent.
    pub fn unused_packet_id(&self) -> NonZeroU16 {
        let state = self.session.lock();
        let sent = state
            .acknowledged
            .as_ref()
            .map_or(0, |queue| queue.last_sent());
        identifier_of(sent + u64::from(u16::MAX / 2))
    }

    /// The time for which the session would outlive this connection.
    pub fn expiry(&self) -> Duration {
        self.session.lock().expiry
    }

    /// Ends the connection.
    pub fn close(mut self, close: &ConnectionClose) {
        self.is_closed = true;
        self.sessions.close(&self.session, self.epoch, close);
        self.queue_waiting_retained();
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_closed {
            let lost = ConnectionClose {
                with_will: self.is_begun,
                expiry: None,
            };
            self.sessions.close(&self.session, self.epoch, &lost);
            self.queue_waiting_retained();
        }
        self.session.attachments.fetch_sub(1, Ordering::AcqRel);
    }
}
