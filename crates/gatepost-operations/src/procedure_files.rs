//! The folder of procedures as administrators change it.
//!
//! The files are the only source of the procedures; a change is a change of the file, in one step.
//! The text before the last change is kept in the data folder. A path consists of plain names, so
//! that no request reaches a file outside of the folder.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_message::MessageId;
use gatepost_store::ValueLimits;
use ring::digest;
use tokio::sync::Mutex;

use crate::error::OperationError;

const EXTENSION: &str = "luau";
/// The folder of previous versions in the data folder.
const PREVIOUS: &str = "procedures.previous";
/// Names of folders and files in a path.
const PATH_NAMES_MAX: usize = 8;
/// Bytes of one of these names.
const NAME_BYTES_MAX: usize = 100;
/// Bytes of the digest that is the version of a text.
const VERSION_BYTES: usize = 16;

/// The folder of procedures. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProcedureFiles {
    folder: PathBuf,
    previous: PathBuf,
    is_editable: bool,
    /// The limits of the values that a trial copies.
    pub(crate) values: ValueLimits,
    /// Held during a change.
    pub(crate) changing: Arc<Mutex<()>>,
}

impl ProcedureFiles {
    /// The folder of procedures of a server with this data folder.
    pub fn new(folder: &Path, data: &Path, is_editable: bool, values: ValueLimits) -> Self {
        Self {
            folder: folder.to_owned(),
            previous: data.join(PREVIOUS),
            is_editable,
            values,
            changing: Arc::default(),
        }
    }

    /// Whether files may be changed.
    pub const fn is_editable(&self) -> bool {
        self.is_editable
    }

    /// The file of the procedure at `path`.
    pub(crate) fn file(&self, path: &str) -> Result<PathBuf, OperationError> {
        file_in(&self.folder, path)
    }

    /// The file with its text before the last change.
    pub(crate) fn previous(&self, path: &str) -> Result<PathBuf, OperationError> {
        file_in(&self.previous, path)
    }

    /// The text of a procedure; empty if there is no file.
    pub(crate) fn text(&self, path: &str) -> Result<String, OperationError> {
        let file = self.file(path)?;
        match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| failed(&file, &error)),
        }
    }

    /// Replaces a text, whose previous version is `present`. An empty text removes the file.
    pub(crate) fn replace(
        &self,
        path: &str,
        present: &str,
        text: &str,
    ) -> Result<(), OperationError> {
        let file = self.file(path)?;
        write(&self.previous(path)?, present)?;
        if text.is_empty() {
            fs::remove_file(&file).map_err(|error| failed(&file, &error))
        } else {
            write(&file, text)
        }
    }

    /// A file with this text for a trial.
    pub(crate) fn tried(&self, text: &str) -> Result<TriedFile, OperationError> {
        let folder = &self.previous;
        fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        let name = format!(".tried-{}.{EXTENSION}", MessageId::next());
        let tried = TriedFile(folder.join(name));
        fs::write(&tried.0, text).map_err(|error| failed(&tried.0, &error))?;
        Ok(tried)
    }
}

/// A file that is removed with this value.
pub(crate) struct TriedFile(PathBuf);

impl TriedFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TriedFile {
    fn drop(&mut self) {
        // A file that remains is not read by anything.
        let _ = fs::remove_file(&self.0);
    }
}

/// The version of a text.
pub(crate) fn version_of(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let number = digest.as_ref().first_chunk::<VERSION_BYTES>();
    let number = number.map_or(0, |bytes| u128::from_be_bytes(*bytes));
    format!("{number:032x}")
}

/// The file of a path in a folder.
fn file_in(folder: &Path, path: &str) -> Result<PathBuf, OperationError> {
    let names: Vec<&str> = path.strip_prefix('/').unwrap_or("").split('/').collect();
    let is_plain = |name: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain)
    };
    if names.len() > PATH_NAMES_MAX || !names.iter().all(is_plain) {
        return Err(OperationError::NotFound);
    }
    let mut file: PathBuf = folder.to_owned();
    file.extend(names);
    file.set_extension(EXTENSION);
    Ok(file)
}

/// Replaces a file in one step, so that a crash leaves the old or the new one.
fn write(file: &Path, text: &str) -> Result<(), OperationError> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    // The folder of procedures ignores names that begin with a dot.
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.new"));
    let written = || {
        let mut opened = fs::File::create(&new)?;
        if let Ok(present) = fs::metadata(file) {
            opened.set_permissions(present.permissions())?;
        }
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, file)?;
        fs::File::open(folder)?.sync_all()
    };
    written().map_err(|error| failed(file, &error))
}

fn failed(path: &Path, error: &io::Error) -> OperationError {
    OperationError::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leaves_the_folder() {
        let folder = Path::new("/etc/gatepost/procedures");
        let file = file_in(folder, "/mail/greylist").expect("a file");
        assert_eq!(file, folder.join("mail/greylist.luau"));
        for path in [
            "",
            "/",
            "mail",
            "/../x",
            "/a/../x",
            "/a//b",
            "/.x",
            "/a\\b",
            "/a/",
            "/ä",
            "/a b",
            "/a.b",
            "/a\0b",
            "/1/2/3/4/5/6/7/8/9",
        ] {
            assert_eq!(
                file_in(folder, path),
                Err(OperationError::NotFound),
                "{path}"
            );
        }
    }

    #[test]
    fn a_written_file_is_whole_and_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mail/greylist.luau");
        write(&file, "one").expect("written");
        let mode = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(&file, mode(0o640)).expect("a mode");
        write(&file, "two").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "two");
        let present = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(present & 0o777, 0o640);
        let names = fs::read_dir(folder.path().join("mail")).expect("read");
        assert_eq!(names.count(), 1);
    }
}
