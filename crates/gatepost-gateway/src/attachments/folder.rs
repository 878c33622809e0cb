//! The folder of the files: names that are only ids, and writes that survive a crash.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use gatepost_settings::ByteSize;
use gatepost_store::DiskReserve;

/// The folder's name in the data folder.
const NAME: &str = "attachments";
/// The ending of a file that is not complete.
const PARTIAL: &str = "part";
/// Bytes of an id: unguessable, because the link of a file is all that its reader needs.
const ID_BYTES: usize = 16;

/// A new random id, in hexadecimal digits.
pub(super) fn new_id() -> io::Result<String> {
    let mut random = [0; ID_BYTES];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}

/// Whether a name is an id. No other name is ever part of a path.
pub(super) fn is_id(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == ID_BYTES * 2 && name.bytes().all(is_digit)
}

/// The folder.
#[derive(Debug)]
pub(super) struct AttachmentFolder(PathBuf);

impl AttachmentFolder {
    /// The folder in a data folder; made if it is missing, for its owner only.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(NAME);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        Ok(Self(path))
    }

    fn path(&self, id: &str) -> PathBuf {
        debug_assert!(is_id(id));
        self.0.join(id)
    }

    /// Whether a file of this size leaves the reserve of the disk free.
    pub(super) fn has_space(&self, size: u64, reserve: DiskReserve) -> io::Result<bool> {
        let space = rustix::fs::statvfs(&self.0)?;
        let available = space.f_bavail.saturating_mul(space.f_frsize);
        let total = ByteSize(space.f_blocks.saturating_mul(space.f_frsize));
        Ok(available.saturating_sub(size) >= reserve.of(total).bytes())
    }

    /// Writes a file; returns when content and name are on disk.
    pub(super) fn write(&self, id: &str, content: &[u8]) -> io::Result<()> {
        let partial = self.path(id).with_extension(PARTIAL);
        let written = write_partial(&partial, content);
        let named = written.and_then(|()| fs::rename(&partial, self.path(id)));
        if named.is_err() {
            let _ = fs::remove_file(&partial);
        }
        named?;
        File::open(&self.0)?.sync_all()
    }

    pub(super) fn open_file(&self, id: &str) -> io::Result<File> {
        File::open(self.path(id))
    }

    /// Removes a file; no error if there is none.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The size of a file; `None` if there is none.
    pub(super) fn size(&self, id: &str) -> Option<u64> {
        let metadata = fs::symlink_metadata(self.path(id)).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    /// Removes files that no record names: writes that a crash interrupted. Files with other names
    /// do not belong to this server and remain. Returns the number of removed files.
    pub(super) fn remove_orphans(&self, is_known: impl Fn(&str) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let (id, is_partial) = match name.strip_suffix(".part") {
                Some(id) => (id, true),
                None => (name, false),
            };
            if is_id(id) && (is_partial || !is_known(id)) {
                fs::remove_file(self.0.join(name))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn write_partial(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_names_and_orphans_are_removed() {
        for name in [
            "",
            "..",
            "../../etc/passwd",
            "A",
            &"A".repeat(32),
            &"g".repeat(32),
        ] {
            assert!(!is_id(name), "{name}");
        }
        let data = tempfile::tempdir().expect("a folder");
        let folder = AttachmentFolder::open(data.path()).expect("opened");
        let (kept, orphan, partial) = (new_id(), new_id(), new_id());
        let [kept, orphan, partial] = [kept, orphan, partial].map(|id| id.expect("an id"));
        assert!(is_id(&kept) && kept != orphan);
        for id in [&kept, &orphan] {
            folder.write(id, b"content").expect("written");
        }
        assert_eq!(folder.size(&kept), Some(7));
        let path = data.path().join("attachments");
        fs::write(path.join(format!("{partial}.part")), b"con").expect("written");
        fs::write(path.join("README"), b"mine").expect("written");
        let removed = folder.remove_orphans(|id| id == kept);
        assert_eq!(removed.expect("removed"), 2);
        assert_eq!(fs::read_dir(path).expect("listed").count(), 2);
        assert_eq!(folder.size(&orphan), None);
        let reserve = DiskReserve::Size(ByteSize(0));
        assert!(folder.has_space(1, reserve).expect("space"));
        let reserve = DiskReserve::Size(ByteSize(u64::MAX));
        assert!(!folder.has_space(1, reserve).expect("space"));
    }
}
