//! The place of a schedule's database.
//!
//! Most schedules have it on a disk in memory. Their connection stays open over a crash, unless the
//! seed says otherwise: SQLite then finds its shared memory lost, reads the write-ahead log as
//! after any crash and forgets its pages, which costs microseconds. Some schedules have it in
//! files, where a start also goes through the locks and checks of a data folder.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use gatepost_faults::{Disk, DiskImage};
use gatepost_store::{
    ClockSource, ManualWriter, SimulatedDatabase, Store, StoreError, StoreSettings,
};
use tempfile::TempDir;

/// Two sectors: a page can be torn, and a schedule writes few bytes.
const PAGE_BYTES: u32 = 1_024;
/// Pages of the write-ahead log after which it is written back, so that crashes happen during this
/// too.
const LOG_PAGES: u32 = 60;

/// Time stands still.
struct StoppedClock;

impl ClockSource for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    Memory,
    Files,
}

pub(crate) struct Database(Place);

enum Place {
    Memory(Rc<MemoryPlace>),
    Files(TempDir, Disk),
}

struct MemoryPlace {
    disk: Disk,
    /// A database without rows: to make a schema takes longer than a schedule.
    new: DiskImage,
    connected: RefCell<Option<SimulatedDatabase>>,
}

thread_local! {
    /// One for all schedules of a thread, so that statements are prepared once.
    static MEMORY: Rc<MemoryPlace> = Rc::new(MemoryPlace::new());
}

/// As in [`MemoryPlace::new`], for files.
static NEW_FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = folder();
    let opened = Store::open_with_clock(folder.path(), &settings(), Arc::new(StoppedClock));
    opened.expect("a new database").0.close();
    std::fs::read(folder.path().join("gatepost.db")).expect("readable")
});

/// In memory if the system has such a folder: the effect of a power cut is simulated.
fn folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

fn settings() -> StoreSettings {
    StoreSettings {
        reserve: "0B".parse().expect("a size"),
        ..StoreSettings::default()
    }
}

impl MemoryPlace {
    fn new() -> Self {
        let disk = Disk::in_memory();
        let connected = RefCell::new(Some(connect(&disk)));
        let new = disk.image().expect("a disk in memory");
        Self {
            disk,
            new,
            connected,
        }
    }
}

fn connect(disk: &Disk) -> SimulatedDatabase {
    let file = disk.folder().join("gatepost.db");
    SimulatedDatabase::at(&file, PAGE_BYTES, LOG_PAGES).expect("a disk without faults")
}

impl Database {
    /// Without rows.
    pub(crate) fn new(medium: Medium) -> Self {
        Self(match medium {
            Medium::Memory => {
                let place = MEMORY.with(Rc::clone);
                place.disk.remove_faults();
                place.disk.load(&place.new);
                Place::Memory(place)
            }
            Medium::Files => {
                let folder = folder();
                std::fs::write(folder.path().join("gatepost.db"), &*NEW_FILE).expect("written");
                let disk = Disk::at(folder.path());
                Place::Files(folder, disk)
            }
        })
    }

    pub(crate) fn disk(&self) -> &Disk {
        match &self.0 {
            Place::Memory(place) => &place.disk,
            Place::Files(_, disk) => disk,
        }
    }

    /// Opens the store; the pages are checked if the plan requires it, and always in files.
    pub(crate) fn open(&self, is_checked: bool) -> Result<(Store, ManualWriter), StoreError> {
        let clock = Arc::new(StoppedClock);
        match &self.0 {
            Place::Memory(place) => {
                let mut connected = place.connected.borrow_mut();
                let database = connected.get_or_insert_with(|| connect(&place.disk));
                if is_checked {
                    database.check()?;
                }
                database.open(&settings(), clock)
            }
            Place::Files(folder, _) => {
                let opened = Store::open_manual(folder.path(), &settings(), clock);
                opened.map(|(store, _, writer)| (store, writer))
            }
        }
    }

    /// Starts the machine after a power cut; no store may be open. `choose` decides which unsynced
    /// writes are on disk.
    pub(crate) fn recover(&self, is_reconnected: bool, choose: &mut dyn FnMut() -> bool) {
        if let Place::Memory(place) = &self.0
            && is_reconnected
        {
            drop(place.connected.take());
        }
        self.disk().restore_power(choose).expect("restored");
    }
}
