//! Opens the database for serving, and reports a recovery.

use std::path::Path;

use gatepost_store::{Store, StoreError, StoreSettings};

pub(super) fn open(folder: &Path, settings: &StoreSettings) -> Result<Store, StoreError> {
    let (store, recovery) = Store::open(folder, settings)?;
    if let Some(damaged) = recovery.damaged_file {
        tracing::warn!(
            target: "store",
            "the database was damaged; {} keeps it. {} rows were recovered; {} rows and {} pages \
             of rows were lost{}",
            damaged.display(),
            recovery.rows_recovered,
            recovery.rows_damaged,
            recovery.pages_damaged,
            if recovery.tables_incomplete.is_empty() {
                String::new()
            } else {
                format!(" of {}", recovery.tables_incomplete.join(", "))
            }
        );
    }
    Ok(store)
}
