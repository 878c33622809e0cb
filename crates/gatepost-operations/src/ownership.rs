//! The owner of files in the data folder.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::process::geteuid;

/// Gives a file that a command of root has made to the user of the folder, so that the server can
/// open it. A file with another name may belong to another program.
pub(crate) fn leave_to_owner(file: &File, folder: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (found, owner) = (file.metadata()?, folder.metadata()?);
    if found.uid() == owner.uid() || found.nlink() != 1 {
        return Ok(());
    }
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}
