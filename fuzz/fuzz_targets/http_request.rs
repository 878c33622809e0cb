//! Heads and chunked bodies of HTTP requests: no bytes panic, and no split changes a body.
#![no_main]

use gatepost_listeners::http::parsers;
use libfuzzer_sys::fuzz_target;

const BODY_BYTES_MAX: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Some(length) = parsers::head(bytes) {
        assert!(length <= bytes.len());
    }
    let whole = parsers::chunked(bytes, &[], BODY_BYTES_MAX);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(whole, parsers::chunked(first, second, BODY_BYTES_MAX));
});
