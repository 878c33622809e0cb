//! Rotation of the log file by size and age.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::settings::AccessLogSettings;

/// A log shows who reads what, so only the owner and the group may read it.
const LOG_FILE_MODE: u32 = 0o640;

/// The current file.
pub(super) struct OpenLogFile {
    pub(super) file: File,
    pub(super) size: u64,
    /// The creation time of the file, whichever process created it.
    pub(super) began: SystemTime,
}

pub(super) struct Rotation {
    pub(super) path: PathBuf,
    pub(super) size_max: u64,
    /// Zero for no limit.
    age_max: Duration,
    keep: usize,
}

impl Rotation {
    pub(super) fn new(settings: &AccessLogSettings) -> Self {
        Self {
            path: settings.path.clone(),
            size_max: settings.max_size.bytes().max(1),
            age_max: settings.max_age.duration(),
            keep: settings.keep,
        }
    }

    /// Whether the file is not empty, and is old or too full for a further line of this length.
    pub(super) fn is_due(&self, open: &OpenLogFile, line_bytes: u64) -> bool {
        let is_old =
            || !self.age_max.is_zero() && open.began.elapsed().is_ok_and(|age| age >= self.age_max);
        let is_full = || open.size.saturating_add(line_bytes) > self.size_max;
        open.size > 0 && (is_full() || is_old())
    }

    pub(super) fn open(&self) -> io::Result<OpenLogFile> {
        let file = OpenOptions::new()
            .create(true)
            .mode(LOG_FILE_MODE)
            .append(true)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        Ok(OpenLogFile {
            size: metadata.len(),
            // If the file system records no creation time, the age counts from opening the file.
            began: metadata.created().unwrap_or_else(|_| SystemTime::now()),
            file,
        })
    }

    /// `log` becomes `log.1`, `log.1` becomes `log.2`, and so on; the oldest is removed.
    pub(super) fn rotate(&self) -> io::Result<()> {
        if self.keep == 0 {
            return std::fs::remove_file(&self.path);
        }
        let numbered = |number: usize| -> PathBuf {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.keep).rev() {
            rename_if_there(&numbered(number), &numbered(number + 1))?;
        }
        rename_if_there(&self.path, &numbered(1))
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
