//! The data folder: its files, and the safe handling of their names.
//!
//! | file | purpose |
//! | --- | --- |
//! | `gatepost.db` | the database, with its `-wal` and `-shm` |
//! | `gatepost.journal-index` | the index of the journal, with its `-wal` and `-shm` |
//! | `gatepost.lock` | locked by the server for its whole life ([`lock`](crate::lock)) |
//! | `gatepost.db.lock` | locked by every process that has the database open |
//! | `gatepost.db.creating` | an unfinished new database; useless if its process has ended |
//! | `gatepost.db.recovering` | an unfinished recovery; useless if its process has ended |
//! | `gatepost.db.recovered` | a complete recovery or restore, before its last step |
//! | `gatepost.db.damaged-N` | a damaged database, kept for the operator; never overwritten |
//! | `gatepost.db.replaced-N` | the database before a restore; never overwritten |

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::StoreError;

const DATABASE: &str = "gatepost.db";
const JOURNAL_INDEX: &str = "gatepost.journal-index";
const WAL: &str = "-wal";
const SHARED_MEMORY: &str = "-shm";
/// A command of root follows no symbolic link to a file that it opens or whose owner it changes:
/// the folder may belong to the server's user.
pub(crate) const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;
/// A folder with more kept databases than this needs an operator, not another copy.
const KEPT_FILES_MAX: u32 = 10_000;

/// The paths of one data folder.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder {
    path: PathBuf,
}

impl DataFolder {
    /// Creates the folder if it is missing, for its owner only, since it holds mail and password
    /// hashes.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = fs::DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(path);
        created.map_err(|cause| file_error(path, cause))?;
        Ok(Self::at(path))
    }

    /// The folder, whether it exists or not.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process is root's and the folder another user's, who may place links in it.
    pub(crate) fn is_foreign_to_root(&self) -> Result<bool, StoreError> {
        if !geteuid().is_root() {
            return Ok(false);
        }
        let found = fs::metadata(&self.path).map_err(|cause| file_error(&self.path, cause))?;
        Ok(found.uid() != geteuid().as_raw())
    }

    pub(crate) fn server_lock(&self) -> PathBuf {
        self.path.join("gatepost.lock")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn database_lock(&self) -> PathBuf {
        self.with_suffix(".lock")
    }

    pub(crate) fn creating(&self) -> PathBuf {
        self.with_suffix(".creating")
    }

    pub(crate) fn recovering(&self) -> PathBuf {
        self.with_suffix(".recovering")
    }

    pub(crate) fn recovered(&self) -> PathBuf {
        self.with_suffix(".recovered")
    }

    pub(crate) fn journal_index(&self) -> PathBuf {
        self.path.join(JOURNAL_INDEX)
    }

    /// All files of the index, those that must be removed first before the others.
    pub(crate) fn journal_index_files(&self) -> [PathBuf; 3] {
        [WAL, SHARED_MEMORY, ""].map(|suffix| self.path.join(format!("{JOURNAL_INDEX}{suffix}")))
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.with_suffix(WAL)
    }

    pub(crate) fn shared_memory(&self) -> PathBuf {
        self.with_suffix(SHARED_MEMORY)
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        self.path.join(format!("{DATABASE}{suffix}"))
    }

    /// Gives the database and its write-ahead log a second name that was free,
    /// `gatepost.db.REASON-N`, and returns it. Both names refer to the same bytes until the
    /// database's own name is taken by another.
    pub(crate) fn keep_as(&self, reason: &str) -> Result<PathBuf, StoreError> {
        for number in 1..=KEPT_FILES_MAX {
            let target = self.with_suffix(&format!(".{reason}-{number}"));
            match name_second_time(&self.database(), &target) {
                Ok(()) => {
                    let mut wal = OsString::from(&target);
                    wal.push(WAL);
                    let linked = match link_or_copy(&self.wal(), Path::new(&wal)) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                        linked => linked,
                    };
                    linked.map_err(|cause| file_error(&self.wal(), cause))?;
                    self.sync()?;
                    return Ok(target);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(file_error(&target, cause)),
            }
        }
        let cause = io::Error::other("too many earlier databases are kept here");
        Err(file_error(&self.path, cause))
    }

    /// Makes created, renamed and removed names durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|cause| file_error(&self.path, cause))
    }
}

/// A second name for the database. If only its write-ahead log is left, an empty file gets the
/// name.
fn name_second_time(database: &Path, target: &Path) -> io::Result<()> {
    match link_or_copy(database, target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => File::create_new(target).map(drop),
        named => named,
    }
}

/// A second name for a file. File systems without hard links get a copy.
fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(source, target) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
            ) =>
        {
            let mut from = File::open(source)?;
            let mut to = File::create_new(target)?;
            io::copy(&mut from, &mut to)?;
            to.sync_all()
        }
        linked => linked,
    }
}

/// Gives a file that a command of root has made to the owner of the folder, so that the server can
/// open it. A file with another name may belong to another program.
pub(crate) fn leave_to_owner(file: &File, folder: &DataFolder) -> Result<(), StoreError> {
    if !folder.is_foreign_to_root()? {
        return Ok(());
    }
    let path = folder.path();
    let given = || {
        let (found, owner) = (file.metadata()?, fs::metadata(path)?);
        if found.uid() == owner.uid() || found.nlink() != 1 {
            return Ok(());
        }
        std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()))
    };
    given().map_err(|cause| file_error(path, cause))
}

/// Removes a file; no error if there is none.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|cause| file_error(path, cause)),
    }
}

pub(crate) fn file_error(path: &Path, cause: io::Error) -> StoreError {
    StoreError::File {
        path: path.to_owned(),
        cause: Arc::new(cause),
    }
}
