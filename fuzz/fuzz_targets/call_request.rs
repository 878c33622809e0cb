//! Requests of the call protocol, one after the other.
#![no_main]

use bytes::BytesMut;
use gatepost_listeners::call::RequestReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = BytesMut::from(bytes);
    let mut reader = RequestReader::new(4_096);
    while let Ok(Some(_)) = reader.take(&mut input) {}
});
