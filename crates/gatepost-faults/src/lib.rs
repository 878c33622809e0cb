//! A failing disk below SQLite, for tests.
//!
//! [`Disk::at`] puts a layer (a SQLite VFS) between SQLite and the files of one folder. It passes
//! every operation on to the real files, unless a [`Fault`] replaces it: by an error, a partial
//! write, or a sync that fails, does nothing or takes long. It also remembers every write that was
//! not synced, so that [`Disk::cut_power`] can leave the files as a power cut leaves them.
//!
//! ```
//! use gatepost_faults::{Disk, Fault, FaultEffect, FileOperation};
//! # let folder = tempfile::tempdir().unwrap();
//! let disk = Disk::at(folder.path());
//! let database = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
//! disk.inject(Fault::new(FileOperation::Write, FaultEffect::Full));
//! assert!(database.execute_batch("CREATE TABLE a (b)").is_err());
//! ```
//!
//! [`Disk::in_memory`] has no files below it at all: they are in memory, and a crash costs
//! microseconds. Simulations with many schedules use it.
//!
//! Only SQLite's own files are seen: the server's locks and renames are covered by the tests that
//! run the whole program. Folders are independent of each other, so tests may run in parallel.

mod disk;
mod memory_file;
mod open_file;
mod open_memory_file;
mod plan;
mod power;
mod random;
mod state;
mod system_file;
mod vfs;

pub use disk::Disk;
pub use memory_file::DiskImage;
pub use plan::{Fault, FaultEffect, FileKind, FileOperation};
pub use random::FaultRandom;
