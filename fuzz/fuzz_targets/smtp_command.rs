//! A command line of an SMTP or LMTP client.
#![no_main]

use gatepost_listeners::smtp::parsers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = parsers::command(line);
});
