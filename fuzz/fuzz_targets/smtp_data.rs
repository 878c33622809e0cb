//! A message after DATA: any split of the input must mean the same, and only CR LF . CR LF ends it.
#![no_main]

use gatepost_listeners::smtp::parsers;
use libfuzzer_sys::fuzz_target;

/// Folded into the bytes that matter, so that endings are found quickly.
fn folded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| b"\r\n.a"[usize::from(byte % 4)]).collect()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (at, bytes) = input;
    for bytes in [bytes.to_vec(), folded(bytes)] {
        let (first, second) = bytes.split_at(usize::from(at).min(bytes.len()));
        let whole = parsers::data(&bytes, b"");
        assert_eq!(parsers::data(first, second), whole);
        if let (Some(end), Ok(_)) = whole {
            assert!(bytes[..end] == *b".\r\n" || bytes[..end].ends_with(b"\r\n.\r\n"));
        }
    }
});
