//! Errors of the database.

use std::path::PathBuf;
use std::sync::Arc;

use gatepost_settings::ByteSize;

/// The reason why a change was not stored, or data could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The folder or a file in it cannot be created, opened or renamed.
    #[error("{path}: {cause}")]
    File {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        cause: Arc<std::io::Error>,
    },
    /// Another server holds the lock of this data folder.
    #[error("another gatepost is running with the data folder {folder}; stop it first")]
    AlreadyServing {
        /// The data folder.
        folder: PathBuf,
    },
    /// Another process kept the database lock for longer than this one waits.
    #[error(
        "another process is recovering or using the database {file}; try again when it has ended"
    )]
    InUse {
        /// The database.
        file: PathBuf,
    },
    /// A recovery ended between its last two steps; the next server completes it.
    #[error("a recovery of the database {file} was interrupted; start the server to complete it")]
    RecoveryInterrupted {
        /// The database.
        file: PathBuf,
    },
    /// The file cannot be opened, for a reason other than damage.
    #[error("the database {file} cannot be opened: {cause}; nothing was changed")]
    Open {
        /// The database.
        file: PathBuf,
        /// SQLite's error.
        cause: Arc<rusqlite::Error>,
    },
    /// The database has an earlier schema, and a server is running with it. It may be one of the
    /// version of that schema, so a command does not change the schema.
    #[error(
        "the database {file} has schema {found}, and this version changes it to {known}: restart \
         the server with this version first; nothing was changed"
    )]
    EarlierServer {
        /// The database.
        file: PathBuf,
        /// Its schema version.
        found: usize,
        /// The newest schema version of this program.
        known: usize,
    },
    /// The file's content is wrong.
    #[error(
        "the database {file} is damaged ({reason}); nothing was changed. Restore a backup, or set \
         store.on_damage = \"recover\": then the next start keeps a copy of the damaged file and \
         continues with every row that can be read"
    )]
    Damaged {
        /// The database.
        file: PathBuf,
        /// A description of the damage.
        reason: String,
    },
    /// A newer version of Gatepost wrote the file.
    #[error(
        "the database {file} has schema {found}, and this version supports {known}: a newer \
            gatepost \
         wrote it. Run that version, or restore a backup from before the update; nothing was \
         changed"
    )]
    LaterSchema {
        /// The database.
        file: PathBuf,
        /// Its schema version.
        found: usize,
        /// The newest schema version of this program.
        known: usize,
    },
    /// A row with this key exists already and differs.
    #[error("the table {table} has another row with this key already; nothing was replaced")]
    Collision {
        /// The table.
        table: &'static str,
    },
    /// Another process was first to change a record ([`StoreChange::ExpectRecord`]).
    ///
    /// [`StoreChange::ExpectRecord`]: crate::StoreChange::ExpectRecord
    #[error("another process has changed the records of '{space}' meanwhile; try again")]
    Outdated {
        /// The key space of the record.
        space: &'static str,
    },
    /// The checksum of a row is wrong.
    #[error(
        "a row of the table {table} is damaged: its checksum is wrong. Restore a backup, or \
         set store.on_damage = \"recover\" to continue without such rows"
    )]
    DamagedRow {
        /// The table.
        table: &'static str,
    },
    /// The disk has less space left than `store.reserve` requires.
    #[error(
        "the disk is nearly full: {available} are left, and store.reserve keeps {reserve} free"
    )]
    DiskFull {
        /// The share left for this process.
        available: ByteSize,
        /// The space that must stay free.
        reserve: ByteSize,
    },
    /// The database file has lost its name: the data folder was removed or replaced.
    #[error("the database {file} was removed or replaced while it was open; nothing can be stored")]
    FileReplaced {
        /// The database.
        file: PathBuf,
    },
    /// SQLite failed: disk full, I/O error, damage.
    #[error("the database failed: {0}")]
    Database(Arc<rusqlite::Error>),
    /// More data waits to be written than [`StoreSettings`](crate::StoreSettings) allows. The
    /// caller answers with its protocol's "try again later".
    #[error("the database cannot keep up: {waiting_bytes} bytes are waiting to be written")]
    Overloaded {
        /// The bytes that wait.
        waiting_bytes: usize,
    },
    /// The cluster that the server is part of did not store the message or the change.
    #[error("the cluster did not store it: {cause}")]
    Cluster {
        /// The reason.
        cause: Arc<str>,
    },
    /// The cluster has no room for the message.
    #[error("the cluster has no room for it: {cause}")]
    ClusterFull {
        /// The reason.
        cause: Arc<str>,
    },
    /// The message is longer than the cluster can store.
    #[error("the message has {bytes} bytes, more than the cluster can store")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The store was closed before the change was written.
    #[error("the database is closed")]
    Closed,
}

impl StoreError {
    /// Whether only the submission with the change is refused, and not its whole commit.
    pub(crate) const fn is_of_submission(&self) -> bool {
        matches!(self, Self::Collision { .. } | Self::Outdated { .. })
    }

    /// Whether a disk is full, or nearly so, of this server or of its cluster: some replies have a
    /// code for it.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::ClusterFull { .. } => true,
            Self::Database(error) => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            _ => false,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}
