//! What can go wrong with the database.

use std::path::PathBuf;
use std::sync::Arc;

/// Why a change was not stored, or could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The folder or file cannot be made or opened. Nothing of ours can mend that.
    #[error("the data folder {path} cannot be used: {cause}")]
    Folder {
        /// The folder as configured.
        path: PathBuf,
        /// The system's own words.
        cause: Arc<std::io::Error>,
    },
    /// SQLite refused: disk full, I/O error, damage.
    #[error("the database failed: {0}")]
    Database(Arc<rusqlite::Error>),
    /// More is waiting to be written than [`StoreSettings`](crate::StoreSettings) allows. The
    /// caller answers with its protocol's "try again later".
    #[error("the database cannot keep up: {waiting_bytes} bytes are waiting to be written")]
    Overloaded {
        /// The bytes that wait.
        waiting_bytes: usize,
    },
    /// The store was closed before the change was written.
    #[error("the database is closed")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}
