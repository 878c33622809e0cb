//! Socket options without a safe interface: `TCP_DEFER_ACCEPT`, by which the kernel reports a
//! connection once its first bytes have arrived, and waiting for a socket that the runtime itself
//! does not accept from.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const VALUE_BYTES: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

/// Makes a listening socket hold back connections whose client has sent nothing, for about this
/// long.
pub(super) fn defer(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(limit.as_secs()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open for as long as it is borrowed; the kernel reads one int from
    // a live local of that size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            VALUE_BYTES,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a socket holds connections back.
pub(super) fn is_deferred(socket: BorrowedFd<'_>) -> bool {
    let mut seconds: libc::c_int = 0;
    let mut length = VALUE_BYTES;
    // SAFETY: the descriptor is open for as long as it is borrowed; the kernel writes at most
    // `length` bytes, which is the size of the live local passed with it.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw mut seconds).cast(),
            &raw mut length,
        )
    };
    result == 0 && seconds > 0
}

/// Registers a socket with the reactor of the present worker, for reading.
pub(super) fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, gives the same descriptor each time,
    // and is dropped by the `AsyncFd` after it is deregistered.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    Ok(registered?)
}
