//! Files that accompany messages, as in ntfy: kept in a folder beside the database until they
//! expire, and served to every reader who knows their link.
//!
//! Invariants: a message with a link is published only after the file, its name and its record are
//! on disk. A file without a record and a record without a file are removed at the next start. The
//! quotas hold before the first byte is written. Nothing that a client sends is part of a path.

mod error;
mod folder;
mod kind;
mod settings;
mod stored;
mod table;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_store::{Store, StoreChange};
use parking_lot::Mutex;
use tokio::sync::watch;

pub use error::AttachmentError;
use folder::AttachmentFolder;
use kind::RecognisedType;
pub use settings::AttachmentSettings;
use stored::StoredAttachment;
use table::AttachmentTable;

/// The interval at which expired files are removed. They are not served after their expiry.
const SWEPT_EVERY: Duration = Duration::from_secs(10);
/// The longest name; a longer one is cut.
const NAME_BYTES_MAX: usize = 200;

/// A file as a client sends it.
#[derive(Debug, Clone)]
pub struct NewAttachment {
    /// Its name; empty names it by its type.
    pub name: String,
    /// Its content.
    pub content: Bytes,
    /// The user or network that sends it.
    pub client: String,
    /// Whether the client has not logged in.
    pub is_anonymous: bool,
}

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// The unguessable id.
    pub id: String,
    /// Its name for readers.
    pub name: String,
    /// The type that it is served as.
    pub content_type: String,
    /// The path of its link on this server.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// The Unix time in seconds at which it is removed.
    pub expires_unix_s: u64,
}

/// Counts of files, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachmentFigures {
    /// The number of files that are kept.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The number of files that were kept since the start.
    pub kept: u64,
    /// The number of files that a limit or the disk refused since the start.
    pub refused: u64,
}

struct AttachmentsCore {
    settings: AttachmentSettings,
    store: Store,
    folder: AttachmentFolder,
    table: Mutex<AttachmentTable>,
    kept: AtomicU64,
    refused: AtomicU64,
}

impl AttachmentsCore {
    /// The time by which files expire, in Unix seconds: that of the store, which does not follow a
    /// clock that jumps far ahead.
    fn age_unix_s(&self) -> u64 {
        unix_s(self.store.time_for_ages())
    }
}

/// The files of a server. Cheap to clone.
#[derive(Clone)]
pub struct Attachments(Arc<AttachmentsCore>);

impl Attachments {
    /// Opens the folder in `data`, and removes the files that a crash left there.
    pub fn open(data: &Path, store: Store, settings: &AttachmentSettings) -> io::Result<Self> {
        let folder = AttachmentFolder::open(data)?;
        let mut table = AttachmentTable::default();
        for file in stored::all(&store).map_err(io::Error::other)? {
            if folder::is_id(&file.id) && folder.size(&file.id) == Some(file.size) {
                table.insert(file, true);
            } else {
                // The file of a restored database, or one that was removed by hand.
                let removal = stored::removal(&file.id);
                store.submit_deferred([removal]).map_err(io::Error::other)?;
            }
        }
        let removed = folder.remove_orphans(|id| table.contains(id))?;
        if removed > 0 {
            tracing::info!(target: "gateway", removed, "unfinished attachments were removed");
        }
        Ok(Self(Arc::new(AttachmentsCore {
            settings: settings.clone(),
            store,
            folder,
            table: Mutex::new(table),
            kept: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })))
    }

    /// The limits.
    pub fn settings(&self) -> &AttachmentSettings {
        &self.0.settings
    }

    /// Whether files are kept at all.
    pub fn is_on(&self) -> bool {
        self.0.settings.file_max.bytes() > 0
    }

    /// The link of a file for readers, on the server at `origin` unless the settings name another.
    pub fn link(&self, attachment: &KeptFile, origin: &str) -> String {
        let base = self.0.settings.base_url.trim_end_matches('/');
        let base = if base.is_empty() { origin } else { base };
        format!("{base}{}", attachment.path)
    }

    /// Whether the content is a picture that readers can show.
    pub fn is_image(content: &[u8]) -> bool {
        RecognisedType::of(content, "").is_image()
    }

    /// The Unix time at which a file that is sent now expires.
    pub fn expiry_unix_s(&self) -> u64 {
        // A slow clock, as after a start in 1970, makes no file older than it is.
        let now = unix_s(self.0.store.time_to_store());
        now + self.0.settings.expiry.duration().as_secs()
    }

    /// Keeps a file; returns when it is on disk. If the caller ends earlier, the file remains, and
    /// expires like any other.
    pub async fn keep(&self, new: NewAttachment) -> Result<KeptFile, AttachmentError> {
        let this = self.clone();
        let kept = tokio::spawn(async move { this.keep_whole(new).await }).await;
        let kept = kept.unwrap_or_else(|error| Err(AttachmentError::NotStored(error.to_string())));
        let counter = match &kept {
            Ok(_) => &self.0.kept,
            Err(_) => &self.0.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        kept
    }

    async fn keep_whole(&self, new: NewAttachment) -> Result<KeptFile, AttachmentError> {
        let core = &self.0;
        let kind = RecognisedType::of(&new.content, &new.name);
        let file = StoredAttachment {
            id: folder::new_id()?,
            name: display_name(&new.name, kind),
            content_type: kind.content_type.to_owned(),
            extension: kind.extension.to_owned(),
            size: new.content.len() as u64,
            expires_unix_s: self.expiry_unix_s(),
            client: new.client,
            is_anonymous: new.is_anonymous,
        };
        core.store.readiness()?;
        core.table.lock().claim(file.clone(), &core.settings)?;
        match self.write(&file, new.content).await {
            Ok(()) => {
                core.table.lock().confirm(&file.id);
                Ok(attachment(&file))
            }
            Err(error) => {
                self.remove(&file.id).await;
                Err(error)
            }
        }
    }

    async fn write(&self, file: &StoredAttachment, content: Bytes) -> Result<(), AttachmentError> {
        let core = Arc::clone(&self.0);
        let id = file.id.clone();
        let written = tokio::task::spawn_blocking(move || {
            let reserve = core.store.settings().map(|settings| settings.reserve);
            if let Some(reserve) = reserve
                && !core.folder.has_space(content.len() as u64, reserve)?
            {
                return Err(AttachmentError::DiskFull);
            }
            Ok(core.folder.write(&id, &content)?)
        });
        written.await.map_err(io::Error::other)??;
        let ticket = self.0.store.submit([stored::addition(file)])?;
        Ok(ticket.committed().await?)
    }

    /// A file that has not expired.
    pub fn find(&self, id: &str) -> Option<KeptFile> {
        let table = self.0.table.lock();
        table.get(id, self.0.age_unix_s()).map(attachment)
    }

    /// Opens a file for reading. Blocks.
    pub fn open_file(&self, attachment: &KeptFile) -> io::Result<File> {
        self.0.folder.open_file(&attachment.id)
    }

    /// Removes a file: its message was not delivered, or it has expired.
    pub async fn remove(&self, id: &str) {
        self.remove_all(vec![id.to_owned()]).await;
    }

    async fn remove_all(&self, ids: Vec<String>) {
        let core = Arc::clone(&self.0);
        let removed = tokio::task::spawn_blocking(move || {
            let mut changes: Vec<StoreChange> = Vec::new();
            for id in ids {
                // A file that cannot be removed still takes its space, and is tried again.
                if let Err(error) = core.folder.remove(&id) {
                    tracing::warn!(target: "gateway", %error, "an attachment cannot be removed");
                    continue;
                }
                if core.table.lock().remove(&id) {
                    changes.push(stored::removal(&id));
                }
            }
            if !changes.is_empty() && core.store.submit_deferred(changes).is_err() {
                // The next start finds records without files.
                tracing::debug!(target: "gateway", "records of attachments are not removed yet");
            }
        });
        let _ = removed.await;
    }

    /// Removes each file at its expiry, until `is_down` returns true.
    pub async fn run(self, mut is_down: watch::Receiver<bool>) {
        loop {
            let expired = self.0.table.lock().expired(self.0.age_unix_s());
            if !expired.is_empty() {
                self.remove_all(expired).await;
            }
            tokio::select! {
                _ = is_down.wait_for(|&is_down| is_down) => return,
                () = tokio::time::sleep(SWEPT_EVERY) => {}
            }
        }
    }

    /// Counts of files.
    pub fn figures(&self) -> AttachmentFigures {
        let table = self.0.table.lock();
        AttachmentFigures {
            files: table.count() as u64,
            bytes: table.bytes(),
            kept: self.0.kept.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

fn attachment(file: &StoredAttachment) -> KeptFile {
    KeptFile {
        id: file.id.clone(),
        name: file.name.clone(),
        content_type: file.content_type.clone(),
        path: format!("/file/{}.{}", file.id, file.extension),
        size: file.size,
        expires_unix_s: file.expires_unix_s,
    }
}

/// The id in the last part of a link: `ID` or `ID.EXTENSION`.
pub fn attachment_id(name: &str) -> Option<&str> {
    let (id, extension) = name.split_once('.').unwrap_or((name, ""));
    let is_plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (folder::is_id(id) && is_plain).then_some(id)
}

/// A name without folders and control characters.
fn display_name(name: &str, kind: RecognisedType) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut clean: String = last.chars().filter(|letter| !letter.is_control()).collect();
    clean.truncate(clean.floor_char_boundary(NAME_BYTES_MAX));
    let clean = clean.trim();
    if clean.is_empty() || clean == "." || clean == ".." {
        return format!("attachment.{}", kind.extension);
    }
    clean.to_owned()
}

fn unix_s(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_store::{ManualClock, StoreSettings};

    #[tokio::test]
    async fn a_clock_that_jumps_expires_no_file_and_one_that_is_behind_makes_none_older() {
        let folder = tempfile::tempdir().expect("a folder");
        let of_store = StoreSettings {
            reserve: "0B".parse().expect("a size"),
            ..StoreSettings::default()
        };
        let now = SystemTime::now();
        let clock = ManualClock::at(now);
        let opened = Store::open_with_clock(folder.path(), &of_store, clock.clone());
        let (store, _) = opened.expect("a store");
        let settings = AttachmentSettings::default();
        let opened = Attachments::open(folder.path(), store.clone(), &settings);
        let attachments = opened.expect("attachments");
        let kept = attachments.keep(NewAttachment {
            name: "a.txt".to_owned(),
            content: Bytes::from_static(b"text"),
            client: "anna".to_owned(),
            is_anonymous: false,
        });
        let kept = kept.await.expect("kept");
        let expiry = settings.expiry.duration();
        assert_eq!(kept.expires_unix_s, unix_s(now + expiry));
        clock.jump(now + Duration::from_hours(24 * 3_650));
        let (is_down, watched) = watch::channel(false);
        is_down.send_replace(true);
        attachments.clone().run(watched.clone()).await;
        assert_eq!(attachments.find(&kept.id), Some(kept.clone()));
        clock.jump(UNIX_EPOCH);
        assert_eq!(attachments.expiry_unix_s(), unix_s(now + expiry));
        clock.jump(now);
        clock.pass(expiry);
        attachments.clone().run(watched).await;
        assert_eq!(attachments.find(&kept.id), None);
        assert_eq!(attachments.figures().files, 0);
    }

    #[test]
    fn names_are_for_readers_and_ids_for_paths() {
        let kind = RecognisedType::of(b"text", "");
        for (name, expected) in [
            ("a.jpg", "a.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\y.txt", "y.txt"),
            ("a\r\nSet-Cookie: b", "aSet-Cookie: b"),
            ("..", "attachment.txt"),
            ("", "attachment.txt"),
        ] {
            assert_eq!(display_name(name, kind), expected, "{name}");
        }
        assert!(display_name(&"é".repeat(500), kind).len() <= NAME_BYTES_MAX);
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(attachment_id(id), Some(id));
        assert_eq!(attachment_id(&format!("{id}.jpg")), Some(id));
        for name in ["", "..", ".jpg", "../x", "gatepost.db"] {
            assert_eq!(attachment_id(name), None, "{name}");
        }
        assert_eq!(attachment_id(&format!("{id}./../a")), None);
    }
}
