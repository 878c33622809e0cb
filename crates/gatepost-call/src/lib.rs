//! The thin client: started once per message by a mail server or a script, it makes one call to the
//! server's `call` listener and exits with the verdict.
//!
//! Its cost is mostly that of starting a process, so it has no dependencies, does no work before it
//! is needed, and sends no more than the procedure needs: the size first, the bytes only if the
//! server requests them. (The binary around it: see `main.rs`.)
//!
//! Invariants: never exits with 0 unless the server's verdict is accept (or tag), or the caller
//! chose `--on-failure accept`; never panics on input from a peer or a file; changes no file except
//! the one named, and that only in the XMail modes. As a filter of OpenSMTPD it keeps running and
//! makes many calls.

mod arguments;
mod call;
mod connection;
mod conversation;
mod envelope;
mod exit_code;
mod failure;
mod opensmtpd;
mod spool;
mod wire;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use arguments::{CallOptions, CallTask};
use failure::CallFailure;

const HELP: &str = include_str!("help.txt");

/// Executes the command line, given without the program's name; returns the exit code.
pub fn run(words: impl Iterator<Item = OsString>) -> u8 {
    let arguments = match CallOptions::parse(words) {
        Ok(CallTask::Call(arguments)) => arguments,
        Ok(CallTask::Filter(arguments)) => return filter(arguments),
        Ok(CallTask::Help) => {
            print!("{HELP}");
            return 0;
        }
        Ok(CallTask::Version) => {
            println!("gatepost-call {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        Err(mistake) => {
            eprintln!("gatepost-call: {mistake}\nTry 'gatepost-call --help'.");
            return exit_code::USAGE;
        }
    };
    match call::call(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            report(&arguments, &failure);
            exit_code::of_failure(
                arguments.exit,
                arguments.on_failure,
                arguments.xmail,
                &failure,
            )
        }
    }
}

/// Serves OpenSMTPD until it ends.
fn filter(arguments: CallOptions) -> u8 {
    match opensmtpd::serve(&Arc::new(arguments), io::stdin().lock(), io::stdout()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("gatepost-call: smtpd: {error}");
            exit_code::LATER
        }
    }
}

fn report(arguments: &CallOptions, failure: &CallFailure) {
    eprintln!("gatepost-call: {}: {failure}", arguments.server);
}

/// The reader of message files, for fuzzing: a description of its result.
#[doc(hidden)]
pub fn fuzz_spool(path: &std::path::Path, has_mark: bool) -> String {
    let layout = if has_mark {
        spool::Layout::XmailOffline
    } else {
        spool::Layout::XmailSmtp
    };
    let mut body = 0;
    let read = spool::MessageFile::open(path, layout).and_then(|mut message| {
        message.copy_body(|block| {
            body += block.len() as u64;
            Ok(())
        })?;
        Ok((message.size, message.envelope))
    });
    match read {
        Ok(message) => {
            assert_eq!(message.0, body, "the size that was promised");
            format!("{message:?}")
        }
        Err(failure) => failure.to_string(),
    }
}

/// The parser of the command line, for fuzzing: no argument that it accepts can end a line of a
/// request.
#[doc(hidden)]
pub fn fuzz_arguments<'word>(words: impl Iterator<Item = &'word [u8]>) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let words = words.map(|word| OsStr::from_bytes(word).to_owned());
    if let Ok(CallTask::Call(arguments) | CallTask::Filter(arguments)) = CallOptions::parse(words) {
        let envelope = envelope::ReportedEnvelope::default();
        let request = conversation::request(&arguments, &envelope, 0, true);
        let lines = request.split(|&byte| byte == b'\n').count();
        assert_eq!(lines, 6 + arguments.pairs.len(), "{arguments:?}");
    }
}

/// The filter, for fuzzing: it ends with its input and writes whole lines, whatever it reads.
#[doc(hidden)]
pub fn fuzz_filter(input: &[u8]) {
    let words = ["--server", "unix:/", "--opensmtpd", "/noop"].map(OsString::from);
    let Ok(CallTask::Filter(arguments)) = CallOptions::parse(words.into_iter()) else {
        return;
    };
    assert!(opensmtpd::serve(&Arc::new(arguments), input, io::sink()).is_ok());
}
