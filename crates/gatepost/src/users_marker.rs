//! Detects that a gateway has lost its users.
//!
//! Without users no login is required, and on loopback every peer is an administrator. A gateway
//! whose database was lost or emptied must therefore not act as a new one. The file `users-exist`
//! in the data folder records that there were users; only the removal of the last one removes it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gatepost_users::Users;

const FILE_NAME: &str = "users-exist";
const TEXT: &[u8] =
    b"This gateway has users. While this file exists, it does not start without them.\n";

/// The reason why the users and the marker do not match.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsersMarkerError {
    #[error(
        "this gateway had users, and its database has none; it does not start, since without users \
         it would admit everybody. Restore a backup of the database, add users again (gatepost \
         user add NAME), or remove {0} to serve without users"
    )]
    UsersLost(PathBuf),
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
}

/// Called at the start of a server that is in no cluster: users or no marker.
pub(crate) fn check(folder: &Path, users: &Users) -> Result<(), UsersMarkerError> {
    let path = folder.join(FILE_NAME);
    if !users.list().is_empty() {
        return set(&path);
    }
    match path.try_exists() {
        Ok(true) => Err(UsersMarkerError::UsersLost(path)),
        Ok(false) => Ok(()),
        Err(cause) => Err(UsersMarkerError::File { path, cause }),
    }
}

/// Called on a server in a cluster, where users come and go by other servers too: the marker agrees
/// with the users, as soon as they are known.
pub(crate) fn update(folder: &Path, users: &Users) -> Result<(), UsersMarkerError> {
    if users.are_known() {
        return removed(folder, users);
    }
    Ok(())
}

/// Called on a server that is in no cluster: there may be users now. The marker of a server without
/// users remains, since they may be lost.
fn note(folder: &Path, users: &Users) -> Result<(), UsersMarkerError> {
    if users.list().is_empty() {
        return Ok(());
    }
    added(folder)
}

/// Updates the marker with each change of users; runs until dropped.
pub(crate) async fn follow(folder: PathBuf, users: Users, is_of_cluster: bool) {
    let mut changes = users.changes();
    let write: fn(&Path, &Users) -> _ = if is_of_cluster { update } else { note };
    loop {
        if let Err(error) = write(&folder, &users) {
            tracing::warn!(target: "users", %error, "the record that there are users is not right");
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Called after a user was added.
pub(crate) fn added(folder: &Path) -> Result<(), UsersMarkerError> {
    set(&folder.join(FILE_NAME))
}

/// Called after a user was removed.
pub(crate) fn removed(folder: &Path, users: &Users) -> Result<(), UsersMarkerError> {
    let path = folder.join(FILE_NAME);
    if !users.list().is_empty() {
        return set(&path);
    }
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(UsersMarkerError::File { path, cause })
        }
        _ => Ok(()),
    }
}

fn set(path: &Path) -> Result<(), UsersMarkerError> {
    let write = || {
        if path.try_exists()? {
            return Ok(());
        }
        // No link is followed: another user may own the folder.
        let mut file = File::create_new(path)?;
        file.write_all(TEXT)?;
        file.sync_all()?;
        // The name is durable with its folder.
        path.parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|cause| UsersMarkerError::File {
        path: path.to_owned(),
        cause,
    })
}
