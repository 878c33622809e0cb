//! The settings of pages, static files and the access log.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::mounted::MountedFolder;
use crate::readers::{Readers, SitePath};

/// `[pages]`: the folders of pages and static files, and the limits of a page.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct PagesSettings {
    /// The folder of pages and static files. It need not exist.
    pub path: PathBuf,
    /// Other folders for other hosts: `"www.example.org" = "sites/www"`; `"*.example.org"` is for
    /// all names below it.
    pub hosts: BTreeMap<String, PathBuf>,
    /// Folders under a path, of every host: `"/manual" = "/usr/share/doc/x"`. Their `.html` files
    /// are served unchanged; `{ path = "app", templates = true }` makes them pages.
    pub mounts: BTreeMap<String, MountedFolder>,
    /// The visitors who may read a path and everything below it: `"/office" = "login"` for all
    /// users, `["anna"]` for these, `"rules"` for those with the right to subscribe to
    /// `$pages/office`, `"everyone"` for an exception. All other paths are public.
    pub access: BTreeMap<SitePath, Readers>,
    /// Whether a folder without an index shows a listing; `/` of `pages.path` shows the dashboard.
    pub listings: bool,
    /// Whether text is compressed for clients that accept it.
    pub compress: bool,
    /// Smaller texts are not compressed.
    pub compress_min: ByteSize,
    /// The time within which a form must be sent.
    pub forms_valid: Period,
    /// The interval at which a file is compared with the disk: a period, `"always"` or `"manual"`
    /// (only on reload).
    pub recheck: Recheck,
    /// The number of threads that run page code; 0 is one per core.
    pub workers: usize,
    /// The number of pages after which a worker is replaced by a new one; 0 for any number.
    pub requests_max: u64,
    /// A page that runs longer no longer counts as one of the workers.
    pub patience: Period,
    /// The number of such pages that may run at once; a single page may have at most a quarter of
    /// them.
    pub stragglers_max: usize,
    /// The number of pages that may wait for a worker; further ones are answered with 503.
    pub queue: usize,
    /// The number of steps of template code after which a page is stopped.
    pub steps_max: u64,
    /// The time limit of a page, with all its procedures.
    pub time_max: Period,
    /// The maximum size of a rendered page.
    pub output_max: ByteSize,
    /// The memory limit of a template's values, in addition to its output.
    pub memory_max: ByteSize,
    /// The memory for file content, all files together.
    pub cache_max: ByteSize,
    /// Larger files are read from disk for each request.
    pub cached_file_max: ByteSize,
    /// Static parts of pages and files of at least this length are also kept in a file in memory,
    /// from which the kernel sends them without a copy; for shorter ones that is not faster.
    pub sendfile_min: ByteSize,
    /// The number of pages and files that may be kept in this way; each uses a descriptor. 0 for
    /// none.
    pub sendfile_max: usize,
    /// Whether a symbolic link may lead out of the folder.
    pub follow_symlinks: bool,
}

impl Default for PagesSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("pages"),
            hosts: BTreeMap::new(),
            mounts: BTreeMap::new(),
            access: BTreeMap::new(),
            listings: false,
            compress: true,
            compress_min: ByteSize::kibibytes(1),
            forms_valid: Period::seconds(12 * 60 * 60),
            recheck: Recheck::After(Period::seconds(30)),
            workers: 0,
            requests_max: 1000,
            patience: Period::milliseconds(50),
            stragglers_max: 32,
            queue: 16_384,
            steps_max: 10_000_000,
            time_max: Period::seconds(5),
            output_max: ByteSize::mebibytes(16),
            memory_max: ByteSize::mebibytes(16),
            cache_max: ByteSize::mebibytes(64),
            cached_file_max: ByteSize::mebibytes(1),
            sendfile_min: ByteSize::kibibytes(32),
            sendfile_max: 256,
            follow_symlinks: false,
        }
    }
}

/// The time at which a cached file is compared with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recheck {
    /// At the first request after this much time.
    After(Period),
    /// At every request.
    Always,
    /// Never; a reload empties the cache.
    Manual,
}

impl fmt::Display for Recheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(period) => period.fmt(formatter),
            Self::Always => formatter.write_str("always"),
            Self::Manual => formatter.write_str("manual"),
        }
    }
}

impl FromStr for Recheck {
    type Err = gatepost_settings::MalformedPeriod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "always" => Ok(Self::Always),
            "manual" => Ok(Self::Manual),
            period => period.parse().map(Self::After),
        }
    }
}

impl Serialize for Recheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Recheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(|error| serde::de::Error::custom(format!("{error}, \"always\" or \"manual\"")))
    }
}

/// `[access_log]`: one line for each HTTP request.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct AccessLogSettings {
    /// The file; rotated ones have `.1`, `.2`, … appended to their name.
    pub path: PathBuf,
    /// The format of a line; `"off"` disables the log.
    pub format: AccessLogFormat,
    /// The size at which the file is rotated.
    pub max_size: ByteSize,
    /// The age at which it is rotated, from its creation; `"0s"` for no limit.
    pub max_age: Period,
    /// The number of rotated files that are kept.
    pub keep: usize,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("access.log"),
            format: AccessLogFormat::Combined,
            max_size: ByteSize::megabytes(100),
            max_age: Period::seconds(0),
            keep: 7,
        }
    }
}

/// The format of an access log line.
#[derive(Deserialize, Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogFormat {
    /// The combined format that log analysers read.
    Combined,
    /// One JSON object per line, with host, duration and message id.
    Json,
    /// No access log.
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recheck_reads_as_written() {
        for text in ["30s", "always", "manual", "5m"] {
            let recheck: Recheck = text.parse().expect(text);
            assert_eq!(recheck.to_string(), text);
        }
        assert!("sometimes".parse::<Recheck>().is_err());
    }
}
