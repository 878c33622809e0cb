//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository exists")
}

/// The text of a file, given relative to the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a folder with this extension, as paths relative to the root, sorted.
pub(crate) fn below(folder: &str, extension: &str) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && name != "node_modules" && name != ".git" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|one| one == extension) {
                let relative = path.strip_prefix(&root).expect("below the root");
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// The names of the crates in `crates/`, sorted.
pub(crate) fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).expect("the crates");
    let mut names: Vec<String> = folders
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The lines of a list in `tests/repository/ratchet`, without comments and empty lines.
pub(crate) fn exceptions(list: &str) -> Vec<String> {
    read(&format!("tests/repository/ratchet/{list}"))
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
