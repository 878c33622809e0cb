//! The choice of the database that a command changes, and the permission to create one.
//!
//! A command in the wrong folder, or without the config of the server, would create another
//! database and report success, while the server continues without the change.

use std::io::{self, BufRead, IsTerminal, Write};

use gatepost_store::Store;

use crate::config::Config;

/// The file in the data folder.
const FILE: &str = "gatepost.db";

/// The database does not exist, and the operator declined to create one.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no database in {0}: name the config of the server by --config, or its folder by \
         --set data=FOLDER"
)]
pub(crate) struct NoDatabase(String);

/// Reports on standard error which database is changed, if `changes`. If there is none, one is
/// created after a question at the terminal; for a script, after a line that reports it in any
/// case.
pub(super) fn announce(config: &Config, changes: bool) -> Result<(), NoDatabase> {
    let folder = config.data.display();
    let path = config.data.join(FILE);
    if path.exists() {
        if changes {
            let server = if Store::is_served(&config.data) {
                "; the server that runs on it follows within a second"
            } else {
                ""
            };
            eprintln!("database: {}{server}", path.display());
        }
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        eprintln!("database: {}, which is new", path.display());
        return Ok(());
    }
    eprint!("There is no database in {folder}. Make one? [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(NoDatabase(folder.to_string()))
}
