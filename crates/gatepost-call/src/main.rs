//! The process around the call. It is entered at C's `main`: the standard library's own start-up
//! (signal stack, guard page, handlers) is work that a few system calls never need. Together with
//! static linking that keeps the start as cheap as a small C program's.
#![no_main]
#![allow(unsafe_code)]

/// Called once by the C library, on the only thread.
///
/// # Safety
/// The symbol is the one that the C library's start code calls, and `no_main` leaves it to us, so
/// nothing else defines it. The parameters are not read: glibc hands the command line to `std::env`
/// before `main`. Without the standard start-up `SIGPIPE` keeps its default: sockets are written
/// with `MSG_NOSIGNAL` by the standard library, and a closed standard output may end us.
#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
    std::process::exit(i32::from(gatepost_call::run(std::env::args_os().skip(1))))
}
