//! Opening the database: it is locked first, then checked, and changed only on request.
//!
//! Only `SQLITE_CORRUPT`, `SQLITE_NOTADB` and a failed check are damage. Every other error (a full
//! disk, an I/O error, no descriptor left, no permission) ends the start with its reason, and the
//! files are unchanged. SQLite reports a read that fails with EIO as `SQLITE_CORRUPT` too, so
//! damage counts only if every byte can be read and the damage is found again. Damage ends the
//! start too, unless [`OnDamage::Recover`](crate::OnDamage) asks for a [recovery].

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::connection::{connect, open_error};
use crate::folder::{DataFolder, file_error};
use crate::lock::{self, FolderLock};
use crate::recovery::{self, Recovery};
use crate::watch::DiskHealth;
use crate::{OnDamage, StoreError, StoreSettings, creation, schema};

/// An open database, locked for as long as this lives.
pub(crate) struct LockedDatabase {
    pub(crate) folder: DataFolder,
    pub(crate) writing: Connection,
    pub(crate) reading: Connection,
    pub(crate) locks: Vec<FolderLock>,
    pub(crate) recovery: Recovery,
}

impl LockedDatabase {
    /// A further connection for reading.
    pub(crate) fn open_another(&self) -> Result<Connection, StoreError> {
        open_reading(&self.folder)
    }

    pub(crate) fn health(&self, settings: &StoreSettings) -> DiskHealth {
        DiskHealth::of(self.folder.database(), settings.reserve)
    }
}

/// Opens for a server.
pub(crate) fn open_server(
    path: &Path,
    settings: &StoreSettings,
) -> Result<LockedDatabase, StoreError> {
    let folder = DataFolder::create(path)?;
    let server_lock = lock::lock_server(&folder)?;
    recovery::finish_interrupted(&folder)?;
    creation::create_if_missing(&folder)?;
    let mut recovery = Recovery::default();
    let mut database_lock = lock::share_database(&folder)?;
    let writing = match confirm_damage(&folder, open_checked) {
        Err(StoreError::Damaged { reason, .. }) if settings.on_damage == OnDamage::Recover => {
            tracing::warn!(
                target: "store",
                reason,
                "the database is damaged and is being recovered",
            );
            drop(database_lock);
            let exclusive = lock::own_database(&folder)?;
            recovery =
                recovery::recover(&folder).map_err(|error| with_file_name(&folder, error))?;
            // No connection is open here, so a process between the two locks does no harm.
            drop(exclusive);
            database_lock = lock::share_database(&folder)?;
            confirm_damage(&folder, open_checked)?
        }
        opened => opened?,
    };
    Ok(LockedDatabase {
        reading: open_reading(&folder)?,
        folder,
        writing,
        locks: vec![server_lock, database_lock],
        recovery,
    })
}

/// Opens for a command, while a server may have the database open too.
pub(crate) fn open_secondary(path: &Path) -> Result<LockedDatabase, StoreError> {
    let folder = DataFolder::create(path)?;
    creation::create_if_missing(&folder)?;
    let database_lock = lock::share_database(&folder)?;
    if recovery::was_interrupted(&folder)? {
        return Err(StoreError::RecoveryInterrupted {
            file: folder.database(),
        });
    }
    Ok(LockedDatabase {
        writing: confirm_damage(&folder, |folder| {
            open_writing(folder, EarlierSchema::RefusedBesideServer)
        })?,
        reading: open_reading(&folder)?,
        folder,
        locks: vec![database_lock],
        recovery: Recovery::default(),
    })
}

/// Opens the database, and tries again if damage is reported that may be a read error of the disk.
fn confirm_damage(
    folder: &DataFolder,
    open: impl Fn(&DataFolder) -> Result<Connection, StoreError>,
) -> Result<Connection, StoreError> {
    match open(folder) {
        Err(StoreError::Damaged { .. }) => {
            for file in [folder.database(), folder.wal()] {
                read_through(&file).map_err(|cause| file_error(&file, cause))?;
            }
            open(folder)
        }
        opened => opened,
    }
}

/// Reads every byte; no error if there is no such file.
fn read_through(file: &Path) -> io::Result<()> {
    match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => io::copy(&mut file?, &mut io::sink()).map(drop),
    }
}

/// The treatment of an earlier schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlierSchema {
    /// It is changed to the newest one.
    Changed,
    /// The same, but it is refused while a server runs: the first start of a new version changes
    /// the schema, and until then the earlier version can be installed again.
    RefusedBesideServer,
}

/// Opens for writing, with the newest schema.
fn open_writing(folder: &DataFolder, earlier: EarlierSchema) -> Result<Connection, StoreError> {
    let file = folder.database();
    if !exists(&file)? && exists(&folder.wal())? {
        // SQLite would take this for a new database and delete the log.
        let reason = "its write-ahead log exists, but the database file is missing".to_owned();
        return Err(StoreError::Damaged { file, reason });
    }
    let failed = |error| open_error(folder, error);
    let mut connection = connect(folder, OpenFlags::default())?;
    let version = schema::version(&connection).map_err(failed)?;
    if version > schema::VERSION {
        return Err(StoreError::LaterSchema {
            file,
            found: version,
            known: schema::VERSION,
        });
    }
    let is_refused = earlier == EarlierSchema::RefusedBesideServer;
    if is_refused && version < schema::VERSION && lock::is_served(folder.path()) {
        return Err(StoreError::EarlierServer {
            file,
            found: version,
            known: schema::VERSION,
        });
    }
    schema::prepare(&mut connection).map_err(failed)?;
    Ok(connection)
}

/// As [`open_writing`], and checks every page.
fn open_checked(folder: &DataFolder) -> Result<Connection, StoreError> {
    let connection = open_writing(folder, EarlierSchema::Changed)?;
    let answer: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| open_error(folder, error))?;
    if answer == "ok" {
        return Ok(connection);
    }
    Err(StoreError::Damaged {
        file: folder.database(),
        reason: answer,
    })
}

pub(crate) fn open_reading(folder: &DataFolder) -> Result<Connection, StoreError> {
    let reading = connect(folder, OpenFlags::default())?;
    let configure = || {
        reading.busy_timeout(schema::BUSY_TIME_MAX)?;
        schema::keep_plans(&reading)?;
        reading.pragma_update(None, "query_only", true)?;
        // It may outlive the locks, and must not touch the write-ahead log then.
        reading.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(())
    };
    configure().map_err(|error| open_error(folder, error))?;
    Ok(reading)
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(|cause| file_error(path, cause))
}

/// The same error, with the name of the database.
pub(crate) fn with_file_name(folder: &DataFolder, error: StoreError) -> StoreError {
    match error {
        StoreError::Database(cause) => StoreError::Open {
            file: folder.database(),
            cause,
        },
        named => named,
    }
}
