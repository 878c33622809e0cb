//! The PROXY protocol's header, both versions.
#![no_main]

use gatepost_listeners::proxy_protocol;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(None) = proxy_protocol::parse(bytes) {
        assert!(proxy_protocol::missing(bytes) > 0);
    }
});
