//! The parts of an opened database, before its threads are started.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::bounds::TableBounds;
use crate::clock::ClockSource;
use crate::folder::DataFolder;
use crate::journal_index::JournalIndex;
use crate::lock::FolderLock;
use crate::settings::SharedSettings;
use crate::stored_clock::{SharedAgeTime, StoredClock};
use crate::trim::Trimmer;
use crate::watch::DiskHealth;
use crate::writer::ServerDuties;
use crate::{StoreError, StoreSettings};

/// An opened database, ready for its threads.
pub(crate) struct OpenDatabase {
    pub(crate) writing: Arc<Mutex<Connection>>,
    pub(crate) reading: Arc<Mutex<Connection>>,
    pub(crate) locks: Vec<FolderLock>,
    pub(crate) age_time: Option<SharedAgeTime>,
    pub(crate) settings: Option<SharedSettings>,
    pub(crate) server: Option<ServerDuties>,
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) journal_index: Arc<JournalIndex>,
    /// `None` for a database in memory.
    pub(crate) folder: Option<DataFolder>,
}

impl OpenDatabase {
    /// A database whose rows do not age, and that only this process uses.
    pub(crate) fn without_server(connection: Arc<Mutex<Connection>>) -> Self {
        Self {
            writing: connection.clone(),
            reading: connection,
            locks: Vec::new(),
            age_time: None,
            settings: None,
            server: None,
            health: Arc::default(),
            journal_index: Arc::default(),
            folder: None,
        }
    }

    /// Opens the store of a server whose database is simulated.
    pub(crate) fn of_simulated_server(
        connection: Arc<Mutex<Connection>>,
        settings: &StoreSettings,
        clock: Arc<dyn ClockSource>,
    ) -> Result<Self, StoreError> {
        let jump_max = settings.clock_jump_max.duration();
        let health = Arc::<DiskHealth>::default();
        let opened = connection.lock();
        let shared = SharedSettings::new(Mutex::new(settings.clone()));
        let mut server = ServerDuties {
            clock: StoredClock::open(&opened, clock, jump_max)?,
            trimmer: Trimmer::new(shared.clone()),
            bounds: TableBounds::open(&opened, settings)?,
        };
        server.time_for_ages(&opened, &health)?;
        drop(opened);
        Ok(Self {
            writing: connection.clone(),
            reading: connection,
            locks: Vec::new(),
            age_time: Some(server.clock.age_time()),
            settings: Some(shared),
            server: Some(server),
            health,
            journal_index: Arc::default(),
            folder: None,
        })
    }
}
