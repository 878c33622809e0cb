//! Splitting a page: no text panics, and the static slices are those of the source, in order.
#![no_main]

use bytes::Bytes;
use gatepost_pages::template::{LIVE_SCRIPT, TemplateNode, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| {
    let source = Bytes::copy_from_slice(source);
    let Some(pieces) = split(&source) else {
        return;
    };
    let mut rest = &source[..];
    for piece in pieces {
        let TemplateNode::Static(slice) = piece else {
            continue;
        };
        if &slice[..] == LIVE_SCRIPT.as_bytes() {
            continue;
        }
        let found = rest.windows(slice.len()).position(|window| window == &slice[..]);
        let start = found.expect("a slice of the source");
        rest = &rest[start + slice.len()..];
    }
});
