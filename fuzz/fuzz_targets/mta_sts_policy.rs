//! MTA-STS policies from strangers: each is either read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = gatepost_listeners::forward::fuzz_policy(text);
});
