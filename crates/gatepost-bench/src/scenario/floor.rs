//! `floor`: the cost of the basic operations of a server on this machine.
//!
//! No server can be cheaper than its system calls; comparing a result with them shows the distance.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::RunOutcome;
use crate::process::Noise;

/// Repetitions of each operation when measured alone, and as part of a report.
const EFFORT: usize = 5;
const EFFORT_QUICK: usize = 1;

/// Measures all operations, in nanoseconds.
pub fn measure() -> Result<RunOutcome, BenchError> {
    let mut outcome = RunOutcome {
        noise: Noise::now(),
        ..RunOutcome::default()
    };
    for (name, nanoseconds) in operations(EFFORT)? {
        outcome.lower(name, nanoseconds, "ns");
    }
    let receiving = super::fanout::receive_cost_ns()?;
    outcome.lower("this generator: a message received", receiving, "ns CPU");
    outcome.interrupted = interrupted();
    Ok(outcome)
}

/// The operations' figures for a report, in nanoseconds: less effort, about a tenth of a second.
pub fn quick() -> Result<Vec<(String, f64)>, BenchError> {
    operations(EFFORT_QUICK)
}

fn operations(effort: usize) -> Result<Vec<(String, f64)>, BenchError> {
    let mut all = vec![(
        "clock".to_owned(),
        best(400 * effort, 500, || {
            black_box(clock::now());
        }),
    )];
    let null = best(400 * effort, 500, || {
        black_box(rustix::process::getppid());
    });
    all.push(("null system call".into(), null));
    for size in [100, 1_000, 65_536] {
        let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
        let copy = best(400 * effort, 2_000_000 / (size * 20).max(2_000), || {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        });
        all.push((format!("copy of {size} bytes"), copy));
    }
    for (name, nanoseconds) in [
        ("send of 100 bytes on loopback", send_only(effort)?),
        (
            "send and receive of 100 bytes on loopback",
            loopback_one_thread(effort)?,
        ),
        (
            "round trip between threads on loopback",
            loopback_two_threads(effort)?,
        ),
        ("wake of another thread and back", wake(effort)?),
        ("connect, accept, close on loopback", connect(effort)?),
        ("process start, wait", process_start(effort)?),
    ] {
        all.push((name.to_owned(), nanoseconds));
    }
    Ok(all)
}

/// Nanoseconds per call in the best of many batches. A floor is the undisturbed cost, so each batch
/// is short enough to fall between two disturbances.
fn best(batches: usize, count: usize, mut operation: impl FnMut()) -> f64 {
    let mut lowest = f64::INFINITY;
    for _ in 0..batches {
        let begin = clock::now();
        for _ in 0..count {
            operation();
        }
        lowest = lowest.min((clock::now() - begin) as f64 / count as f64);
    }
    lowest
}

fn pair() -> Result<(TcpStream, TcpStream), BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// As many sends as the socket's buffer holds, then one read of all of them that is not measured.
fn send_only(effort: usize) -> Result<f64, BenchError> {
    const SENDS: usize = 50;
    const BATCHES: usize = 100;
    let (mut near, mut far) = pair()?;
    let message = [1_u8; 100];
    let mut drain = vec![0_u8; SENDS * message.len()];
    let mut lowest = f64::INFINITY;
    for _ in 0..effort * BATCHES {
        let begin = clock::now();
        for _ in 0..SENDS {
            near.write_all(&message)?;
        }
        lowest = lowest.min((clock::now() - begin) as f64 / SENDS as f64);
        far.read_exact(&mut drain)?;
    }
    Ok(lowest)
}

fn loopback_one_thread(effort: usize) -> Result<f64, BenchError> {
    let (mut near, mut far) = pair()?;
    let mut message = [1_u8; 100];
    Ok(best(200 * effort, 20, || {
        // The pair is connected; a failure would result in an implausible figure.
        let _ = near.write_all(&message);
        let _ = far.read_exact(&mut message);
    }))
}

fn loopback_two_threads(effort: usize) -> Result<f64, BenchError> {
    let (mut near, mut far) = pair()?;
    let echo = thread::spawn(move || {
        let mut message = [0_u8; 100];
        while far.read_exact(&mut message).is_ok() && far.write_all(&message).is_ok() {}
    });
    let mut message = [1_u8; 100];
    let ns = best(300 * effort, 5, || {
        let _ = near.write_all(&message);
        let _ = near.read_exact(&mut message);
    });
    drop(near);
    // The thread ended with the connection.
    let _ = echo.join();
    Ok(ns)
}

fn wake(effort: usize) -> Result<f64, BenchError> {
    let (there, back) = (
        eventfd(0, EventfdFlags::CLOEXEC)?,
        eventfd(0, EventfdFlags::CLOEXEC)?,
    );
    const LAST: u64 = u64::MAX - 1;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = [0_u8; 8];
            while read(&there, &mut count).is_ok() && u64::from_ne_bytes(count) != LAST {
                let _ = write(&back, &1_u64.to_ne_bytes());
            }
        });
        let mut count = [0_u8; 8];
        let ns = best(300 * effort, 5, || {
            let _ = write(&there, &1_u64.to_ne_bytes());
            let _ = read(&back, &mut count);
        });
        let _ = write(&there, &LAST.to_ne_bytes());
        Ok(ns)
    })
}

fn connect(effort: usize) -> Result<f64, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok(best(100 * effort, 2, || {
        if let Ok(near) = TcpStream::connect(address) {
            let _ = listener.accept();
            drop(near);
        }
    }))
}

fn process_start(effort: usize) -> Result<f64, BenchError> {
    let mut command = Command::new("true");
    command.status()?;
    Ok(best(40 * effort, 1, || {
        let _ = command.status();
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_floor_is_a_positive_time() {
        let outcome = measure().expect("measured");
        assert!(outcome.figures.len() > 8);
        for figure in &outcome.figures {
            assert!(figure.value > 0.0 && figure.value < 1e8, "{figure:?}");
        }
        let (call, start) = (
            outcome.value("null system call"),
            outcome.value("process start, wait"),
        );
        assert!(call < start);
    }
}
