//! Bodies on many streams of one connection of HTTP/2, sent as fast as the windows permit: memory
//! stays within the budget of bytes in flight, and nothing is kept for a client that may not send
//! bodies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

use super::support::{Gateway, add_user, await_some, run, text_of};
use super::{connect, start};

const STREAMS: usize = 60;
const BODY_BYTES: usize = 16_000_000;
/// RFC 9113, section 6.5.2.
const FRAME_BYTES: usize = 16_384;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const INITIAL_WINDOW: u16 = 4;

/// The windows that the server permits, and the streams that it has answered.
struct Windows {
    connection: usize,
    streams: [usize; STREAMS],
    answered: [bool; STREAMS],
    is_closed: bool,
}

type Shared = Arc<(Mutex<Windows>, Condvar)>;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, u8, usize, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
    Ok((head[3], head[4], number, payload))
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
}

/// Reads the server's frames until the connection ends.
fn follow(mut stream: TcpStream, shared: &Shared) {
    let (windows, changed) = &**shared;
    while let Ok((kind, _, number_of_stream, payload)) = read_frame(&mut stream) {
        let mut windows = windows.lock().expect("not poisoned");
        let index = number_of_stream.saturating_sub(1) / 2;
        match kind {
            WINDOW_UPDATE if number_of_stream == 0 => windows.connection += number(&payload),
            WINDOW_UPDATE => windows.streams[index] += number(&payload),
            HEADERS | RST_STREAM => windows.answered[index] = true,
            GOAWAY => break,
            _ => {}
        }
        changed.notify_all();
    }
    windows.lock().expect("not poisoned").is_closed = true;
    changed.notify_all();
}

/// Greets, and takes the windows that the server gives to new streams.
fn greet(gateway: &Gateway) -> (TcpStream, Shared) {
    let mut stream = connect(gateway.address("http"));
    let preface = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(SETTINGS, 0, 0, &[]),
    ]
    .concat();
    stream.write_all(&preface).expect("sent");
    let (kind, _, _, settings) = read_frame(&mut stream).expect("settings");
    assert_eq!(kind, SETTINGS);
    let initial = settings
        .chunks_exact(6)
        .find(|one| number(&one[..2]) == usize::from(INITIAL_WINDOW));
    let window = initial.map_or(65_535, |one| number(&one[2..]));
    stream.write_all(&frame(SETTINGS, 1, 0, &[])).expect("sent");
    let windows = Windows {
        connection: 65_535,
        streams: [window; STREAMS],
        answered: [false; STREAMS],
        is_closed: false,
    };
    let shared = Arc::new((Mutex::new(windows), Condvar::new()));
    let (reader, followed) = (stream.try_clone().expect("a handle"), shared.clone());
    std::thread::spawn(move || follow(reader, &followed));
    (stream, shared)
}

/// Sends as much as it may; how many streams were answered.
fn upload(gateway: &Gateway) -> usize {
    // POST http /topics/a, of localhost (RFC 7541, appendix A).
    let head = [
        &[0x83, 0x86, 0x04, 9][..],
        b"/topics/a",
        &[0x01, 9],
        b"localhost",
    ]
    .concat();
    let (mut stream, shared) = greet(gateway);
    let (windows, changed) = &*shared;
    let id = |index: usize| u32::try_from(2 * index + 1).expect("small");
    for index in 0..STREAMS {
        stream
            .write_all(&frame(HEADERS, 4, id(index), &head))
            .expect("sent");
    }
    let mut left = [BODY_BYTES; STREAMS];
    let mut turn = 0;
    let data = [b'x'; FRAME_BYTES];
    loop {
        let mut now = windows.lock().expect("not poisoned");
        let next = loop {
            if now.is_closed || now.answered.iter().all(|&answered| answered) {
                return now.answered.iter().filter(|&&answered| answered).count();
            }
            let fits = |now: &Windows, index: usize| {
                let bytes = left[index].min(FRAME_BYTES);
                bytes > 0
                    && !now.answered[index]
                    && now.streams[index] >= bytes
                    && now.connection >= bytes
            };
            let mut next = (0..STREAMS).map(|step| (turn + step) % STREAMS);
            if let Some(index) = next.find(|&index| fits(&now, index)) {
                break index;
            }
            now = changed.wait(now).expect("not poisoned");
        };
        let bytes = left[next].min(FRAME_BYTES);
        now.streams[next] -= bytes;
        now.connection -= bytes;
        drop(now);
        left[next] -= bytes;
        turn = next + 1;
        let flags = u8::from(left[next] == 0);
        if stream
            .write_all(&frame(DATA, flags, id(next), &data[..bytes]))
            .is_err()
        {
            let now = windows.lock().expect("not poisoned");
            return now.answered.iter().filter(|&&answered| answered).count();
        }
    }
}

#[test]
fn bodies_on_sixty_streams_leave_memory_bounded() {
    const BUDGET_KB: u64 = 64 << 10;
    /// Code that runs for the first time, and buffers of connections.
    const OTHERS_KB: u64 = 8 << 10;
    let gateway = start("in_flight.bytes_max = \"64MiB\"\nstore.history_messages_max = 0\n");
    let before_kb = gateway.peak_kb();
    assert_eq!(upload(&gateway), STREAMS, "each is answered");
    // One address holds at most half of the budget, a whole body is copied once from its blocks,
    // and the allocator returns freed blocks after a delay: at most twice the budget.
    // The kernel counts in batches, so that the peak may seem to fall a little.
    let grown_kb = gateway.peak_kb().saturating_sub(before_kb);
    assert!(grown_kb < 2 * BUDGET_KB + OTHERS_KB, "{grown_kb} kB more");
    // From the first user on, nothing of them is kept.
    let gateway = start("");
    let added = add_user(&gateway, "root", "secret of root", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("a login is required", || {
        let answer = run("curl", &["-si", &gateway.url("/topics/a")], b"");
        text_of(&answer).contains(" 401").then_some(())
    });
    let before_kb = gateway.peak_kb();
    assert_eq!(upload(&gateway), STREAMS, "each is answered");
    let grown_kb = gateway.peak_kb().saturating_sub(before_kb);
    assert!(grown_kb < BUDGET_KB / 4, "{grown_kb} kB more");
}
