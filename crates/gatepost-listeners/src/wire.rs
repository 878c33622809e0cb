//! Reading and writing for protocols of requests and replies, in which the peers take turns.
//!
//! A waiting connection owns no buffer except for its unparsed bytes: bytes are read into a buffer
//! of the worker thread, and only the unparsed rest is copied from it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};

use bytes::BytesMut;
use tokio::time::{Instant, timeout_at};

use crate::stream::Stream;

/// The most bytes that one read returns; a larger message needs several reads.
const READ_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// Appends what has arrived to `input`, waiting for it until `deadline`. Returns 0 at the end of
/// the stream. Cancel-safe: bytes are taken from the socket only when they are kept.
pub(crate) async fn read(
    stream: &Stream,
    input: &mut BytesMut,
    deadline: Instant,
) -> io::Result<usize> {
    loop {
        match append(input, |buffer| stream.try_read(buffer)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        timeout_at(deadline, poll_fn(|context| stream.poll_read_ready(context))).await??;
    }
}

/// Appends to `input` what `read` puts into the worker's buffer.
pub(crate) fn append(
    input: &mut BytesMut,
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    SCRATCH.with_borrow_mut(|scratch| {
        let count = read(scratch)?;
        input.extend_from_slice(&scratch[..count]);
        Ok(count)
    })
}

/// Writes all of `bytes`, waiting for room until `deadline`.
pub(crate) async fn write(stream: &Stream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let ready = poll_fn(|context| stream.poll_write_ready(context));
                timeout_at(deadline, ready).await??;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
