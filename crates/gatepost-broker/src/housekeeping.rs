//! What is done once a second: silent and stalled connections, wills and sessions whose time has
//! come, rates, and the figures under `$SYS`.
//!
//! One walk over all sessions instead of a timer for each: a connection that lives costs one
//! atomic store per read, and a timer that is never set.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gatepost_store::Change;
use tokio::sync::watch;

use crate::broker::Broker;
use crate::core::Core;
use crate::limits;
use crate::session::{Aftermath, Ended, Session};

const TICK: Duration = Duration::from_secs(1);
/// How often retained messages are looked through for expired ones, in ticks.
const RETAINED_TICKS: u32 = 60;

impl Broker {
    /// Does the housekeeping until `shutdown` becomes true. To be run once for each broker.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut count = 0_u32;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = shutdown.wait_for(|&down| down) => break,
            }
            self.core().tick(count);
            count = count.wrapping_add(1);
        }
        self.shut_down();
    }
}

impl Core {
    /// One second's work. Public to tests of this crate, which have their own seconds.
    pub(crate) fn tick(self: &Arc<Self>, count: u32) {
        let now = Instant::now();
        let now_seconds = now.duration_since(self.started).as_secs() as u32;
        self.now_seconds.store(now_seconds, Ordering::Relaxed);
        self.look_after_memory();
        self.look_after_sessions(now, now_seconds);
        for record in self.recent.all() {
            let messages = record.messages.load(Ordering::Relaxed);
            let before = record.messages_before.swap(messages, Ordering::Relaxed);
            record
                .per_second
                .store(messages - before, Ordering::Relaxed);
        }
        self.readers
            .lock()
            .retain(|reader| reader.strong_count() > 0);
        if count % RETAINED_TICKS == RETAINED_TICKS - 1 {
            let expired = self.retained.remove_expired();
            if let Some(store) = &self.store
                && !expired.is_empty()
            {
                // Not acknowledged to anybody; what fails is expired at the next start as well.
                let _ = store.submit(expired.into_iter().map(Change::Unretain));
            }
        }
        // Less than a second is a second: only zero means never.
        let sys_interval = self.settings.sys_interval.duration();
        let sys_seconds = sys_interval.as_millis().div_ceil(1_000) as u32;
        if sys_seconds > 0 && count.is_multiple_of(sys_seconds) {
            self.publish_figures();
        }
    }

    fn look_after_memory(&self) {
        let memory_max = match self.settings.memory_max.as_usize() {
            0 => self.memory_share_bytes,
            bytes => bytes,
        };
        let is_above = limits::resident_bytes().is_some_and(|bytes| bytes > memory_max);
        self.limits.set_out_of_memory(is_above);
    }

    fn look_after_sessions(self: &Arc<Self>, now: Instant, now_seconds: u32) {
        let sessions: Vec<Arc<Session>> = self.sessions.lock().values().cloned().collect();
        let mut aftermaths = Vec::new();
        let patience = self.settings.patience.duration();
        for session in sessions {
            if session.is_connected() {
                let silence_max = session.silence_max_seconds.load(Ordering::Relaxed);
                let heard = session.heard_seconds.load(Ordering::Relaxed);
                if silence_max > 0 && now_seconds.saturating_sub(heard) > silence_max {
                    session.end(Ended::KeepAliveTimeout);
                } else if now
                    .checked_sub(patience)
                    .is_some_and(|since| session.is_stalled(since))
                {
                    tracing::warn!(target: "broker", client = session.client_id(),
                        "disconnected: it took nothing for too long");
                    session.end(Ended::TooSlow);
                }
                continue;
            }
            let mut state = session.lock();
            if state.link.is_none() && state.will_due.is_some_and(|due| due <= now) {
                let mut aftermath = Aftermath::default();
                aftermath.will = state.take_will(&mut aftermath.changes);
                if let Some(store) = &self.store {
                    let _ = session.keep_row(&mut state, store);
                }
                aftermaths.push(aftermath);
            }
            let has_expired = |expires: Option<Instant>| expires.is_some_and(|at| at <= now);
            let is_over = state.link.is_none() && has_expired(state.expires);
            drop(state);
            if is_over {
                let mut table = self.sessions.lock();
                // It may have returned in between.
                let is_still_over = {
                    let state = session.lock();
                    state.link.is_none() && has_expired(state.expires)
                };
                if is_still_over {
                    table.remove(&session.client_id);
                    aftermaths.push(self.end_session(&session));
                }
            }
        }
        // Nobody waits for it.
        let _ = self.settle(aftermaths);
    }
}
