//! An answer of a DNS server, in which every length and pointer may be forged.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let _ = gatepost_dns::wire::read(message);
});
