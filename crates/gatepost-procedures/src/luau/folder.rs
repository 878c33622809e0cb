//! The folder of procedures: its files, and detection of changes.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const EXTENSION: &str = "luau";
/// Deeper folders are not read, so that a link to a parent causes no endless recursion.
const DEPTH_MAX: usize = 8;
/// A larger file is not a procedure that a person wrote.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The contents of the folder by name and state. Equal values contain the same procedures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProcedureFolder {
    files: BTreeMap<String, (PathBuf, ProcedureStamp)>,
    complaints: BTreeMap<PathBuf, String>,
    /// Folders that could not be listed: their procedures are unknown, and not removed.
    unread: BTreeMap<PathBuf, String>,
}

/// The attributes of a file that reveal a change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcedureStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl ProcedureFolder {
    /// Reads the folder; a missing folder is empty.
    pub(crate) fn read(root: &Path) -> Self {
        let mut folder = Self::default();
        if root.exists() {
            folder.walk(root, "", 0);
        }
        folder
    }

    /// One file as a folder of its own, and the path of its procedure.
    pub(crate) fn of_file(file: &Path) -> (Self, String) {
        let mut folder = Self::default();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = format!("/{stem}");
        if let Ok(metadata) = fs::metadata(file) {
            folder.add(path.clone(), file.to_owned(), &metadata);
        } else {
            // Compiling the file reports its mistakes.
            let stamp = ProcedureStamp {
                modified: None,
                bytes: 0,
                inode: 0,
            };
            folder.files.insert(path.clone(), (file.to_owned(), stamp));
        }
        (folder, path)
    }

    /// Uses this file for the procedure at `path`.
    pub(crate) fn replace(&mut self, path: &str, file: &Path) {
        self.files.remove(path);
        match fs::metadata(file) {
            Ok(metadata) => self.add(path.to_owned(), file.to_owned(), &metadata),
            Err(error) => self.complain(file, error.to_string()),
        }
    }

    /// Path and file of every procedure, sorted by path.
    pub(crate) fn procedures(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files
            .iter()
            .map(|(path, (file, _))| (path.as_str(), file.as_path()))
    }

    /// Files that were skipped, with reasons.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.complaints
            .iter()
            .map(|(file, text)| (file.as_path(), text.as_str()))
    }

    /// Folders that could not be listed, with reasons.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.unread
            .iter()
            .map(|(directory, text)| (directory.as_path(), text.as_str()))
    }

    /// The file that a procedure is in, with its state; another text once the file has changed.
    pub(crate) fn stamp(&self, path: &str) -> String {
        let file = self.files.get(path);
        file.map_or_else(String::new, |file| format!("{file:?}"))
    }

    /// The file of a procedure, to name it in a message.
    pub(crate) fn file_of(&self, path: &str) -> String {
        self.files
            .get(path)
            .map_or_else(|| path.to_owned(), |(file, _)| file.display().to_string())
    }

    fn walk(&mut self, directory: &Path, prefix: &str, depth: usize) {
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let text = format!("the folder cannot be read: {error}");
                self.unread.insert(directory.to_owned(), text);
                return;
            }
        };
        for entry in entries {
            let file = entry.path();
            let Ok(metadata) = fs::metadata(&file) else {
                continue; // removed meanwhile, or a link to nowhere
            };
            let Some(stem) = file.file_stem().and_then(|stem| stem.to_str()) else {
                self.complain(&file, "the name is not UTF-8".to_owned());
                continue;
            };
            if stem.starts_with('.') {
                continue; // temporary files of editors
            }
            let path = format!("{prefix}/{stem}");
            if metadata.is_dir() && depth < DEPTH_MAX {
                self.walk(&file, &path, depth + 1);
            } else if metadata.is_file() && file.extension().is_some_and(|it| it == EXTENSION) {
                self.add(path, file, &metadata);
            }
        }
    }

    fn add(&mut self, path: String, file: PathBuf, metadata: &Metadata) {
        use std::os::unix::fs::MetadataExt;
        if metadata.len() > FILE_BYTES_MAX {
            let text = format!("a procedure has at most {FILE_BYTES_MAX} bytes");
            self.complain(&file, text);
            return;
        }
        let stamp = ProcedureStamp {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            inode: metadata.ino(),
        };
        self.files.insert(path, (file, stamp));
    }

    fn complain(&mut self, file: &Path, text: String) {
        self.complaints.insert(file.to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_paths_and_changes_show() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("mail")).expect("a folder");
        fs::write(root.path().join("mail/greylist.luau"), "return 1").expect("a file");
        fs::write(root.path().join("hello.luau"), "return 1").expect("a file");
        fs::write(root.path().join("notes.txt"), "no procedure").expect("a file");
        let before = ProcedureFolder::read(root.path());
        let paths: Vec<&str> = before.procedures().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/hello", "/mail/greylist"]);
        assert_eq!(before, ProcedureFolder::read(root.path()));
        fs::write(root.path().join("hello.luau"), "return 12").expect("a file");
        assert_ne!(before, ProcedureFolder::read(root.path()));
    }

    #[test]
    fn no_folder_holds_nothing() {
        let folder = ProcedureFolder::read(Path::new("/no/such/folder"));
        assert_eq!(folder, ProcedureFolder::default());
    }
}
