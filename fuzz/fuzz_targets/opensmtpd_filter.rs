//! The lines that OpenSMTPD sends to a filter; its messages find no server to judge them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| gatepost_call::fuzz_filter(input));
