//! The server: a broker and its store, without threads, on a clock and a disk of the simulation.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_broker::{Broker, BrokerSettings};
use gatepost_message::MessageId;
use gatepost_settings::Period;
use gatepost_store::{
    Change, Clock, ManualWriter, MemoryDatabase, SessionChange, StoreError, StoreSettings,
};
use parking_lot::Mutex;

use crate::mutation::{Forgotten, Mutation};
use crate::sessions::Moment;

/// No schedule begins earlier, so that its ids do not depend on the day of the test.
const BEGIN_UNIX_SECONDS: u64 = 3_000_000_000;

thread_local! {
    /// One for all schedules of a thread: to make a schema takes longer than a schedule.
    static DATABASE: RefCell<MemoryDatabase> =
        RefCell::new(MemoryDatabase::new().expect("a database"));
}

/// The time of day and the time that has passed.
pub(crate) struct Hand(Mutex<(SystemTime, Duration)>);

impl Hand {
    fn new() -> Self {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN_UNIX_SECONDS);
        let after_last = MessageId::highest().time() + Duration::from_secs(1);
        Self(Mutex::new((begin.max(after_last), Duration::ZERO)))
    }

    fn wait(&self, time: Duration) {
        let mut hand = self.0.lock();
        hand.0 += time;
        hand.1 += time;
    }

    fn set(&self, seconds: i64) {
        let mut hand = self.0.lock();
        let by = Duration::from_secs(seconds.unsigned_abs());
        hand.0 = if seconds < 0 {
            hand.0 - by
        } else {
            hand.0 + by
        };
    }
}

impl Clock for Hand {
    fn now(&self) -> SystemTime {
        self.0.lock().0
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().1
    }
}

pub(crate) struct Server {
    pub(crate) broker: Broker,
    writer: ManualWriter,
    clock: Arc<Hand>,
    ticks: u32,
    mutation: Mutation,
}

impl Server {
    /// The first start, with an empty database.
    pub(crate) fn new(mutation: Mutation) -> Self {
        DATABASE.with_borrow(|database| database.clear().expect("cleared"));
        let clock = Arc::new(Hand::new());
        Self::start(clock, mutation)
    }

    fn start(clock: Arc<Hand>, mutation: Mutation) -> Self {
        let store_settings = StoreSettings {
            history_messages_max: 0,
            ..StoreSettings::default()
        };
        // A process that starts later has later ids.
        let _ = MessageId::continue_after(MessageId::floor_at(clock.now()));
        let opened = DATABASE.with_borrow(|database| database.open(&store_settings, clock.clone()));
        let (store, writer) = opened.expect("a store");
        let settings = BrokerSettings {
            session_expiry_max: Period::seconds(2_000_000_000),
            sys_interval: Period::seconds(0),
            recent_per_topic: 1,
            ..BrokerSettings::default()
        };
        let broker = Broker::open_with_clock(settings, store, clock.clone()).expect("a broker");
        Self {
            broker,
            writer,
            clock,
            ticks: 0,
            mutation,
        }
    }

    /// What was not committed is lost. All attachments must be dropped after this.
    pub(crate) fn restarted(&self) -> Self {
        Self::start(self.clock.clone(), self.mutation)
    }

    pub(crate) fn has_uncommitted(&self) -> bool {
        self.writer.waiting() > 0
    }

    /// Commits the first submissions; returns whether nothing waits any more.
    pub(crate) fn commit(&mut self, submissions: u64) -> bool {
        let mutation = self.mutation;
        let count = usize::try_from(submissions).unwrap_or(usize::MAX);
        let is_written = |change: &Change| !mutation.forgets(change);
        self.writer.commit_only(count, is_written);
        !self.has_uncommitted()
    }

    pub(crate) fn fail_commit(&mut self) {
        self.writer.fail(&StoreError::Closed);
    }

    /// Time passes, second by second as the housekeeper sees it.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.clock.wait(time);
        let _ = MessageId::continue_after(MessageId::floor_at(self.clock.now()));
        self.broker.tick(self.ticks);
        self.ticks += 1;
    }

    pub(crate) fn set_clock(&mut self, seconds: i64) {
        self.clock.set(seconds);
        let _ = MessageId::continue_after(MessageId::floor_at(self.clock.now()));
    }

    pub(crate) fn moment(&self, ahead: Duration) -> Moment {
        Moment {
            elapsed: self.clock.elapsed(),
            ahead,
        }
    }
}

impl Mutation {
    /// Whether the store of this mutation does not write the change.
    fn forgets(self, change: &Change) -> bool {
        let Self::Forget(forgotten) = self else {
            return false;
        };
        let is_retained = matches!(change, Change::Retain(_) | Change::Unretain(_));
        let Change::Session(change) = change else {
            return is_retained && forgotten == Forgotten::Retained;
        };
        match change {
            SessionChange::Receive { .. } => forgotten == Forgotten::Received,
            SessionChange::Unreceive { .. } => forgotten == Forgotten::Unreceived,
            SessionChange::Release { .. } => forgotten == Forgotten::Released,
            SessionChange::Enqueue(_) => forgotten == Forgotten::Delivery,
            SessionChange::Dequeue { .. } => forgotten == Forgotten::DeliveryEnd,
            SessionChange::Message { .. } => forgotten == Forgotten::Message,
            SessionChange::Subscribe(_) => forgotten == Forgotten::Subscription,
            SessionChange::Unsubscribe { .. } => forgotten == Forgotten::Unsubscription,
            SessionChange::Put(_) => forgotten == Forgotten::Session,
            SessionChange::End { .. } => forgotten == Forgotten::SessionEnd,
            SessionChange::ForgetMessage { .. } => false,
        }
    }
}
