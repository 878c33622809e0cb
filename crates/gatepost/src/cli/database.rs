//! The choice of the database that a command changes, and the permission to create one.
//!
//! A command in the wrong folder, or without the config of the server, would create another
//! database and report success, while the server continues without the change.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use gatepost_store::Store;

use crate::config::Config;

/// The file in the data folder.
const FILE: &str = "gatepost.db";

/// The reason why no database is changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDatabase {
    /// It does not exist, and the operator declined to create one.
    #[error(
        "there is no database in {0}: name the config of the server by --config, or its folder by \
         --set data=FOLDER"
    )]
    Missing(String),
    /// The folder cannot be entered.
    #[error("{0}: {1}; run the command as the user that the server runs as")]
    Hidden(String, io::Error),
}

/// Checks that there is a database, for a command that only reads it.
pub(super) fn expect(config: &Config) -> Result<(), NoDatabase> {
    if exists(&config.data.join(FILE))? {
        return Ok(());
    }
    Err(NoDatabase::Missing(config.data.display().to_string()))
}

fn exists(path: &Path) -> Result<bool, NoDatabase> {
    let exists = path.try_exists();
    exists.map_err(|error| NoDatabase::Hidden(path.display().to_string(), error))
}

/// Reports on standard error which database is changed, if `changes`. If there is none, one is
/// created after a question at the terminal; for a script, after a line that reports it in any
/// case.
pub(super) fn announce(config: &Config, changes: bool) -> Result<(), NoDatabase> {
    let folder = config.data.display();
    let path = config.data.join(FILE);
    if exists(&path)? {
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
    Err(NoDatabase::Missing(folder.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_reads_makes_no_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config {
            data: folder.path().join("data"),
            ..Config::default()
        };
        assert!(matches!(expect(&config), Err(NoDatabase::Missing(_))));
        assert!(!config.data.exists());
        std::fs::create_dir(&config.data).expect("a folder");
        std::fs::write(config.data.join(FILE), "").expect("written");
        assert!(expect(&config).is_ok());
        let within_file = Config {
            data: config.data.join(FILE),
            ..Config::default()
        };
        assert!(matches!(expect(&within_file), Err(NoDatabase::Hidden(..))));
    }
}
