//! The handle that every room holds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use crate::group::{Group, Ticket};
use crate::recovery::{self, Recovery};
use crate::writer::Writer;
use crate::{Change, StoreError, StoreSettings, schema};

/// The file within the data folder.
const FILE_NAME: &str = "gatepost.db";
/// How long changes that nobody waits for may wait for a commit that is made anyway.
const UNHURRIED_TIME_MAX: Duration = Duration::from_millis(100);
/// So many changes are written whether anybody waits for them or not.
const UNHURRIED_CHANGES_MAX: usize = 4_096;

/// The embedded database. Cheap to clone; the last handle dropped commits what waits and closes.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    /// For reading; the write-ahead log lets it read while the writer writes.
    reader: Arc<Mutex<Connection>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waiting_bytes_max: usize,
    keeps_history: bool,
    commits: Arc<AtomicU64>,
}

/// What waits for the writer.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    changes: Vec<Change>,
    bytes: usize,
    group: Arc<Group>,
    /// What the writer took last: it may still be at it.
    taken: Option<Arc<Group>>,
    /// Whether somebody waits for the commit.
    hurried: bool,
    /// When changes that nobody waits for are written all the same.
    due: Option<Instant>,
    closed: bool,
}

impl Waiting {
    /// Whether a commit is to be made now.
    fn is_due(&self, now: Instant) -> bool {
        !self.changes.is_empty()
            && (self.hurried || self.closed || self.due.is_some_and(|due| due <= now))
    }
}

impl Store {
    /// Opens the database in `folder`, making both where they are missing. A damaged file is set
    /// aside and what is whole of it is taken over: see [`Recovery`].
    pub fn open(folder: &Path, settings: &StoreSettings) -> Result<(Self, Recovery), StoreError> {
        make_folder(folder)?;
        let file = folder.join(FILE_NAME);
        let (writing, recovery) = recovery::open_or_recover(&file)?;
        let reading = Self::reading_connection(&file)?;
        let store = Self::start(
            Arc::new(Mutex::new(writing)),
            Arc::new(Mutex::new(reading)),
            settings,
        );
        Ok((store, recovery))
    }

    /// Opens the database of a server that may be running, as a second process beside it. A file
    /// that cannot be read is an error here: only the server, which is alone at its start, sets
    /// damage aside.
    pub fn open_beside(folder: &Path, settings: &StoreSettings) -> Result<Self, StoreError> {
        make_folder(folder)?;
        let file = folder.join(FILE_NAME);
        let mut writing = Connection::open(&file)?;
        schema::prepare(&mut writing)?;
        let reading = Self::reading_connection(&file)?;
        Ok(Self::start(
            Arc::new(Mutex::new(writing)),
            Arc::new(Mutex::new(reading)),
            settings,
        ))
    }

    fn reading_connection(file: &Path) -> Result<Connection, StoreError> {
        let reading = Connection::open(file)?;
        reading.pragma_update(None, "query_only", true)?;
        reading.busy_timeout(Duration::from_secs(10))?;
        Ok(reading)
    }

    /// A database that lives as long as its handles: for tests and trials.
    pub fn in_memory() -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        schema::prepare(&mut connection)?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Self::start(
            connection.clone(),
            connection,
            &StoreSettings::default(),
        ))
    }

    fn start(
        writing: Arc<Mutex<Connection>>,
        reading: Arc<Mutex<Connection>>,
        settings: &StoreSettings,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let mut writer = Writer::new(writing, settings.clone());
        let writers_queue = queue.clone();
        let commits = Arc::new(AtomicU64::new(0));
        let counted = commits.clone();
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                // Also when the writer panics: nobody waits for a commit that cannot come.
                let _closing = FailWaitingOnDrop(writers_queue.clone());
                while let Some((changes, group)) = writers_queue.take() {
                    let _deciding = FailGroupOnDrop(group.clone());
                    writer.commit(&changes, &group);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
            .ok();
        if thread.is_none() {
            // Without a writer nothing may be promised: every submit is refused.
            queue.close();
        }
        Self {
            inner: Arc::new(Inner {
                queue,
                reader: reading,
                writer: Mutex::new(thread),
                waiting_bytes_max: settings.waiting_max.as_usize(),
                keeps_history: settings.history_messages_max > 0,
                commits,
            }),
        }
    }

    /// Hands changes to the writer, never waiting for the disk. The changes are durable when the
    /// ticket is committed.
    pub fn submit(&self, changes: impl IntoIterator<Item = Change>) -> Result<Ticket, StoreError> {
        self.submit_all(&mut changes.into_iter().collect())
    }

    /// As [`Store::submit`]; `changes` is left empty, or, refused, as it was.
    pub fn submit_all(&self, changes: &mut Vec<Change>) -> Result<Ticket, StoreError> {
        if changes.is_empty() {
            // Nothing to write is durable already.
            let done = Arc::new(Group::default());
            done.decide(Ok(()));
            return Ok(Ticket::new(done));
        }
        self.enqueue(changes, true)
    }

    /// As [`Store::submit`], for changes whose commit nobody waits for: they go with the next one
    /// that somebody does wait for, or a moment later by themselves. So what is only good to know
    /// costs no `fsync` of its own.
    pub fn submit_unhurried(
        &self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<(), StoreError> {
        let mut changes: Vec<Change> = changes.into_iter().collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.enqueue(&mut changes, false).map(drop)
    }

    /// Waits until all that was submitted before is written, or has failed to be: for those who look
    /// for what nobody waited for.
    pub async fn caught_up(&self) {
        let queue = &self.inner.queue;
        let last = {
            let mut waiting = queue.waiting.lock();
            if waiting.changes.is_empty() {
                waiting.taken.clone()
            } else {
                waiting.hurried = true;
                queue.arrived.notify_one();
                Some(waiting.group.clone())
            }
        };
        if let Some(group) = last {
            // Whoever submitted it is told of a failure; here it means that it is not there.
            let _ = Ticket::new(group).committed().await;
        }
    }

    fn enqueue(&self, changes: &mut Vec<Change>, hurried: bool) -> Result<Ticket, StoreError> {
        let bytes: usize = changes.iter().map(Change::weight).sum();
        let queue = &self.inner.queue;
        let mut waiting = queue.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        if waiting.bytes > self.inner.waiting_bytes_max {
            return Err(StoreError::Overloaded {
                waiting_bytes: waiting.bytes,
            });
        }
        let was_empty = waiting.changes.is_empty();
        let was_hurried = waiting.hurried;
        waiting.bytes += bytes;
        waiting.changes.append(changes);
        waiting.hurried |= hurried || waiting.changes.len() >= UNHURRIED_CHANGES_MAX;
        if was_empty && !waiting.hurried {
            waiting.due = Some(Instant::now() + UNHURRIED_TIME_MAX);
        }
        let wakes = was_empty || waiting.hurried && !was_hurried;
        let ticket = Ticket::new(waiting.group.clone());
        drop(waiting);
        if wakes {
            queue.arrived.notify_one();
        }
        Ok(ticket)
    }

    /// Whether publications are kept in the history at all.
    pub fn keeps_history(&self) -> bool {
        self.inner.keeps_history
    }

    /// Groups of changes that were written since the start, each with one `fsync`.
    pub fn commits(&self) -> u64 {
        self.inner.commits.load(Ordering::Relaxed)
    }

    /// The bytes that wait for the disk now.
    pub fn waiting_bytes(&self) -> usize {
        self.inner.queue.waiting.lock().bytes
    }

    /// Commits what waits and refuses what comes after.
    pub fn close(&self) {
        self.inner.close();
    }

    pub(crate) fn reader(&self) -> parking_lot::MutexGuard<'_, Connection> {
        self.inner.reader.lock()
    }
}

/// Makes the folder where it is missing, for its owner only: what is kept in it (mail, hashes of
/// passwords) is nobody else's.
fn make_folder(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| StoreError::Folder {
        path: folder.to_owned(),
        cause: Arc::new(error),
    })
}

impl Inner {
    fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.writer.lock().take() {
            // A panic of the writer has been told to all who waited; see FailWaitingOnDrop.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Fails the tickets of one group, unless it was decided.
struct FailGroupOnDrop(Arc<Group>);

impl Drop for FailGroupOnDrop {
    fn drop(&mut self) {
        self.0.decide(Err(StoreError::Closed));
    }
}

/// Closes the queue and fails what still waits in it.
struct FailWaitingOnDrop(Arc<Queue>);

impl Drop for FailWaitingOnDrop {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.closed = true;
        waiting.group.decide(Err(StoreError::Closed));
    }
}

impl Queue {
    /// Waits until changes are due and takes all there are; `None` when closed and empty.
    fn take(&self) -> Option<(Vec<Change>, Arc<Group>)> {
        let mut waiting = self.waiting.lock();
        while !waiting.is_due(Instant::now()) {
            if waiting.closed {
                return None;
            }
            match waiting.due {
                Some(due) => drop(self.arrived.wait_until(&mut waiting, due)),
                None => self.arrived.wait(&mut waiting),
            }
        }
        waiting.bytes = 0;
        waiting.hurried = false;
        waiting.due = None;
        let changes = std::mem::take(&mut waiting.changes);
        let group = std::mem::take(&mut waiting.group);
        waiting.taken = Some(group.clone());
        Some((changes, group))
    }

    fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_one();
    }
}
