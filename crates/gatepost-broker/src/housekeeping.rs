//! Tasks of each second: the end of silent and stalled connections, due wills, expired sessions,
//! rates, and the figures under `$SYS`.
//!
//! One pass over all sessions replaces a timer for each: a live connection costs one atomic store
//! per read, and no timer.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::figures::BrokerFigures;
use crate::memory;
use crate::session::{DisconnectCause, Session};
use crate::session_table::SessionTable;
use crate::shared::BrokerShared;

const TICK: Duration = Duration::from_secs(1);
/// The time after which a client that reads nothing, although bytes wait for it, is disconnected,
/// even if no publisher waits for it. Its keep alive cannot end it: its packets are not read while
/// it does not read the answers.
const READS_NOTHING_MAX: Duration = Duration::from_mins(5);
/// The interval at which expired retained messages are searched for, in ticks.
const RETAINED_TICKS: u32 = 60;

/// Steps in which retained messages are loaded from the disk, in one tick.
const LOAD_STEPS: usize = 16;
/// Expired sessions are ended in a tick until their changes of the store exceed this number, since
/// other commits wait for them. Many sessions expire together after a network failure.
const EXPIRED_CHANGES_MAX: usize = 5_000;

/// The housekeeper's parts of the broker.
#[derive(Clone, Copy)]
pub(crate) struct Housekeeper<'a> {
    pub(crate) shared: &'a BrokerShared,
    pub(crate) sessions: &'a SessionTable,
    pub(crate) figures: &'a BrokerFigures,
}

impl Housekeeper<'_> {
    /// Does each second's work until `shutdown` becomes true.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut count = 0_u32;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = shutdown.wait_for(|&down| down) => return,
            }
            self.tick(count);
            count = count.wrapping_add(1);
        }
    }

    pub(crate) fn tick(self, count: u32) {
        let now = self.shared.clock.now();
        let now_seconds = self.shared.clock.advance(now);
        self.check_memory(now);
        self.shared.retained.settle_all();
        self.check_sessions(now, now_seconds);
        self.shared
            .recent
            .forget_aged(self.shared.clock.time_of_day());
        for record in self.shared.recent.all() {
            let messages = record.messages.load(Ordering::Relaxed);
            let before = record.messages_before.swap(messages, Ordering::Relaxed);
            record
                .per_second
                .store(messages - before, Ordering::Relaxed);
        }
        self.shared
            .streams
            .lock()
            .retain(|stream| stream.strong_count() > 0);
        if count % RETAINED_TICKS == RETAINED_TICKS - 1 {
            self.shared
                .retained_expiry_is_due
                .store(true, Ordering::Relaxed);
        }
        self.remove_expired_retained();
        // A time below one second counts as one second, since zero means never.
        let sys_interval = self.shared.settings.sys_interval.duration();
        let sys_seconds = sys_interval.as_millis().div_ceil(1_000) as u32;
        if sys_seconds > 0 && count.is_multiple_of(sys_seconds) {
            self.figures.publish(self.sessions);
        }
    }

    /// Removes expired retained messages, if that is due or has not been completed.
    fn remove_expired_retained(self) {
        let is_due = &self.shared.retained_expiry_is_due;
        if !is_due.load(Ordering::Relaxed) {
            return;
        }
        let now = self.shared.clock.time_of_day();
        let has_more = self.shared.retained.remove_expired(now, |removals| {
            if let Some(store) = &self.shared.store
                && !removals.is_empty()
            {
                // No client was promised these removals; if they fail, the messages have expired
                // at the next start as well.
                let _ = store.submit(removals);
            }
        });
        is_due.store(has_more, Ordering::Relaxed);
    }

    fn check_memory(self, now: Instant) {
        let is_exceeded = self.shared.memory.is_exceeded();
        self.shared.limits.set_out_of_memory(is_exceeded);
        let is_any_on_disk = self.shared.on_disk.is_any() || self.shared.retained.is_any_on_disk();
        if is_exceeded || is_any_on_disk {
            memory::return_freed();
        }
        if let Err(error) = self.shared.load_retained(LOAD_STEPS) {
            tracing::warn!(target: "broker", %error, "retained messages could not be loaded");
        }
        if let Some(store) = &self.shared.store
            && self.shared.on_disk.is_any()
            && let Err(error) =
                self.shared
                    .on_disk
                    .load_next(store, self.shared.memory.free_bytes(), now)
        {
            tracing::warn!(target: "broker", %error, "a session's queue could not be loaded");
        }
    }

    fn check_sessions(self, now: Instant, now_seconds: u32) {
        let (mut all_effects, mut expired_changes) = (Vec::new(), 0);
        let mut sessions = self.sessions.all();
        sessions.retain(|session| {
            if session.is_connected() {
                self.check_connection(session, now, now_seconds);
                return false;
            }
            session.lock().is_due(now)
        });
        // There are nearly always none. They are sorted in the order in which they began, not in
        // that of the table.
        sessions.sort_unstable_by_key(|session| session.ordinal);
        for session in sessions {
            all_effects.extend(session.due_will(&mut session.lock(), now));
            self.store_again(&session);
            if expired_changes < EXPIRED_CHANGES_MAX
                && let Some(effects) = self.sessions.end_expired(&session, now)
            {
                expired_changes += effects.changes.len();
                all_effects.push(effects);
            }
        }
        self.sessions.settle_again();
        // No caller waits for its durability.
        let _ = self.sessions.settle(all_effects);
    }

    /// Submits the changes of a disconnected client's session that a failing disk refused; for a
    /// connected client, its own task does this.
    fn store_again(self, session: &Session) {
        if let Some(store) = &self.shared.store
            && let Some(persistent) = session.lock().persistent_mut()
            && persistent.has_unsubmitted()
        {
            let _ = persistent.submit(store);
        }
    }

    fn check_connection(self, session: &Session, now: Instant, now_seconds: u32) {
        let silence_max = session.silence_max_seconds.load(Ordering::Relaxed);
        let is_read = !session.is_unread.load(Ordering::Acquire);
        let heard = session.heard_seconds.load(Ordering::Relaxed);
        let patience = self.shared.settings.patience.duration();
        let has_passed = |time: Duration, is_before: &dyn Fn(Instant) -> bool| {
            now.checked_sub(time).is_some_and(is_before)
        };
        if is_read && silence_max > 0 && now_seconds.saturating_sub(heard) > silence_max {
            session.end(DisconnectCause::KeepAliveTimeout);
        } else if has_passed(patience, &|since| session.give_up_stalled(since))
            || has_passed(READS_NOTHING_MAX, &|since| {
                session.reads_nothing_since(since)
            })
        {
            tracing::warn!(target: "broker", client = session.client_id(),
                "disconnected: the client read too little for too long");
            session.end(DisconnectCause::TooSlow);
        }
    }
}
