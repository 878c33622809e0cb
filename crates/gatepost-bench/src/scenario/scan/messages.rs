//! The messages: the user's own, or generated ones.

use std::fs;
use std::path::{Path, PathBuf};

use super::ScanArguments;
use crate::error::BenchError;
use crate::scenario::mail;
use crate::sweep::Swept;

/// Messages as files and in memory.
pub(super) struct Messages {
    pub(super) files: Vec<PathBuf>,
    pub(super) contents: Vec<Vec<u8>>,
    /// Removes generated messages.
    _folder: Option<mail::MessageFolder>,
}

impl Messages {
    /// Reads or generates the messages.
    pub(super) fn load(arguments: &ScanArguments) -> Result<Self, BenchError> {
        let mut files = Vec::new();
        for path in &arguments.messages {
            collect(path, &mut files)?;
        }
        let mut folder = None;
        if arguments.messages.is_empty() {
            let made = mail::MessageFolder::with_sizes(&mail::original_sizes())?;
            files = made.files().to_vec();
            folder = Some(made);
        }
        files.truncate(arguments.limit.as_ref().map_or(usize::MAX, Swept::get));
        if files.is_empty() {
            let path = arguments.messages.first().cloned().unwrap_or_default();
            return Err(BenchError::Data {
                path,
                reason: "no messages are there".into(),
            });
        }
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })
        };
        Ok(Self {
            contents: files.iter().map(read).collect::<Result<_, _>>()?,
            files,
            _folder: folder,
        })
    }
}

/// All files below a path, sorted by name.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), BenchError> {
    let failed = |error| BenchError::File {
        path: path.to_owned(),
        error,
    };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().try_for_each(|entry| collect(entry, files))
}
