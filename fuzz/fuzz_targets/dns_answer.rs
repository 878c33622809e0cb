//! An answer of a DNS server, whose every length and pointer a stranger may have made up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let _ = gatepost_dns::wire::read(message);
});
