//! Writing of a session's outbox, and the task that waits when the socket is full.
//!
//! A publisher's task appends to the outbox and writes to the socket itself. When the socket
//! refuses bytes, the outbox is *blocked* and the connection's own task is woken, which waits for
//! writability and continues; while it is blocked, publishers only append. Thus fan-out needs no
//! wake-up per subscriber, and no task waits for a socket under the lock.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::state::StalledSocket;
use super::{BrokerView, DisconnectCause, Session, SessionState, wake};
use crate::outbox::WriteProgress;

impl Session {
    /// Writes the waiting bytes, unless the outbox is blocked.
    pub(crate) fn flush(&self, broker: BrokerView<'_>) {
        let mut state = self.state.lock();
        if state.dirty {
            self.flush_locked(&mut state, broker);
        }
    }

    /// As [`Session::flush`], when the socket has become writable again.
    fn flush_as_owner(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        state.blocked = false;
        self.flush_locked(state, broker);
    }

    pub(super) fn flush_locked(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        state.dirty = false;
        loop {
            let Some(link) = &state.link else {
                return;
            };
            if state.blocked || state.outbox.is_empty() {
                return;
            }
            let written = state.outbox.write_to(&*link.socket);
            let is_broken = written.is_err();
            self.after_write(state, written, broker);
            if is_broken {
                return;
            }
            self.pump(state, broker);
            self.refill(state, broker);
        }
    }

    pub(super) fn after_write(
        &self,
        state: &mut SessionState,
        written: std::io::Result<WriteProgress>,
        broker: BrokerView<'_>,
    ) {
        match written {
            Ok(WriteProgress::All) => {
                self.note_reading(state);
                self.has_many_answers.store(false, Ordering::Relaxed);
                self.note_progress(state, broker);
            }
            Ok(WriteProgress::Blocked) => {
                state.blocked = true;
                self.note_refusal(state, broker);
                if state.outbox.control_bytes() <= broker.settings.outbox_max.as_usize() / 2 {
                    self.has_many_answers.store(false, Ordering::Relaxed);
                }
                wake(&mut state.owner);
            }
            Err(_) => self.end_locked(state, DisconnectCause::Broken),
        }
    }

    /// Records that the client reads everything.
    fn note_reading(&self, state: &mut SessionState) {
        if self.is_stalled.load(Ordering::Relaxed) {
            state.stalled = None;
            self.is_stalled.store(false, Ordering::Relaxed);
        }
    }

    /// Records that the socket refuses bytes, and whether it has accepted any since it began to.
    fn note_refusal(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        let written = state.outbox.written();
        if state
            .stalled
            .is_none_or(|stalled| stalled.written != written)
        {
            let since = broker.clock.now();
            state.stalled = Some(StalledSocket { since, written });
            self.is_stalled.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the client has read nothing since before `since` although bytes wait for it.
    pub(crate) fn reads_nothing_since(&self, since: Instant) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
            && self
                .state
                .lock()
                .stalled
                .is_some_and(|stalled| stalled.since < since)
    }

    /// Wakes the publishers that wait for free space.
    pub(super) fn wake_publishers(&self, state: &mut SessionState) {
        if self.is_congested() {
            state.congested_since = None;
            self.congested.store(false, Ordering::Relaxed);
        }
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// After a part was written or acknowledged: publishers continue when half of the queue is
    /// free.
    pub(super) fn note_progress(&self, state: &mut SessionState, broker: BrokerView<'_>) {
        if self.is_congested() && !is_congested(state, broker) {
            self.wake_publishers(state);
        }
    }

    /// Whether publishers wait for it.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested.load(Ordering::Relaxed)
    }

    pub(crate) fn has_many_answers(&self) -> bool {
        self.has_many_answers.load(Ordering::Relaxed)
    }

    /// Registers a publisher that waits; `false` if it need not.
    pub(crate) fn await_room(&self, waker: &Waker, broker: BrokerView<'_>) -> bool {
        let mut state = self.state.lock();
        if state.link.is_none() || state.ended.is_some() || !is_congested(&state, broker) {
            return false;
        }
        if !state.waiting.iter().any(|known| known.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        true
    }

    /// Gives the subscriber up if it has been congested since before `since`, that is, if half of
    /// its space has not been free since then; returns whether it was given up. A bound on silence
    /// alone would permit a subscriber that reads one message now and then to block its publishers
    /// forever.
    pub(crate) fn give_up_stalled(&self, since: Instant) -> bool {
        if !self.is_congested() {
            return false;
        }
        let mut state = self.state.lock();
        let is_stalled = state.congested_since.is_some_and(|began| began < since);
        state.is_given_up |= is_stalled;
        is_stalled
    }

    /// Does the work for which the connection's own task is woken: writes bytes that the socket
    /// refused before, sends deliveries that were held back until their commit, and detects that
    /// the broker ends the connection.
    pub(crate) fn poll_owner(
        &self,
        state: &mut SessionState,
        context: &mut Context<'_>,
        mut poll_writable: impl FnMut(&mut Context<'_>) -> Poll<std::io::Result<()>>,
        broker: BrokerView<'_>,
    ) -> Poll<DisconnectCause> {
        if let Some(why) = state.ended {
            return Poll::Ready(why);
        }
        state.set_owner(context.waker());
        self.poll_awaited(state, context, broker);
        while state.is_blocked() {
            match poll_writable(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(DisconnectCause::Broken),
                Poll::Ready(Ok(())) => {
                    self.flush_as_owner(state, broker);
                    self.note_progress(state, broker);
                }
            }
            if let Some(why) = state.ended {
                return Poll::Ready(why);
            }
            state.set_owner(context.waker());
        }
        match state.ended {
            Some(why) => Poll::Ready(why),
            None => Poll::Pending,
        }
    }
}

pub(super) fn is_congested(state: &SessionState, broker: BrokerView<'_>) -> bool {
    state.outbox.bytes() > broker.settings.outbox_max.as_usize() / 2
        || state.outbox.messages() > broker.settings.outbox_messages_max / 2
        || state.has_queued_more_than(4, broker)
}
