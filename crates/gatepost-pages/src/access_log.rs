//! The access log: a line a request, and never a request that waits for the disk.
//!
//! Each thread appends to a buffer of its own; a writer thread takes the buffers over, at most
//! [`DELAY`] later, and writes and rotates. A buffer's lock is held only for an append or for a
//! swap, so a thread waits for the writer as long as three pointers take to move. When the disk
//! stands still and a buffer is full, lines are dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::clock;
use crate::settings::{AccessLogFormat, AccessLogSettings};

/// How long a line may wait in memory.
const DELAY: Duration = Duration::from_millis(100);
/// What one buffer may hold before lines are dropped.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// More buffers than threads only cost memory; fewer only cost a short wait.
const BUFFERS: usize = 16;

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The peer's address, without the port.
    pub peer: &'a str,
    /// The authenticated user.
    pub user: Option<&'a str>,
    /// The request's method.
    pub method: &'a str,
    /// The request's target as it was sent.
    pub target: &'a str,
    /// `HTTP/1.1`
    pub version: &'a str,
    /// The answer's status.
    pub status: u16,
    /// The bytes of the answer's body.
    pub body_bytes: u64,
    /// The request's `Referer`.
    pub referer: Option<&'a [u8]>,
    /// The request's `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// The message that the request made.
    pub message: Option<gatepost_message::MessageId>,
}

struct Shared {
    buffers: [Mutex<Vec<u8>>; BUFFERS],
    format: AccessLogFormat,
    /// Whether the writer has been woken since it last took the buffers.
    pending: AtomicBool,
    closing: AtomicBool,
    reopen: AtomicBool,
    dropped: AtomicU64,
    failures: AtomicU64,
}

/// The access log of one server.
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl AccessLog {
    /// Starts the writer. The file is opened at the first line.
    pub fn start(settings: &AccessLogSettings) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            buffers: std::array::from_fn(|_| Mutex::default()),
            format: settings.format,
            pending: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            reopen: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        if settings.format == AccessLogFormat::Off {
            return Ok(Self {
                shared,
                writer: None,
            });
        }
        let writer = Writer {
            shared: Arc::clone(&shared),
            rotation: Rotation {
                path: settings.path.clone(),
                size_max: settings.max_size.bytes().max(1),
                age_max: settings.max_age.duration(),
                keep: settings.keep,
            },
            open: None,
        };
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self {
            shared,
            writer: Some(writer),
        })
    }

    /// Whether lines are written at all.
    pub fn is_on(&self) -> bool {
        self.writer.is_some()
    }

    /// Appends a line. Never blocks on the disk.
    pub fn append(&self, line: &Line<'_>) {
        let Some(writer) = &self.writer else {
            return;
        };
        let Some(buffer) = self.shared.buffers.get(buffer_index()) else {
            return;
        };
        let mut buffer = buffer.lock();
        if buffer.len() > BUFFER_BYTES_MAX {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.shared.format {
            AccessLogFormat::Json => push_json(&mut buffer, line),
            _ => push_combined(&mut buffer, line),
        }
        drop(buffer);
        if !self.shared.pending.load(Ordering::Relaxed)
            && !self.shared.pending.swap(true, Ordering::AcqRel)
        {
            writer.thread().unpark();
        }
    }

    /// Closes the file, so that the next line goes to a new one at the same path.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
    }

    /// Lines lost because the disk was too slow, and writes that failed.
    pub fn losses(&self) -> (u64, u64) {
        (
            self.shared.dropped.load(Ordering::Relaxed),
            self.shared.failures.load(Ordering::Relaxed),
        )
    }
}

impl Drop for AccessLog {
    /// Writes what is left.
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.shared.closing.store(true, Ordering::Release);
            writer.thread().unpark();
            let _ = writer.join();
        }
    }
}

fn buffer_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % BUFFERS;
    }
    MINE.with(|mine| *mine)
}

struct Writer {
    shared: Arc<Shared>,
    rotation: Rotation,
    open: Option<Open>,
}

/// The file that is written to.
struct Open {
    file: File,
    size: u64,
    /// When the file was made, by whichever process.
    began: SystemTime,
}

impl Writer {
    fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let closing = self.shared.closing.load(Ordering::Acquire);
            if !closing {
                if !self.shared.pending.load(Ordering::Acquire) {
                    thread::park();
                }
                // Lines that arrive meanwhile share the write; dropping the log cuts it short.
                if !self.shared.closing.load(Ordering::Acquire) {
                    thread::park_timeout(DELAY);
                }
            }
            self.shared.pending.store(false, Ordering::Release);
            for index in 0..BUFFERS {
                self.take(index, &mut batch);
            }
            if closing {
                return;
            }
        }
    }

    fn take(&mut self, index: usize, batch: &mut Vec<u8>) {
        let Some(buffer) = self.shared.buffers.get(index) else {
            return;
        };
        std::mem::swap(&mut *buffer.lock(), batch);
        if !batch.is_empty()
            && let Err(error) = self.write(batch)
        {
            self.open = None;
            // Of a line that went in part the rest is lost too: counted whole.
            let lost = memchr::memchr_iter(b'\n', batch).count() as u64;
            self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
            if self.shared.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                let path = self.rotation.path.display();
                tracing::error!(target: "pages", "access log {path}: {error}; lines are lost until it can be written again");
            }
        }
        batch.clear();
    }

    /// Writes whole lines, rotating between two of them where the file is full.
    fn write(&mut self, mut lines: &[u8]) -> io::Result<()> {
        if self.shared.reopen.swap(false, Ordering::AcqRel) {
            self.open = None;
        }
        while !lines.is_empty() {
            let open = match self.open.take() {
                Some(open) => open,
                None => self.rotation.open()?,
            };
            if self.rotation.is_due(&open) {
                drop(open);
                self.rotation.rotate()?;
                self.open = Some(self.rotation.open()?);
                continue;
            }
            let Open {
                mut file,
                size,
                began,
            } = open;
            let room = self.rotation.size_max.saturating_sub(size) as usize;
            let end = match lines.get(..room) {
                None => lines.len(),
                Some(fitting) => match memchr::memrchr(b'\n', fitting) {
                    Some(newline) => newline + 1,
                    // A line longer than the room goes whole: lines are never torn.
                    None if size == 0 => {
                        memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1)
                    }
                    None => {
                        let size = self.rotation.size_max;
                        self.open = Some(Open { file, size, began });
                        continue;
                    }
                },
            };
            let (now, later) = lines.split_at(end);
            file.write_all(now)?;
            let size = size + now.len() as u64;
            self.open = Some(Open { file, size, began });
            lines = later;
        }
        Ok(())
    }
}

struct Rotation {
    path: PathBuf,
    size_max: u64,
    /// Zero for no limit.
    age_max: Duration,
    keep: usize,
}

impl Rotation {
    /// Whether the file is full, or old and not empty.
    fn is_due(&self, open: &Open) -> bool {
        let is_old = || {
            !self.age_max.is_zero()
                && open.size > 0
                && open.began.elapsed().is_ok_and(|age| age >= self.age_max)
        };
        open.size >= self.size_max || is_old()
    }

    fn open(&self) -> io::Result<Open> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        Ok(Open {
            size: metadata.len(),
            // Where the file system keeps no such time, a file is as old as we have it open.
            began: metadata.created().unwrap_or_else(|_| SystemTime::now()),
            file,
        })
    }

    /// `log` becomes `log.1`, `log.1` becomes `log.2`, and so on; the oldest goes.
    fn rotate(&self) -> io::Result<()> {
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

fn push_combined(log: &mut Vec<u8>, line: &Line<'_>) {
    log.extend_from_slice(line.peer.as_bytes());
    log.extend_from_slice(b" - ");
    push_quotable(log, line.user.unwrap_or("-").as_bytes());
    log.extend_from_slice(b" [");
    clock::push_log_date(log);
    log.extend_from_slice(b"] \"");
    push_quotable(log, line.method.as_bytes());
    log.push(b' ');
    push_quotable(log, line.target.as_bytes());
    log.push(b' ');
    log.extend_from_slice(line.version.as_bytes());
    log.extend_from_slice(b"\" ");
    push_number(log, u64::from(line.status));
    log.push(b' ');
    push_number(log, line.body_bytes);
    log.extend_from_slice(b" \"");
    push_quotable(log, line.referer.unwrap_or(b"-"));
    log.extend_from_slice(b"\" \"");
    push_quotable(log, line.user_agent.unwrap_or(b"-"));
    log.extend_from_slice(b"\"\n");
}

/// Decimal digits, without the formatting machinery.
pub fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(digits.get(20 - used..).unwrap_or_default());
}

/// What a peer sent, made harmless: no line of its own, no closing quote.
fn push_quotable(log: &mut Vec<u8>, text: &[u8]) {
    let harmless = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if text.iter().all(harmless) {
        log.extend_from_slice(text);
        return;
    }
    for byte in text {
        if harmless(byte) {
            log.push(*byte);
        } else {
            log.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
        }
    }
}

fn push_json(log: &mut Vec<u8>, line: &Line<'_>) {
    let mut time = Vec::new();
    clock::push_log_date(&mut time);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let object = serde_json::json!({
        "time": text(&time),
        "peer": line.peer,
        "user": line.user,
        "method": line.method,
        "target": line.target,
        "version": line.version,
        "status": line.status,
        "body_bytes": line.body_bytes,
        "referer": line.referer.map(text),
        "user_agent": line.user_agent.map(text),
        "message": line.message.map(|id| id.to_string()),
    });
    log.extend_from_slice(object.to_string().as_bytes());
    log.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_settings::{ByteSize, Period};

    const LINE: Line<'_> = Line {
        peer: "127.0.0.1",
        user: None,
        method: "GET",
        target: "/a",
        version: "HTTP/1.1",
        status: 200,
        body_bytes: 2357,
        referer: None,
        user_agent: Some(b"test\"\n"),
        message: None,
    };

    fn settings(folder: &Path, max_size: u64, format: AccessLogFormat) -> AccessLogSettings {
        AccessLogSettings {
            path: folder.join("access.log"),
            format,
            max_size: ByteSize(max_size),
            keep: 2,
            max_age: Period::seconds(0),
        }
    }

    #[test]
    fn an_old_file_is_rotated_though_another_process_began_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path(), 1_000_000, AccessLogFormat::Combined);
        let write = |settings: &AccessLogSettings| {
            AccessLog::start(settings).expect("a log").append(&LINE);
        };
        write(&settings);
        write(&settings);
        let rotated = folder.path().join("access.log.1");
        assert!(!rotated.exists());
        settings.max_age = Period::milliseconds(10);
        let began = std::fs::metadata(&settings.path).and_then(|found| found.created());
        let began = began.expect("a file system that keeps the time of creation");
        while began
            .elapsed()
            .is_ok_and(|age| age < Duration::from_millis(10))
        {
            thread::yield_now();
        }
        write(&settings);
        let text = std::fs::read_to_string(rotated).expect("the old one");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_full_disk_is_counted_and_survived() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path(), 1_000_000, AccessLogFormat::Combined);
        settings.path = folder.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &settings.path).expect("a link");
        let log = AccessLog::start(&settings).expect("a log");
        log.append(&LINE);
        while log.losses() != (1, 1) {
            thread::yield_now();
        }
        // There is room again: a log elsewhere, as a cleaned disk would be.
        std::fs::remove_file(&settings.path).expect("removed");
        log.append(&LINE);
        drop(log);
        let text = std::fs::read_to_string(&settings.path).expect("a file");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_line_is_combined_and_cannot_be_forged() {
        let mut log = Vec::new();
        push_combined(&mut log, &LINE);
        let log = String::from_utf8(log).expect("ASCII");
        assert!(log.starts_with("127.0.0.1 - - ["), "{log}");
        assert!(
            log.ends_with("] \"GET /a HTTP/1.1\" 200 2357 \"-\" \"test\\x22\\x0A\"\n"),
            "{log}"
        );
    }

    #[test]
    fn what_was_appended_is_in_the_file_when_the_log_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), 1_000_000, AccessLogFormat::Json);
        let log = AccessLog::start(&settings).expect("a log");
        for _ in 0..100 {
            log.append(&LINE);
        }
        drop(log);
        let text = std::fs::read_to_string(&settings.path).expect("a file");
        assert_eq!(text.lines().count(), 100);
        let line: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        assert_eq!(line["status"], 200);
        assert_eq!(line["user_agent"], "test\"\n");
    }

    #[test]
    fn a_full_file_is_rotated_between_two_lines_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), 1_000, AccessLogFormat::Combined);
        let log = AccessLog::start(&settings).expect("a log");
        for _ in 0..100 {
            log.append(&LINE);
        }
        drop(log);
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["access.log", "access.log.1", "access.log.2"]);
        for name in names {
            let text = std::fs::read_to_string(folder.path().join(name)).expect("a file");
            assert!(text.len() <= 1_000);
            assert!(
                text.lines()
                    .all(|line| line.starts_with("127.") && line.ends_with('"'))
            );
        }
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 2357, u64::MAX] {
            let mut text = Vec::new();
            push_number(&mut text, number);
            assert_eq!(String::from_utf8_lossy(&text), number.to_string());
        }
    }
}
