//! The files that are kept, in memory, with the quotas of their owners.
//!
//! A file is counted from before its first byte is written until it is removed, so that uploads
//! that arrive at once cannot exceed a quota together.

use std::collections::HashMap;

use gatepost_settings::ByteSize;

use super::error::AttachmentError;
use super::settings::AttachmentSettings;
use super::stored::StoredAttachment;

#[derive(Debug)]
struct AttachmentEntry {
    file: StoredAttachment,
    /// Whether the file and its record are on disk.
    is_kept: bool,
}

/// The files, by id.
#[derive(Debug, Default)]
pub(super) struct AttachmentTable {
    files: HashMap<String, AttachmentEntry>,
    client_bytes: HashMap<String, u64>,
    anonymous_bytes: u64,
    total_bytes: u64,
}

impl AttachmentTable {
    /// Counts a file that is about to be written, if the limits permit it.
    pub(super) fn claim(
        &mut self,
        file: StoredAttachment,
        limits: &AttachmentSettings,
    ) -> Result<(), AttachmentError> {
        let size = file.size;
        if size > limits.file_max.bytes() {
            return Err(AttachmentError::FileTooLarge(limits.file_max));
        }
        let used = self.client_bytes.get(&file.client).copied().unwrap_or(0);
        let exceeds = |used: u64, limit: ByteSize| used.saturating_add(size) > limit.bytes();
        if exceeds(used, limits.client_max) {
            return Err(AttachmentError::ClientQuota(limits.client_max));
        }
        if file.is_anonymous && exceeds(self.anonymous_bytes, limits.anonymous_max) {
            return Err(AttachmentError::Full("attachments.anonymous_max"));
        }
        if exceeds(self.total_bytes, limits.total_max) {
            return Err(AttachmentError::Full("attachments.total_max"));
        }
        if self.files.len() >= limits.files_max {
            return Err(AttachmentError::Full("attachments.files_max"));
        }
        self.insert(file, false);
        Ok(())
    }

    /// Adds a file that earlier runs have kept.
    pub(super) fn insert(&mut self, file: StoredAttachment, is_kept: bool) {
        *self.client_bytes.entry(file.client.clone()).or_default() += file.size;
        if file.is_anonymous {
            self.anonymous_bytes += file.size;
        }
        self.total_bytes += file.size;
        self.files
            .insert(file.id.clone(), AttachmentEntry { file, is_kept });
    }

    /// A file that was claimed is on disk.
    pub(super) fn confirm(&mut self, id: &str) {
        if let Some(entry) = self.files.get_mut(id) {
            entry.is_kept = true;
        }
    }

    pub(super) fn remove(&mut self, id: &str) -> bool {
        let Some(AttachmentEntry { file, .. }) = self.files.remove(id) else {
            return false;
        };
        if let Some(bytes) = self.client_bytes.get_mut(&file.client) {
            *bytes = bytes.saturating_sub(file.size);
            if *bytes == 0 {
                self.client_bytes.remove(&file.client);
            }
        }
        if file.is_anonymous {
            self.anonymous_bytes = self.anonymous_bytes.saturating_sub(file.size);
        }
        self.total_bytes = self.total_bytes.saturating_sub(file.size);
        true
    }

    /// A file that is kept and has not expired.
    pub(super) fn get(&self, id: &str, now_unix_s: u64) -> Option<&StoredAttachment> {
        let entry = self.files.get(id)?;
        (entry.is_kept && entry.file.expires_unix_s > now_unix_s).then_some(&entry.file)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.files.contains_key(id)
    }

    /// The ids of the files that have expired.
    pub(super) fn expired(&self, now_unix_s: u64) -> Vec<String> {
        let entries = self.files.iter();
        let expired =
            entries.filter(|(_, entry)| entry.is_kept && entry.file.expires_unix_s <= now_unix_s);
        expired.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: &str, client: &str, size: u64) -> StoredAttachment {
        StoredAttachment {
            id: id.to_owned(),
            name: "a".to_owned(),
            content_type: "image/png".to_owned(),
            extension: "png".to_owned(),
            size,
            expires_unix_s: 100,
            client: client.to_owned(),
            is_anonymous: client.starts_with("10."),
        }
    }

    #[test]
    fn quotas_hold_before_a_byte_is_written_and_many_addresses_leave_room_for_users() {
        let limits = AttachmentSettings {
            file_max: ByteSize(10),
            client_max: ByteSize(15),
            anonymous_max: ByteSize(25),
            total_max: ByteSize(40),
            files_max: 5,
            ..AttachmentSettings::default()
        };
        let mut table = AttachmentTable::default();
        let mut claim = |id: &str, client: &str, size| table.claim(file(id, client, size), &limits);
        assert_eq!(
            claim("a", "10.0.0.1", 11),
            Err(AttachmentError::FileTooLarge(ByteSize(10)))
        );
        assert_eq!(claim("a", "10.0.0.1", 10), Ok(()));
        assert_eq!(
            claim("b", "10.0.0.1", 6),
            Err(AttachmentError::ClientQuota(ByteSize(15)))
        );
        assert_eq!(claim("b", "10.0.0.2", 10), Ok(()));
        let full = AttachmentError::Full("attachments.anonymous_max");
        assert_eq!(claim("c", "10.0.0.3", 6), Err(full));
        assert_eq!(claim("c", "user anna", 10), Ok(()));
        assert_eq!(claim("d", "user bert", 10), Ok(()));
        let full = AttachmentError::Full("attachments.total_max");
        assert_eq!(claim("e", "user carl", 1), Err(full));
        assert!(table.get("c", 99).is_none(), "not on disk yet");
        table.confirm("c");
        assert!(table.get("c", 99).is_some());
        assert!(table.get("c", 100).is_none());
        assert_eq!(table.expired(100), ["c"]);
        assert!(table.remove("c") && !table.remove("c"));
        assert_eq!((table.count(), table.bytes()), (3, 30));
        for id in ["a", "b", "d"] {
            table.remove(id);
        }
        assert_eq!((table.bytes(), table.anonymous_bytes), (0, 0));
        assert!(table.client_bytes.is_empty());
    }
}
