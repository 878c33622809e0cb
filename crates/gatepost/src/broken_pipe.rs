//! `gatepost … | head`: a reader that closes the pipe ends the command silently.
//!
//! The standard library turns a failed `println!` into a panic. A signal would end the process as
//! it does in C, but at a write to any socket too.

use std::panic;
use std::process;

/// The exit code that a shell reports for a process that SIGPIPE ended.
pub(crate) const EXIT_BROKEN_PIPE: u8 = 128 + 13;

/// Makes such a panic end the process silently.
pub(crate) fn end_quietly() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        let payload = what.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        if text.is_some_and(is_broken_pipe) {
            process::exit(EXIT_BROKEN_PIPE.into());
        }
        default(what);
    }));
}

fn is_broken_pipe(text: &str) -> bool {
    text.starts_with("failed printing to stdout") && text.contains("os error 32")
}
