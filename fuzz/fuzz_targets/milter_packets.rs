//! Packets of a mail server to a milter.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Version 6 with everything offered, so that inputs need not find the negotiation.
const OFFER: &[u8] = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";

fuzz_target!(|input: (bool, &[u8])| {
    let (negotiated, bytes) = input;
    let offer = if negotiated { OFFER } else { b"" };
    let _ = gatepost_listeners::milter::fuzz(&[offer, bytes].concat());
});
