//! The server: a broker and its store, without threads, on a clock, a memory and a disk of the
//! simulation.
//!
//! In [`Medium::Memory`] a commit is all or nothing. On a [`Medium::FailingDisk`], which is in
//! memory too, commits fail in the middle, and a crash is a power cut, after which each unsynced
//! sector may or may not have been written. SQLite's connection stays open over it: it finds its
//! shared memory lost and its write-ahead log changed, and reads them as a new process does.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use gatepost_broker::{Broker, BrokerSettings, MemoryGauge};
use gatepost_faults::{Disk, DiskImage, Fault, FaultEffect, FaultRandom, FileOperation};
use gatepost_message::MessageId;
use gatepost_settings::{ByteSize, Period};
use gatepost_store::{
    ClockSource, DiskReserve, ManualWriter, SessionChange, SimulatedDatabase, StoreChange,
    StoreError, StoreSettings,
};
use parking_lot::Mutex;

use crate::mutation::{Forgotten, Mutation};
use crate::schedule::Memory;
use crate::sessions::Moment;

/// No schedule begins earlier, so that its ids do not depend on the day of the test.
const BEGIN_UNIX_SECONDS: u64 = 3_000_000_000;

thread_local! {
    /// One for all schedules of a thread: to make a schema takes longer than a schedule.
    static DATABASE: RefCell<SimulatedDatabase> =
        RefCell::new(SimulatedDatabase::in_memory().expect("a database"));
    static ON_DISK: OnDisk = OnDisk::new();
}

/// Two sectors: a page can be torn, and a schedule writes few bytes.
const PAGE_BYTES: u32 = 1_024;
/// Pages of the write-ahead log after which it is written back, so that crashes happen during this
/// too.
const LOG_PAGES: u32 = 60;

struct OnDisk {
    disk: Disk,
    database: SimulatedDatabase,
    /// Without rows.
    new: DiskImage,
}

impl OnDisk {
    fn new() -> Self {
        let disk = Disk::in_memory();
        let file = disk.folder().join("gatepost.db");
        let database = SimulatedDatabase::at(&file, PAGE_BYTES, LOG_PAGES).expect("a database");
        let new = disk.image().expect("a disk in memory");
        Self {
            disk,
            database,
            new,
        }
    }

    fn clear(&self) {
        self.disk.remove_faults();
        self.disk.load(&self.new);
    }
}

/// `broker.memory_max`.
const MEMORY_MAX_MEGABYTES: u64 = 1_000;
const MEMORY_MAX_BYTES: usize = MEMORY_MAX_MEGABYTES as usize * 1_000_000;
/// Room for queues of a few short messages.
const LITTLE_ROOM_BYTES: usize = 2_500;

/// Resident bytes, as the simulation sets them.
#[derive(Default)]
pub(crate) struct Resident(AtomicUsize);

impl Resident {
    fn set(&self, memory: Memory) {
        let bytes = match memory {
            Memory::Plenty => 0,
            Memory::Little => MEMORY_MAX_BYTES - LITTLE_ROOM_BYTES,
            Memory::Short => MEMORY_MAX_BYTES + 1,
        };
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl MemoryGauge for Resident {
    fn resident_bytes(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

/// The time of day and the time that has passed.
pub(crate) struct SimulatedTime(Mutex<(SystemTime, Duration)>);

impl SimulatedTime {
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

impl ClockSource for SimulatedTime {
    fn now(&self) -> SystemTime {
        self.0.lock().0
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().1
    }
}

/// The place of the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Medium {
    Memory,
    /// Below SQLite, with faults that follow from this seed.
    FailingDisk(u64),
}

pub(crate) struct Server {
    /// Absent between a crash and the next start only.
    running: Option<(Broker, ManualWriter)>,
    clock: Arc<SimulatedTime>,
    memory: Arc<Resident>,
    /// The disk's, if it fails.
    faults: Option<FaultRandom>,
    ticks: u32,
    mutation: Mutation,
}

impl Server {
    /// The first start, with an empty database.
    pub(crate) fn new(mutation: Mutation, medium: Medium) -> Self {
        let faults = match medium {
            Medium::Memory => {
                DATABASE.with_borrow(|database| database.clear().expect("cleared"));
                None
            }
            Medium::FailingDisk(seed) => {
                ON_DISK.with(OnDisk::clear);
                Some(FaultRandom::new(seed))
            }
        };
        let mut server = Self {
            running: None,
            clock: Arc::new(SimulatedTime::new()),
            memory: Arc::default(),
            faults,
            ticks: 0,
            mutation,
        };
        server.start();
        server
    }

    /// Starts with the committed state.
    pub(crate) fn start(&mut self) {
        let settings = StoreSettings {
            history_messages_max: 0,
            reserve: DiskReserve::Size(ByteSize(0)),
            ..StoreSettings::default()
        };
        let clock = self.clock.clone();
        // A process that starts later has later ids.
        let _ = MessageId::continue_after(MessageId::floor_at(clock.now()));
        let opened = match &mut self.faults {
            Some(random) => ON_DISK.with(|OnDisk { disk, database, .. }| {
                let settled = disk.restore_power(&mut || random.one_in(2));
                settled.expect("a disk in memory");
                database.open(&settings, clock.clone())
            }),
            None => DATABASE.with_borrow(|database| database.open(&settings, clock.clone())),
        };
        let (store, writer) = opened.expect("a store");
        let settings = BrokerSettings {
            session_expiry_max: Period::seconds(2_000_000_000),
            sys_interval: Period::seconds(0),
            recent_per_topic: 1,
            memory_max: ByteSize::megabytes(MEMORY_MAX_MEGABYTES),
            ..BrokerSettings::default()
        };
        let broker = Broker::open_simulated(settings, store, clock, self.memory.clone());
        self.running = Some((broker.expect("a broker"), writer));
    }

    /// Loses all uncommitted changes. On a disk this may happen in the middle of a commit. The
    /// server is gone when all attachments are dropped as well.
    pub(crate) fn crash(&mut self) {
        if let Some(random) = &mut self.faults {
            let operation = [FileOperation::Write, FileOperation::Sync][random.below(2) as usize];
            let cut = Fault::new(operation, FaultEffect::PowerCut).after(random.below(4));
            let is_in_commit = random.one_in(2);
            ON_DISK.with(|OnDisk { disk, .. }| {
                if is_in_commit && let Some((_, writer)) = &mut self.running {
                    disk.inject(cut);
                    writer.commit(usize::MAX);
                }
                disk.cut_power();
            });
        }
        self.running = None;
    }

    pub(crate) fn broker(&self) -> &Broker {
        let (broker, _) = self.running.as_ref().expect("it runs");
        broker
    }

    fn writer(&mut self) -> &mut ManualWriter {
        let (_, writer) = self.running.as_mut().expect("it runs");
        writer
    }

    pub(crate) fn has_uncommitted(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|(_, writer)| writer.waiting() > 0)
    }

    /// Commits the first submissions; returns whether nothing waits any more.
    pub(crate) fn commit(&mut self, submissions: u64) -> bool {
        let mutation = self.mutation;
        let count = usize::try_from(submissions).unwrap_or(usize::MAX);
        let is_written = |change: &StoreChange| !mutation.forgets(change);
        self.writer().commit_only(count, is_written);
        !self.has_uncommitted()
    }

    pub(crate) fn fail_commit(&mut self) {
        let Some(random) = &mut self.faults else {
            self.writer().fail(&StoreError::Closed);
            return;
        };
        let part = random.below(4_096) as usize;
        let (operation, effect) = [
            (FileOperation::Write, FaultEffect::Error),
            (FileOperation::Write, FaultEffect::Full),
            (FileOperation::Write, FaultEffect::Short(part)),
            (FileOperation::Sync, FaultEffect::Error),
        ][random.below(4) as usize];
        let skipped = random.below(3);
        ON_DISK.with(|OnDisk { disk, .. }| {
            disk.inject(Fault::new(operation, effect).after(skipped));
            self.writer().commit(usize::MAX);
            // A fault after the last operation has no effect: the commit has succeeded.
            disk.remove_faults();
        });
    }

    /// Time passes, second by second as the housekeeper sees it.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.clock.wait(time);
        let _ = MessageId::continue_after(MessageId::floor_at(self.clock.now()));
        self.writer().probe();
        self.broker().tick(self.ticks);
        self.ticks += 1;
    }

    /// Sets the memory that the housekeeper, or the next start, measures.
    pub(crate) fn set_memory(&self, memory: Memory) {
        self.memory.set(memory);
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
    fn forgets(self, change: &StoreChange) -> bool {
        let Self::Forget(forgotten) = self else {
            return false;
        };
        let is_retained = matches!(change, StoreChange::Retain(_) | StoreChange::Unretain(_));
        let StoreChange::Session(change) = change else {
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
