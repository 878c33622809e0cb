//! A client's frames give the same data however the network cuts them.
#![no_main]

use gatepost_listeners::websocket::{AcceptedMessages, WebSocketDecoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let cut = usize::from(cut).min(bytes.len());
    let decode = |pieces: &[&[u8]]| {
        let mut decoder = WebSocketDecoder::new(1 << 20, AcceptedMessages::BinaryStream);
        let (mut data, mut controls) = (Vec::new(), Vec::new());
        let result = pieces
            .iter()
            .try_for_each(|piece| decoder.feed(piece, &mut data, |control| controls.push(control)));
        (result, data, controls)
    };
    assert_eq!(decode(&[bytes]), decode(&[&bytes[..cut], &bytes[cut..]]));
});
