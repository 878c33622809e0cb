//! A line of a POP3 client.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = gatepost_listeners::pop3::fuzz_command(line);
});
