//! Messages that are built to take long: all views are made, and all rules run, in bounded time.
//!
//! The CPU time of the thread is measured, so that a busy machine makes no test fail. The bound is
//! far above the time that unoptimised builds take, and far below the time of any work that is
//! quadratic in the message's size. The maximum memory of the thread is bounded too.

mod attached;
mod held;
mod judged;
mod limits;
mod signatures;
mod views;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time that all views, or all rules, of one message may compute.
const TIME_MAX: Duration = Duration::from_mins(1);
/// Size of the large ones, bytes.
const SIZE: usize = 10_000_000;

/// The CPU time of this thread so far.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The pieces made of the numbers up to `count`.
fn numbered(count: usize, piece: impl Fn(&mut String, usize)) -> String {
    let mut all = String::new();
    (0..count).for_each(|number| piece(&mut all, number));
    all
}

fn html(body: &str) -> Vec<u8> {
    format!("Content-Type: text/html; charset=utf-8\n\n{body}").into_bytes()
}

fn plain(body: &str) -> Vec<u8> {
    format!("Subject: x\n\n{body}").into_bytes()
}
