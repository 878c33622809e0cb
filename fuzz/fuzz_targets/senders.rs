//! A message with signatures, and the records of its senders: SPF, DKIM, ARC, DMARC.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| gatepost_rules::authentication::check_any(data));
