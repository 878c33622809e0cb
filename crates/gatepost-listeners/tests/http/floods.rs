//! Endless HTTP/2 frames that cost their sender little.

use super::*;

#[test]
fn floods_of_http2_control_frames_end_the_connection() {
    let server = Server::start(|_| {});
    let frame = |kind: u8, payload: &[u8]| {
        let mut frame = vec![0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    };
    let on = |stream: u16, flags: u8, mut frame: Vec<u8>| {
        frame[4] = flags;
        frame[7..9].copy_from_slice(&stream.to_be_bytes());
        frame
    };
    let priority = on(3, 0, frame(2, &[0, 0, 0, 0, 1]));
    // Requests for `/` at the host `x`, in the static table of RFC 7541.
    let (get, post) = (b"\x82\x86\x84\x41\x01x", b"\x83\x86\x84\x41\x01x");
    let resets = (0..3_000).flat_map(|number| {
        let stream = 2 * number + 1;
        let request = on(stream, 5, frame(1, get));
        let reset = on(stream, 0, frame(3, &[0, 0, 0, 8]));
        [request, reset].concat()
    });
    let begun = on(1, 4, frame(1, post));
    let empty_data = [begun, on(1, 0, frame(0, &[])).repeat(20_000)].concat();
    for (name, flood) in [
        ("PING", frame(6, &[0; 8]).repeat(20_000)),
        ("SETTINGS", frame(4, &[]).repeat(20_000)),
        ("WINDOW_UPDATE", frame(8, &[0, 0, 0, 1]).repeat(20_000)),
        ("PRIORITY", priority.repeat(20_000)),
        ("RST_STREAM", resets.collect()),
        ("empty DATA", empty_data),
    ] {
        let mut client = server.connect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(&frame(4, &[]));
        client.send(&flood);
        // Acknowledgements, then GOAWAY, and the end of the connection, by a reset where bytes are
        // unread.
        let reason = goaway_reason(&client.rest_or_reset());
        assert_eq!(reason, Some(ENHANCE_YOUR_CALM), "{name}");
    }
}

/// RFC 9113, section 7.
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The error code of the GOAWAY among these frames.
fn goaway_reason(mut frames: &[u8]) -> Option<u32> {
    const HEADER_BYTES: usize = 9;
    const GOAWAY: u8 = 7;
    while let Some((&[high, middle, low, kind, ..], rest)) =
        frames.split_first_chunk::<HEADER_BYTES>()
    {
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let (payload, next) = rest.split_at_checked(length)?;
        if kind == GOAWAY {
            let code = payload.get(4..8)?;
            return Some(u32::from_be_bytes(code.try_into().ok()?));
        }
        frames = next;
    }
    None
}
