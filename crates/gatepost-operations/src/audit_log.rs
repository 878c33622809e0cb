//! The audit log: the author, origin and details of each change, as JSON lines in `audit.log` of
//! the data folder.
//!
//! The server and `gatepost user` write to it, each line with one call on a file that is opened for
//! appending, so that lines of both remain intact. A change is not undone if its line cannot be
//! written; the server's own log then reports this.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ownership::leave_to_owner;

/// A longer log is renamed to `audit.log.1`, replacing the previous one.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of bytes that are read for the last changes.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// The log of one data folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// One change.
#[derive(Debug)]
pub struct AuditEntry<'a> {
    /// The user, `anonymous`, or `uid N` of a command on this machine.
    pub actor: &'a str,
    /// The listener and the peer, or the command.
    pub origin: &'a str,
    /// The action: `user add`, `DELETE /admin/quarantine/…`.
    pub action: &'a str,
    /// The arguments, never including a secret.
    pub details: Value,
}

impl AuditLog {
    /// The log in this data folder.
    pub fn of(data: &Path) -> Self {
        Self {
            path: data.join("audit.log"),
        }
    }

    /// Appends a line.
    pub fn record(&self, entry: &AuditEntry<'_>) {
        tracing::info!(
            target: "audit", actor = entry.actor, origin = entry.origin, action = entry.action,
            "changed"
        );
        if let Err(error) = self.append(entry) {
            tracing::error!(target: "audit", %error, "the change could not be recorded in the \
                audit log");
        }
    }

    fn append(&self, entry: &AuditEntry<'_>) -> io::Result<()> {
        let now = OffsetDateTime::now_utc();
        let line = json!({
            "time": now.format(&Rfc3339).unwrap_or_default(),
            "actor": entry.actor,
            "origin": entry.origin,
            "action": entry.action,
            "details": entry.details,
        });
        let mut file = self.open()?;
        if file.metadata()?.len() >= FILE_BYTES_MAX {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            file = self.open()?;
        }
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        // Root may write here in the folder of another user, who could place a link.
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(&self.path)?;
        leave_to_owner(&file, self.path.parent().unwrap_or(&self.path))?;
        Ok(file)
    }

    /// The last changes, newest first.
    pub fn recent(&self, count: usize) -> io::Result<Vec<Value>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut tail)?;
        // The first line may be incomplete, and is not JSON then.
        let lines = tail.rsplit(|&byte| byte == b'\n');
        let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
        Ok(entries.take(count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn entry(action: &str) -> AuditEntry<'_> {
        AuditEntry {
            actor: "root",
            origin: "http 192.0.2.1:1",
            action,
            details: json!({ "name": "a\nb" }),
        }
    }

    #[test]
    fn changes_are_lines_that_only_the_owner_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::of(folder.path());
        assert_eq!(log.recent(10).expect("read"), Vec::<Value>::new());
        for action in ["one", "two", "three"] {
            log.record(&entry(action));
        }
        let recent = log.recent(2).expect("read");
        let actions: Vec<&str> = recent
            .iter()
            .filter_map(|line| line["action"].as_str())
            .collect();
        assert_eq!(actions, ["three", "two"]);
        assert_eq!(recent[0]["details"]["name"], "a\nb");
        let path = folder.path().join("audit.log");
        let text = std::fs::read_to_string(&path).expect("the log");
        assert_eq!(text.lines().count(), 3);
        let mode = std::fs::metadata(&path)
            .expect("the log")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_log_that_root_makes_belongs_to_the_owner_of_the_folder() {
        use std::os::unix::fs::{MetadataExt, chown};
        let folder = tempfile::tempdir().expect("a folder");
        if chown(folder.path(), Some(65_533), Some(65_532)).is_err() {
            // Only root can.
            return;
        }
        AuditLog::of(folder.path()).record(&entry("restore"));
        let log = std::fs::metadata(folder.path().join("audit.log")).expect("the log");
        assert_eq!((log.uid(), log.gid()), (65_533, 65_532));
    }

    #[test]
    fn a_long_log_is_renamed() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::of(folder.path());
        let path = folder.path().join("audit.log");
        let file = File::create(&path).expect("a log");
        file.set_len(FILE_BYTES_MAX).expect("a long one");
        log.record(&entry("next"));
        assert_eq!(log.recent(9).expect("read").len(), 1);
        assert!(folder.path().join("audit.log.1").exists());
    }
}
