//! The process around the call. Its entry point is C's `main`: the standard library's start-up
//! (signal stack, guard page, handlers) is unnecessary for a few system calls. Together with static
//! linking this makes the start as cheap as that of a small C program.
#![no_main]
#![allow(unsafe_code)]

/// Called once by the C library, on the only thread.
///
/// # Safety
/// The symbol is the one that the C library's start code calls, and because of `no_main` nothing
/// else defines it. The parameters are not read: glibc passes the command line to `std::env` before
/// `main`. Without the standard start-up `SIGPIPE` keeps its default: the standard library writes
/// to sockets with `MSG_NOSIGNAL`, and a closed standard output may end the process.
#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
    std::process::exit(i32::from(gatepost_call::run(std::env::args_os().skip(1))))
}
