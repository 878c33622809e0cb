//! Opens the database for serving, and reports a recovery.

use gatepost_message::MessageId;
use gatepost_store::{Store, StoreError};

use crate::config::Config;

pub(super) fn open(config: &Config) -> Result<Store, StoreError> {
    if let Some(node) = config.node() {
        MessageId::set_node(node);
    }
    let (store, recovery) = Store::open(&config.data, &config.store)?;
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
