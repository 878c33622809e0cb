//! A database whose commits wait or fail at the test's request: through a second connection to it,
//! which holds the lock for writing, or adds triggers that refuse.

use std::path::Path;
use std::time::Duration;

use gatepost_settings::ByteSize;
use gatepost_store::{DiskReserve, Store, StoreSettings};
use rusqlite::Connection;

/// The folder of a database, and the means to disturb it.
pub(crate) struct Disk {
    folder: tempfile::TempDir,
    connection: Connection,
}

/// Tables of the broker.
const TABLES: [&str; 6] = [
    "session",
    "subscription",
    "message",
    "delivery",
    "received",
    "retained",
];

impl Disk {
    /// A new database, and the store that a server is given.
    pub(crate) fn new() -> (Self, Store) {
        Self::with(settings())
    }

    /// The same with these settings.
    pub(crate) fn with(settings: StoreSettings) -> (Self, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = Store::open(folder.path(), &settings).expect("a store");
        let connection = Connection::open(folder.path().join("gatepost.db")).expect("readable");
        let patience = Duration::from_mins(1);
        connection.busy_timeout(patience).expect("a timeout");
        (Self { folder, connection }, store)
    }

    /// The store that a server finds when it starts after a crash at this moment.
    pub(crate) fn after_a_crash(&self) -> (tempfile::TempDir, Store) {
        let copy = tempfile::tempdir().expect("a folder");
        for name in ["gatepost.db", "gatepost.db-wal"] {
            let from = self.folder.path().join(name);
            if from.exists() {
                std::fs::copy(from, copy.path().join(name)).expect("copied");
            }
        }
        let store = open(copy.path());
        (copy, store)
    }

    fn run(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("executed");
    }

    /// Commits wait until [`Disk::release`] or [`Disk::release_failing`].
    pub(crate) fn hold(&self) {
        self.run("BEGIN IMMEDIATE");
    }

    pub(crate) fn release(&self) {
        self.run("ROLLBACK");
    }

    /// Waiting commits fail, and so do later ones.
    pub(crate) fn release_failing(&self) {
        self.fail();
        self.run("COMMIT");
    }

    /// Fails every change of a row of the broker's tables.
    pub(crate) fn fail(&self) {
        for table in TABLES {
            for action in ["INSERT", "UPDATE", "DELETE"] {
                self.run(&format!(
                    "CREATE TRIGGER fault_{table}_{action} BEFORE {action} ON {table}
                     BEGIN SELECT RAISE(ABORT, 'a fault of the test'); END"
                ));
            }
        }
    }

    /// A waiting commit fails if it stores this payload.
    pub(crate) fn release_failing_payload(&self, payload: &str) {
        self.run(&format!(
            "CREATE TRIGGER fault_message_INSERT BEFORE INSERT ON message
             WHEN CAST(NEW.payload AS TEXT) = '{payload}'
             BEGIN SELECT RAISE(ABORT, 'a fault of the test'); END; COMMIT"
        ));
    }

    /// Everything works again.
    pub(crate) fn heal(&self) {
        for table in TABLES {
            for action in ["INSERT", "UPDATE", "DELETE"] {
                self.run(&format!("DROP TRIGGER IF EXISTS fault_{table}_{action}"));
            }
        }
    }
}

/// The faults are those of the test, however full this machine's disk is.
pub(crate) fn settings() -> StoreSettings {
    StoreSettings {
        reserve: DiskReserve::Size(ByteSize(0)),
        ..StoreSettings::default()
    }
}

fn open(folder: &Path) -> Store {
    let (store, _) = Store::open(folder, &settings()).expect("a store");
    store
}
