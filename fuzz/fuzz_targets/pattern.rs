//! A Perl regular expression, translated for both engines, on a text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| gatepost_pattern::check_any_pattern(data));
