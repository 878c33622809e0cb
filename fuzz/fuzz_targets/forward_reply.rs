//! Replies of a next hop.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = gatepost_listeners::forward::fuzz_reply(bytes);
});
