//! The thread that swaps the buffers and writes them.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::rotation::{OpenLogFile, Rotation};
use super::{BUFFERS, LogBuffers};

/// The time for which a line may wait in memory.
const DELAY: Duration = Duration::from_millis(100);
/// The pause after a rotation that failed. In the meantime, the full file is continued.
const ROTATE_AGAIN: Duration = Duration::from_mins(1);

pub(super) struct LogWriter {
    shared: Arc<LogBuffers>,
    rotation: Rotation,
    open: Option<OpenLogFile>,
    /// Whether the last write failed. Only the first of several failures is logged.
    fails: bool,
    /// The time of the last rotation that failed; `None` after one that succeeded.
    rotation_failed: Option<Instant>,
}

impl LogWriter {
    pub(super) const fn new(shared: Arc<LogBuffers>, rotation: Rotation) -> Self {
        Self {
            shared,
            rotation,
            open: None,
            fails: false,
            rotation_failed: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let closing = self.shared.closing.load(Ordering::Acquire);
            if !closing {
                if !self.shared.pending.load(Ordering::Acquire) {
                    thread::park();
                }
                // Lines that arrive in this time share the write; dropping the log ends the wait.
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
        if !batch.is_empty() {
            let mut rest = batch.as_slice();
            let written = self.write(&mut rest);
            self.report(written, rest);
        }
        batch.clear();
    }

    /// Counts the lines that were not written, and logs the first of several failures and the end
    /// of them.
    fn report(&mut self, written: io::Result<()>, rest: &[u8]) {
        let path = self.rotation.path.display();
        let Err(error) = written else {
            if std::mem::take(&mut self.fails) {
                tracing::info!(target: "pages", "access log {path}: it can be written again");
            }
            return;
        };
        self.open = None;
        let lost = memchr::memchr_iter(b'\n', rest).count() as u64;
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.fails, true) {
            tracing::error!(
                target: "pages",
                "access log {path}: {error}; lines are lost until it can be written again",
            );
        }
    }

    /// Writes whole lines, and rotates between two lines when the file is full. Leaves the lines
    /// that were not written.
    fn write(&mut self, lines: &mut &[u8]) -> io::Result<()> {
        if self.shared.reopen.swap(false, Ordering::AcqRel) {
            self.open = None;
        }
        while !lines.is_empty() {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.rotation.open()?,
            };
            let first = memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
            let is_due = self.rotation.is_due(&open, first as u64);
            if is_due && self.rotate() {
                open = self.rotation.open()?;
            }
            let end = if is_due && self.rotation_failed.is_some() {
                lines.len()
            } else {
                // A line longer than the limit is written whole: lines are never divided.
                let room = self.rotation.size_max.saturating_sub(open.size) as usize;
                let fitting = lines.get(..room).unwrap_or(lines);
                memchr::memrchr(b'\n', fitting).map_or(first, |newline| newline + 1)
            };
            let (now, later) = lines.split_at(end);
            if let Err(error) = open.file.write_all(now) {
                remove_after(&open.file, open.size);
                return Err(error);
            }
            open.size += now.len() as u64;
            self.open = Some(open);
            *lines = later;
        }
        Ok(())
    }

    /// Renames the full file, unless that failed a short time ago; returns whether it was renamed.
    /// Only the first of several failures is logged.
    fn rotate(&mut self) -> bool {
        let failed = self.rotation_failed;
        if failed.is_some_and(|failed| failed.elapsed() < ROTATE_AGAIN) {
            return false;
        }
        let Err(error) = self.rotation.rotate() else {
            self.rotation_failed = None;
            return true;
        };
        if self.rotation_failed.replace(Instant::now()).is_none() {
            let path = self.rotation.path.display();
            tracing::error!(
                target: "pages",
                "access log {path}: it cannot be rotated and grows beyond its limit: {error}",
            );
        }
        false
    }
}

/// Removes what was written of lines after a failure: a part of a line would run into the next one.
/// A file that another program has shortened meanwhile stays as it is.
fn remove_after(file: &File, size: u64) {
    if file.metadata().is_ok_and(|found| found.len() > size) {
        // Fails only where there is no length, as for a pipe.
        let _ = file.set_len(size);
    }
}
