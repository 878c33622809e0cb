//! Ports for servers that cannot choose a free one themselves.
//!
//! They are below those that the kernel gives to listeners on port 0 (32768 and above), so no
//! Gatepost of another test gets one of them before its server has started.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;
/// Test programs that run at once begin this far apart, by their process ids.
const DISTANCE: u32 = 199;

/// A port without a listener, which no other call in this program returns.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let offset = std::process::id().wrapping_mul(DISTANCE);
    let mut ports = std::iter::repeat_with(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(offset);
        u16::try_from(FIRST + number % COUNT).expect("below 32768")
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports
        .by_ref()
        .take(COUNT as usize)
        .find(is_free)
        .expect("a port")
}
