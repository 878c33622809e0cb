//! Finds the messages below some paths.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::mbox::{Division, MboxStream, detect};
use super::{MailboxMessage, MailboxProblem, MailboxSettings, STANDARD_INPUT};

/// The number of bytes read at a time.
const BUFFER_BYTES: usize = 128 * 1024;

/// Deeper folders are reported as problems and not read.
const FOLDER_DEPTH_MAX: usize = 64;

/// All messages under some paths; see [`open`].
pub struct Messages {
    /// The paths that are still to be read, the next one first.
    waiting: VecDeque<PendingPath>,
    /// The current source.
    current: Option<OpenMailbox>,
    message_max: usize,
}

/// A path, and the number of folders that were opened above it.
struct PendingPath {
    path: PathBuf,
    depth: usize,
}

struct OpenMailbox {
    path: PathBuf,
    stream: MboxStream<BufReader<Box<dyn Read + Send>>>,
    count: usize,
}

/// The messages of `paths`: of files, of mbox files, of Maildir (its `cur` and `new`, not `tmp`)
/// and of other folders (all files below, except those that begin with a dot); `-` is standard
/// input.
pub fn open(paths: &[PathBuf], settings: &MailboxSettings) -> Messages {
    Messages {
        waiting: paths
            .iter()
            .map(|path| PendingPath {
                path: path.clone(),
                depth: 0,
            })
            .collect(),
        current: None,
        message_max: settings.message_max.as_usize(),
    }
}

/// The number of bytes that [`open`] will read from `paths`, for a progress bar: it reads the size
/// of every file once. Standard input and unreadable files count as 0.
pub fn total_bytes(paths: &[PathBuf]) -> u64 {
    let mut total = 0;
    let mut waiting: Vec<PendingPath> = paths
        .iter()
        .map(|path| PendingPath {
            path: path.clone(),
            depth: 0,
        })
        .collect();
    while let Some(place) = waiting.pop() {
        match std::fs::metadata(&place.path) {
            Ok(metadata) if metadata.is_dir() => {
                waiting.extend(folder(&place).unwrap_or_default());
            }
            Ok(metadata) => total += metadata.len(),
            Err(_) => {}
        }
    }
    total
}

impl Messages {
    /// Opens the next path: the entries of a folder are put in front of the queue, a file becomes
    /// the current source.
    fn enter(&mut self, place: PendingPath) -> std::io::Result<()> {
        if place.path.as_os_str() == STANDARD_INPUT {
            let source: Box<dyn Read + Send> = Box::new(std::io::stdin());
            let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
            let division = detect_ahead(&mut source)?;
            self.current = Some(self.open_stream(place.path, source, division));
            return Ok(());
        }
        if std::fs::metadata(&place.path)?.is_dir() {
            for entry in folder(&place)?.into_iter().rev() {
                self.waiting.push_front(entry);
            }
            return Ok(());
        }
        let division = detect(BufReader::new(File::open(&place.path)?))?;
        let source: Box<dyn Read + Send> = Box::new(File::open(&place.path)?);
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        self.current = Some(self.open_stream(place.path, source, division));
        Ok(())
    }

    fn open_stream(
        &self,
        path: PathBuf,
        source: BufReader<Box<dyn Read + Send>>,
        division: Division,
    ) -> OpenMailbox {
        OpenMailbox {
            path,
            stream: MboxStream::new(source, division, self.message_max),
            count: 0,
        }
    }
}

impl Iterator for Messages {
    type Item = Result<MailboxMessage, MailboxProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(open) = &mut self.current {
                match open.next_found() {
                    Ok(Some(found)) => return Some(Ok(found)),
                    Ok(None) => self.current = None,
                    Err(cause) => {
                        let path = std::mem::take(&mut open.path);
                        self.current = None;
                        return Some(Err(MailboxProblem { path, cause }));
                    }
                }
            }
            let place = self.waiting.pop_front()?;
            let path = place.path.clone();
            if let Err(cause) = self.enter(place) {
                return Some(Err(MailboxProblem { path, cause }));
            }
        }
    }
}

impl OpenMailbox {
    fn next_found(&mut self) -> std::io::Result<Option<MailboxMessage>> {
        let Some(piece) = self.stream.next_piece()? else {
            return Ok(None);
        };
        self.count += 1;
        let path = self.path.display();
        let name = match self.stream.division() {
            Division::Single => path.to_string(),
            Division::Mbox => format!("{path}:{}", self.count),
        };
        Ok(Some(MailboxMessage {
            name,
            bytes: piece.bytes,
            cut: piece.cut,
            source_bytes: piece.source_bytes,
        }))
    }
}

/// Standard input cannot be read twice: a boundary at its beginning makes it an mbox.
fn detect_ahead(source: &mut BufReader<Box<dyn Read + Send>>) -> std::io::Result<Division> {
    use std::io::BufRead;
    let beginning = source.fill_buf()?;
    let line = beginning.split(|byte| *byte == b'\n').next();
    Ok(if line.is_some_and(super::boundary::is_boundary) {
        Division::Mbox
    } else {
        Division::Single
    })
}

/// The entries of a folder, sorted by name.
fn folder(place: &PendingPath) -> std::io::Result<Vec<PendingPath>> {
    if place.depth >= FOLDER_DEPTH_MAX {
        return Err(std::io::Error::other(format!(
            "more than {FOLDER_DEPTH_MAX} folders deep"
        )));
    }
    let is_maildir = is_maildir(&place.path);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(&place.path)? {
        let entry = entry?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().first() == Some(&b'.');
        // A Maildir contains its messages in `cur` and `new`, and further Maildirs in folders that
        // begin with a dot; other files are its bookkeeping.
        let wanted = if is_maildir {
            name == "cur" || name == "new" || (hidden && is_maildir_at(&entry.path()))
        } else {
            !hidden
        };
        let kind = entry.file_type()?;
        let followed = !kind.is_symlink() || entry.path().is_file();
        if wanted && followed && (kind.is_dir() || entry.path().is_file()) {
            entries.push(PendingPath {
                path: entry.path(),
                depth: place.depth + 1,
            });
        }
    }
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(entries)
}

fn is_maildir_at(path: &Path) -> bool {
    path.is_dir() && is_maildir(path)
}

fn is_maildir(path: &Path) -> bool {
    path.join("cur").is_dir() && path.join("new").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("makes folders");
        std::fs::write(path, text).expect("writes");
    }

    fn names(root: &Path, paths: &[PathBuf]) -> Vec<String> {
        open(paths, &MailboxSettings::default())
            .map(|found| {
                let found = found.expect("reads");
                found.name.replacen(&format!("{}/", root.display()), "", 1)
            })
            .collect()
    }

    #[test]
    fn every_kind_of_mailbox_is_read() {
        let folder = tempfile::tempdir().expect("makes a folder");
        let root = folder.path();
        write(&root.join("a/2.eml"), "Subject: 2\n\n");
        write(&root.join("a/1.eml"), "Subject: 1\n\n");
        write(&root.join("a/deep/3.eml"), "Subject: 3\n\n");
        write(&root.join("a/.hidden"), "no");
        write(&root.join("Maildir/cur/x:2,S"), "Subject: x\n\n");
        write(&root.join("Maildir/new/y"), "Subject: y\n\n");
        write(&root.join("Maildir/tmp/z"), "Subject: z\n\n");
        write(&root.join("Maildir/dovecot.index"), "bookkeeping");
        write(&root.join("Maildir/.Junk/cur/j"), "Subject: j\n\n");
        write(&root.join("Maildir/.Junk/new/k"), "Subject: k\n\n");
        let boundary = "From a@b Sat Nov 21 04:16:24 2026\n";
        write(
            &root.join("box"),
            &format!("{boundary}Subject: 1\n\none\n\n{boundary}Subject: 2\n\n"),
        );
        let paths = [root.join("box"), root.join("a"), root.join("Maildir")];
        assert_eq!(
            names(root, &paths),
            [
                "box:1",
                "box:2",
                "a/1.eml",
                "a/2.eml",
                "a/deep/3.eml",
                "Maildir/.Junk/cur/j",
                "Maildir/.Junk/new/k",
                "Maildir/cur/x:2,S",
                "Maildir/new/y",
            ]
        );
        let read: u64 = open(&paths, &MailboxSettings::default())
            .flatten()
            .map(|found| found.source_bytes)
            .sum();
        assert_eq!(read, total_bytes(&paths));
    }

    #[test]
    fn unreadable_files_are_reported_and_the_others_examined() {
        let folder = tempfile::tempdir().expect("makes a folder");
        write(&folder.path().join("m"), "Subject: m\n\n");
        let paths = [folder.path().join("missing"), folder.path().join("m")];
        let found: Vec<_> = open(&paths, &MailboxSettings::default()).collect();
        assert!(matches!(&found[..], [Err(problem), Ok(_)] if problem.path == paths[0]));
    }
}
