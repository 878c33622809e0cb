//! The head of a spamd request.
#![no_main]

use bytes::BytesMut;
use gatepost_listeners::spamd::SpamdHead;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (ended, bytes) = input;
    let _ = SpamdHead::take(&mut BytesMut::from(bytes), 4_096, ended);
});
