//! How bytes get out of a session, and who waits when they do not.
//!
//! A publisher's task appends to the outbox and writes to the socket itself. When the socket
//! refuses, the outbox is *blocked* and the connection's own task is woken, which waits for
//! writability and goes on; while it is blocked, publishers only append. Thus fan-out needs no
//! wake-up per subscriber, and nobody ever waits for a socket under the lock.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{Ended, Session, State, Surroundings, wake};
use crate::outbox::Written;

impl Session {
    /// Writes what waits, if the socket takes it and nobody else is at it.
    pub(crate) fn flush(&self, around: Surroundings<'_>) {
        let mut state = self.state.lock();
        if state.dirty {
            self.flush_locked(&mut state, around);
        }
    }

    /// As [`Session::flush`], when the socket has become writable again.
    fn flush_as_owner(&self, state: &mut State, around: Surroundings<'_>) {
        state.blocked = false;
        self.flush_locked(state, around);
    }

    pub(super) fn flush_locked(&self, state: &mut State, around: Surroundings<'_>) {
        state.dirty = false;
        loop {
            let Some(link) = &state.link else {
                return;
            };
            if state.blocked || state.outbox.is_empty() {
                return;
            }
            let written = state.outbox.write_to(&*link.sink);
            self.after_write(state, written, around);
            if !self.refill(state, around) {
                return;
            }
        }
    }

    pub(super) fn after_write(
        &self,
        state: &mut State,
        written: std::io::Result<Written>,
        around: Surroundings<'_>,
    ) {
        match written {
            Ok(Written::All) => self.note_progress(state, around),
            Ok(Written::Blocked) => {
                state.blocked = true;
                wake(&mut state.owner);
            }
            Err(_) => self.end_locked(state, Ended::Broken),
        }
    }

    /// Lets publishers go on.
    pub(super) fn relieve(&self, state: &mut State) {
        if state.congested_since.take().is_some() {
            self.congested.store(false, Ordering::Relaxed);
        }
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// After a part was written or acknowledged: the clock of patience starts again, and publishers go on
    /// when half of the room is free.
    pub(super) fn note_progress(&self, state: &mut State, around: Surroundings<'_>) {
        if state.congested_since.is_some() {
            state.congested_since = Some(Instant::now());
            if !is_congested(state, around) {
                self.relieve(state);
            }
        }
    }

    /// Registers a publisher that waits; `false` if it need not.
    pub(crate) fn await_room(&self, waker: &Waker, around: Surroundings<'_>) -> bool {
        let mut state = self.state.lock();
        if state.link.is_none() || state.ended.is_some() || !is_congested(&state, around) {
            return false;
        }
        if !state.waiting.iter().any(|known| known.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        true
    }

    /// Whether it has been congested, without taking anything, since before `since`.
    pub(crate) fn is_stalled(&self, since: Instant) -> bool {
        self.congested.load(Ordering::Relaxed)
            && self
                .state
                .lock()
                .congested_since
                .is_some_and(|congested| congested < since)
    }

    /// What the connection's own task does when it is woken: it writes what the socket refused to
    /// others, sends what was held back until its commit, and learns that the broker ends it.
    pub(crate) fn poll_owner(
        &self,
        state: &mut State,
        context: &mut Context<'_>,
        mut poll_writable: impl FnMut(&mut Context<'_>) -> Poll<std::io::Result<()>>,
        around: Surroundings<'_>,
    ) -> Poll<Ended> {
        if let Some(why) = state.ended {
            return Poll::Ready(why);
        }
        state.set_owner(context.waker());
        self.poll_awaited(state, context, around);
        while state.is_blocked() {
            match poll_writable(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Ended::Broken),
                Poll::Ready(Ok(())) => {
                    self.flush_as_owner(state, around);
                    self.note_progress(state, around);
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

fn is_congested(state: &State, around: Surroundings<'_>) -> bool {
    state.outbox.bytes() > around.settings.outbox_max.as_usize() / 2
        || state.outbox.messages() > around.settings.outbox_messages_max / 2
        || state
            .acknowledged
            .as_ref()
            .is_some_and(|queue| queue.waiting.len() > around.settings.queue_messages_max / 4)
}
