//! The access log: one line per request, without a request ever waiting for the disk.
//!
//! Each thread appends to its own buffer; a writer thread swaps the buffers, at most `DELAY` later,
//! writes them and rotates the file. A buffer is locked only for an append or a swap of three
//! pointers, so a thread hardly waits for the writer. If the disk is stalled and a buffer is full,
//! lines are dropped and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use crate::settings::{AccessLogFormat, AccessLogSettings};

mod line;
mod rotation;
mod writer;

pub use line::{LoggedRequest, push_number};
use rotation::Rotation;
use writer::LogWriter;

/// The size of a buffer from which lines are dropped.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// More buffers than threads only cost memory; fewer only cost a short wait.
const BUFFERS: usize = 16;

struct LogBuffers {
    buffers: [Mutex<Vec<u8>>; BUFFERS],
    format: AccessLogFormat,
    /// Whether the writer has been woken since it last swapped the buffers.
    pending: AtomicBool,
    closing: AtomicBool,
    reopen: AtomicBool,
    dropped: AtomicU64,
    failures: AtomicU64,
}

/// The access log of one server.
pub struct AccessLog {
    shared: Arc<LogBuffers>,
    writer: Option<JoinHandle<()>>,
}

impl AccessLog {
    /// Starts the writer. The file is opened at the first line.
    pub fn start(settings: &AccessLogSettings) -> io::Result<Self> {
        let shared = Arc::new(LogBuffers {
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
        let writer = LogWriter::new(Arc::clone(&shared), Rotation::new(settings));
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self {
            shared,
            writer: Some(writer),
        })
    }

    /// Appends a line. Never blocks on the disk.
    pub fn append(&self, line: &LoggedRequest<'_>) {
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
            AccessLogFormat::Json => line::push_json(&mut buffer, line),
            _ => line::push_combined(&mut buffer, line),
        }
        drop(buffer);
        if !self.shared.pending.load(Ordering::Relaxed)
            && !self.shared.pending.swap(true, Ordering::AcqRel)
        {
            writer.thread().unpark();
        }
    }

    /// Closes the file, so that the next line is written to a new one at the same path.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
    }

    /// Lines lost because the disk was too slow, and failed writes.
    pub fn losses(&self) -> (u64, u64) {
        (
            self.shared.dropped.load(Ordering::Relaxed),
            self.shared.failures.load(Ordering::Relaxed),
        )
    }
}

impl Drop for AccessLog {
    /// Writes the remaining lines.
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

#[cfg(test)]
mod tests;
