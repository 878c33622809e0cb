//! From root to a user without privileges.
//!
//! A server that listens on port 25 or reads a key that only root may read is started as root. Once
//! the sockets are open and the keys are read, it becomes `user` for good: its user, its group and
//! its supplementary groups. This happens while the process has a single thread, so that every
//! later thread inherits it.

use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use rustix::process::geteuid;

use super::error::StartError;
use crate::config::{Config, Layers};
use crate::system_user::SystemUser;

const ROOT: u32 = 0;
/// Folders below the data folder that are given to the user; it has one level itself.
const DEPTH_MAX: usize = 8;

/// Becomes the configured user if the server runs as root.
pub(super) fn drop_privileges(config: &Config, layers: &Layers) -> Result<(), StartError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    if config.user.is_empty() {
        tracing::warn!("the server remains root: `user` is empty");
        return Ok(());
    }
    let failed = |cause: io::Error| StartError::Privileges {
        user: config.user.clone(),
        cause,
    };
    let Some(user) = SystemUser::find(&config.user).map_err(failed)? else {
        if layers.is_written("user") {
            return Err(StartError::NoSuchUser(config.user.clone()));
        }
        tracing::warn!(
            "the server remains root: there is no user '{}'; add it, or name another one by `user`",
            config.user
        );
        return Ok(());
    };
    change_data_owner(&config.data, &user).map_err(failed)?;
    user.take_over().map_err(failed)?;
    tracing::info!("runs as the user '{}'", config.user);
    Ok(())
}

/// Makes the data folder, or gives one that belongs to root to the user.
fn change_data_owner(folder: &Path, user: &SystemUser) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if !folder.exists() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    give(folder, user, 0)
}

/// Gives a file, or a folder with its contents, to the user. A file or folder that does not belong
/// to root is left unchanged, with everything below it: where another user may write, there could
/// be a hard link to a file of root.
fn give(path: &Path, user: &SystemUser, depth: usize) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.uid() != ROOT || depth > DEPTH_MAX {
        return Ok(());
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user, depth + 1)?;
        }
    }
    lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
}
