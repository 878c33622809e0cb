//! The handle to the database, and its threads: the writer, the one that monitors the disk, and the
//! one that indexes the journal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use gatepost_message::TopicFilter;
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::background::BackgroundThreads;
use crate::bounds::TableBounds;
use crate::clock::{ClockSource, SystemClock};
use crate::committer::Committer;
use crate::copying::{CommitCopy, SharedCopy};
use crate::group::{CommitGroup, Ticket};
use crate::journal_index::{Indexer, JournalIndex};
use crate::lock::{self, FolderLock};
use crate::mailbox_sizes::MailboxSizes;
use crate::open;
use crate::open_database::OpenDatabase;
use crate::queue::{CommitQueue, Urgency};
use crate::recovery::Recovery;
use crate::scrub::Scrub;
use crate::settings::{SharedHistoryAges, SharedSettings};
use crate::shared_mailboxes::{LocalClaims, MailboxCluster};
use crate::shared_records::SharingCluster;
use crate::stored_clock::{HeldExpiry, SharedAgeTime, StoredClock};
use crate::trim::Trimmer;
use crate::watch::{DiskHealth, DiskWatch};
use crate::writer::{ServerDuties, StoreWriter};
use crate::{OnDamage, StoreChange, StoreError, StoreSettings, schema};

/// The embedded database. Cheap to clone; dropping the last handle commits waiting changes and
/// closes it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreCore>,
}

pub(crate) struct StoreCore {
    queue: Arc<CommitQueue>,
    /// The connection for reading; the write-ahead log permits it to read while the writer writes.
    reader: Arc<Mutex<Connection>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waiting_bytes_max: usize,
    keeps_history: AtomicBool,
    pub(crate) on_damage: OnDamage,
    /// The settings of a server, as of the last reload.
    settings: Option<SharedSettings>,
    history_ages: SharedHistoryAges,
    /// `None` for a database whose rows do not age.
    age_time: Option<SharedAgeTime>,
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) journal_index: Arc<JournalIndex>,
    background: BackgroundThreads,
    commits: Arc<AtomicU64>,
    pub(crate) copy: SharedCopy,
    pub(crate) cluster: SharingCluster,
    /// The cluster that decides about mailboxes.
    pub(crate) mailboxes: MailboxCluster,
    pub(crate) mailbox_sizes: MailboxSizes,
    /// The messages in quarantine that are being released, without a cluster.
    pub(crate) claimed: LocalClaims,
    /// Released when the writer has ended.
    locks: Mutex<Vec<FolderLock>>,
}

impl Store {
    /// Opens the database in `folder` for a server, creating both if they are missing. The folder
    /// is locked for as long as a handle lives: a second server is refused. An error other than
    /// damage ends the attempt and changes nothing; so does damage, unless
    /// [`StoreSettings::on_damage`] asks for a recovery.
    pub fn open(folder: &Path, settings: &StoreSettings) -> Result<(Self, Recovery), StoreError> {
        Self::open_with_clock(folder, settings, Arc::new(SystemClock::default()))
    }

    /// As [`Store::open`], with another clock for ages.
    pub fn open_with_clock(
        folder: &Path,
        settings: &StoreSettings,
        clock: Arc<dyn ClockSource>,
    ) -> Result<(Self, Recovery), StoreError> {
        let (parts, recovery, scrub, indexer) = Self::open_parts(folder, settings, clock)?;
        let health = parts.health.clone();
        let store = Self::start(parts, settings);
        let queue = store.inner.queue.clone();
        let watch = DiskWatch { health, scrub };
        let background = &store.inner.background;
        background.start("store-watch", move |end| watch.run(&end, || queue.probe()));
        background.start("store-index", move |end| indexer.run(&end));
        Ok((store, recovery))
    }

    /// Opens the parts for [`Store::open_with_clock`], before any thread is started.
    pub(crate) fn open_parts(
        folder: &Path,
        settings: &StoreSettings,
        clock: Arc<dyn ClockSource>,
    ) -> Result<(OpenDatabase, Recovery, Scrub, Indexer), StoreError> {
        let mut opened = open::open_server(folder, settings)?;
        let recovery = std::mem::take(&mut opened.recovery);
        let jump_max = settings.clock_jump_max.duration();
        let scrub = Scrub::new(opened.open_another()?);
        let health = Arc::new(opened.health(settings));
        let journal_index = Arc::<JournalIndex>::default();
        let indexer = Indexer::new(
            opened.folder.clone(),
            opened.open_another()?,
            journal_index.clone(),
            health.clone(),
        );
        let named = |error: rusqlite::Error| open::with_file_name(&opened.folder, error.into());
        let shared = SharedSettings::new(Mutex::new(settings.clone()));
        let mut server = ServerDuties {
            clock: StoredClock::open(&opened.writing, clock, jump_max).map_err(named)?,
            trimmer: Trimmer::new(shared.clone()),
            bounds: TableBounds::open(&opened.writing, settings).map_err(named)?,
        };
        let looked = server.time_for_ages(&opened.writing, &health);
        looked.map_err(named)?;
        health.check_space();
        let parts = OpenDatabase {
            writing: Arc::new(Mutex::new(opened.writing)),
            reading: Arc::new(Mutex::new(opened.reading)),
            locks: opened.locks,
            age_time: Some(server.clock.age_time()),
            settings: Some(shared),
            server: Some(server),
            health,
            journal_index,
            folder: Some(opened.folder),
        };
        Ok((parts, recovery, scrub, indexer))
    }

    /// Whether a server has the database of this folder open. It may end at any time.
    pub fn is_served(folder: &Path) -> bool {
        lock::is_served(folder)
    }

    /// Opens the database as a second process, while a server may have it open too. Damage is
    /// always an error here: only the server recovers a database.
    pub fn open_secondary(folder: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        let opened = open::open_secondary(folder)?;
        let parts = OpenDatabase {
            health: Arc::new(opened.health(settings)),
            writing: Arc::new(Mutex::new(opened.writing)),
            reading: Arc::new(Mutex::new(opened.reading)),
            locks: opened.locks,
            age_time: None,
            settings: None,
            server: None,
            journal_index: Arc::default(),
            folder: Some(opened.folder),
        };
        Ok(Self::start(parts, settings))
    }

    /// A database that lives as long as its handles: for tests.
    pub fn in_memory() -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        schema::prepare(&mut connection)?;
        let connection = Arc::new(Mutex::new(connection));
        let parts = OpenDatabase::without_server(connection);
        Ok(Self::start(parts, &StoreSettings::default()))
    }

    /// A handle that reads from this connection, and refuses changes.
    pub(crate) fn of_reader(connection: Arc<Mutex<Connection>>) -> Self {
        let parts = OpenDatabase::without_server(connection);
        let (store, _) = Self::assemble(parts, &StoreSettings::default());
        store.inner.queue.close();
        store
    }

    /// Starts the writer's thread.
    fn start(parts: OpenDatabase, settings: &StoreSettings) -> Self {
        let (store, committer) = Self::assemble(parts, settings);
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || committer.run())
            .ok();
        if thread.is_none() {
            // Without a writer every submission is refused, since nothing can be stored.
            store.inner.queue.close();
        }
        *store.inner.writer.lock() = thread;
        store
    }

    /// The handle and the committer of its changes.
    pub(crate) fn assemble(parts: OpenDatabase, settings: &StoreSettings) -> (Self, Committer) {
        let trimmer = parts.server.as_ref().map(|server| &server.trimmer);
        let history_ages = trimmer.map(Trimmer::history_ages).unwrap_or_default();
        let committer = Committer {
            queue: CommitQueue::new(),
            writer: StoreWriter::new(
                parts.writing,
                parts.server,
                parts.health.clone(),
                parts.journal_index.clone(),
            ),
            commits: Arc::new(AtomicU64::new(0)),
            copy: SharedCopy::default(),
            folder: parts.folder,
        };
        let inner = StoreCore {
            queue: committer.queue.clone(),
            reader: parts.reading,
            locks: Mutex::new(parts.locks),
            writer: Mutex::default(),
            background: BackgroundThreads::default(),
            journal_index: parts.journal_index,
            waiting_bytes_max: settings.waiting_max.as_usize(),
            keeps_history: AtomicBool::new(settings.history_messages_max > 0),
            settings: parts.settings,
            history_ages,
            on_damage: settings.on_damage,
            age_time: parts.age_time,
            health: parts.health,
            commits: committer.commits.clone(),
            copy: committer.copy.clone(),
            cluster: SharingCluster::new(),
            mailboxes: MailboxCluster::new(),
            mailbox_sizes: MailboxSizes::default(),
            claimed: LocalClaims::default(),
        };
        let inner = Arc::new(inner);
        (Self { inner }, committer)
    }

    /// Submits changes to the writer, without waiting for the disk. The changes are durable when
    /// the ticket is committed: all of them, or none.
    pub fn submit(
        &self,
        changes: impl IntoIterator<Item = StoreChange>,
    ) -> Result<Ticket, StoreError> {
        self.submit_all(&mut changes.into_iter().collect())
    }

    /// As [`Store::submit`]; `changes` is emptied, or unchanged if they are refused.
    pub fn submit_all(&self, changes: &mut Vec<StoreChange>) -> Result<Ticket, StoreError> {
        self.enqueue(changes, Urgency::Awaited, None)
    }

    /// As [`Store::submit_all`], for changes that may only be stored after those of `earlier`: if
    /// those have failed they are refused, and if those fail later they fail with them.
    pub fn submit_after(
        &self,
        changes: &mut Vec<StoreChange>,
        earlier: Option<&Ticket>,
    ) -> Result<Ticket, StoreError> {
        self.enqueue(changes, Urgency::Awaited, earlier)
    }

    /// As [`Store::submit_after`], for changes that callers rarely wait for: they share the next
    /// commit that a caller waits for, follow a moment later in one of their own, or are committed
    /// as soon as a caller waits for this ticket.
    pub fn submit_later(
        &self,
        changes: &mut Vec<StoreChange>,
        earlier: Option<&Ticket>,
    ) -> Result<Ticket, StoreError> {
        self.enqueue(changes, Urgency::Deferred, earlier)
    }

    /// As [`Store::submit_later`], without a ticket. So such changes rarely cost an `fsync`.
    pub fn submit_deferred(
        &self,
        changes: impl IntoIterator<Item = StoreChange>,
    ) -> Result<(), StoreError> {
        let mut changes: Vec<StoreChange> = changes.into_iter().collect();
        self.submit_later(&mut changes, None).map(drop)
    }

    /// As [`Store::submit_deferred`], for a change that may be lost: it waits up to a minute for
    /// the commit of others, so that an idle server writes to its disk once a minute at most. The
    /// ticket has the outcome later.
    pub fn submit_unhurried(&self, change: StoreChange) -> Result<Ticket, StoreError> {
        self.enqueue(&mut vec![change], Urgency::Unhurried, None)
    }

    /// Waits until everything submitted before is committed, or has failed, so that a query reads
    /// deferred changes too.
    pub async fn flush(&self) {
        if let Some(ticket) = self.inner.queue.flush() {
            // A failure is reported to those who submitted the changes.
            let _ = ticket.committed().await;
        }
    }

    fn enqueue(
        &self,
        changes: &mut Vec<StoreChange>,
        urgency: Urgency,
        earlier: Option<&Ticket>,
    ) -> Result<Ticket, StoreError> {
        if changes.is_empty() {
            // Nothing to write is durable already.
            let done = Arc::new(CommitGroup::default());
            done.decide(Ok(Vec::new()));
            return Ok(Ticket::of_all(done));
        }
        let health = &self.inner.health;
        health.admits(|| changes.iter().any(StoreChange::stores_message))?;
        let waiting_bytes_max = self.inner.waiting_bytes_max;
        self.inner
            .queue
            .push(changes, urgency, earlier, waiting_bytes_max)
    }

    /// The reason why no message can be stored now, if any: the disk is full or fails, or the file
    /// is gone.
    pub fn readiness(&self) -> Result<(), StoreError> {
        self.inner.health.readiness()
    }

    /// Whether changes that were submitted since the start could not be stored.
    pub fn has_lost_changes(&self) -> bool {
        self.inner.health.has_lost()
    }

    /// The number of rows with a wrong checksum that were read since the start.
    pub fn damaged_rows(&self) -> u64 {
        self.inner.health.damaged_rows.load(Ordering::Relaxed)
    }

    /// The rows that would expire at once because the clock is ahead, and that are kept until the
    /// clock is accepted or corrected; as found by the last check, once a minute.
    pub fn held_expiry(&self) -> Option<HeldExpiry> {
        self.inner.health.held_expiry()
    }

    /// Accepts the clock at an administrator's request: rows age by it from now on, and expired
    /// rows are removed within a minute. Returns the rows that were held back.
    pub fn accept_clock(&self) -> Option<HeldExpiry> {
        if let Some(age_time) = &self.inner.age_time {
            age_time.accept_clock();
        }
        self.inner.health.set_held_expiry(None)
    }

    /// The time by which rows and sessions age. It is not ahead of the clock, and does not follow a
    /// clock that jumps further ahead than `store.clock_jump_max`.
    pub fn time_for_ages(&self) -> SystemTime {
        let age_time = self.inner.age_time.as_ref();
        age_time.map_or_else(SystemTime::now, |age_time| age_time.now().0)
    }

    /// The time to store with rows that age: the latest trusted time, or the clock's time if that
    /// is later. So neither a clock that is behind for a while, as after a start in 1970, nor a
    /// clock that is trusted after a jump makes rows older than they are.
    pub fn time_to_store(&self) -> SystemTime {
        let age_time = self.inner.age_time.as_ref();
        age_time.map_or_else(SystemTime::now, SharedAgeTime::latest)
    }

    /// Sets new limits on stored rows, by age, number, bytes and after a jump of the clock. They
    /// are applied at the next pass over old rows, within a minute.
    pub fn set_limits(&self, settings: &StoreSettings) {
        let keeps_history = settings.history_messages_max > 0;
        let core = &self.inner;
        core.keeps_history.store(keeps_history, Ordering::Relaxed);
        if let Some(limits) = &core.settings {
            *limits.lock() = settings.clone();
        }
    }

    /// Sets the ages at which the publications of certain topics are removed from the history, if
    /// that is earlier than [`StoreSettings::history_age_max`]. The first filter that matches a
    /// topic counts.
    pub fn set_history_ages(&self, ages: Vec<(TopicFilter, Option<Duration>)>) {
        *self.inner.history_ages.lock() = ages;
    }

    /// The settings of a server, as of the last reload; `None` for other databases.
    pub fn settings(&self) -> Option<StoreSettings> {
        let settings = self.inner.settings.as_ref();
        settings.map(|settings| settings.lock().clone())
    }

    /// Whether there is a history of publications.
    pub fn keeps_history(&self) -> bool {
        self.inner.keeps_history.load(Ordering::Relaxed)
    }

    /// Groups of changes that were written since the start, each with one `fsync`.
    pub fn commits(&self) -> u64 {
        self.inner.commits.load(Ordering::Relaxed)
    }

    /// The number of bytes that wait for the disk now.
    pub fn waiting_bytes(&self) -> usize {
        self.inner.queue.bytes()
    }

    /// Commits waiting changes, refuses later ones, and unlocks the data folder.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Copies all later commits to another place, for as long as the store is open. Only the first
    /// call has an effect.
    pub fn copy_commits_to(&self, copy: Arc<dyn CommitCopy>) {
        let _ = self.inner.copy.set(copy);
    }

    pub(crate) fn reader(&self) -> parking_lot::MutexGuard<'_, Connection> {
        self.inner.reader.lock()
    }
}

impl StoreCore {
    fn close(&self) {
        self.queue.close();
        self.background.end();
        if let Some(thread) = self.writer.lock().take() {
            // A panic of the writer has failed all tickets; see FailWaitingOnDrop.
            let _ = thread.join();
        }
        self.locks.lock().clear();
    }
}

impl Drop for StoreCore {
    fn drop(&mut self) {
        self.close();
    }
}
