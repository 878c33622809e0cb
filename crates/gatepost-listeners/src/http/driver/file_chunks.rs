//! A file read piece by piece, as it is written: for files that are not kept in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

/// The part of a file that is in memory at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// The rest of a file that is still to be read.
pub(super) struct FileChunks {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl FileChunks {
    /// The `length` bytes from `start` on.
    pub(super) fn new(file: File, start: u64, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            position: start,
            end: start + length,
        }
    }

    /// The next piece, read by a thread that may block; `None` at the end. A file that became
    /// shorter meanwhile is an error: its length has been sent already.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.position >= self.end {
            return Ok(None);
        }
        let size = (self.end - self.position).min(CHUNK_BYTES) as usize;
        let (file, position) = (Arc::clone(&self.file), self.position);
        let chunk = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; size];
            file.read_exact_at(&mut chunk, position)?;
            io::Result::Ok(Bytes::from(chunk))
        })
        .await??;
        self.position += size as u64;
        Ok(Some(chunk))
    }
}
