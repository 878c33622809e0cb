//! The generator's own cost of receiving: the CPU time of the receiving thread, measured with a
//! server that only sends, as fast and in as large pieces as possible.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use gatepost_message::Qos;
use rustix::time::{ClockId, clock_gettime};

use super::receive::{FanoutProgress, Receivers};
use super::settings::Plan;
use crate::clock;
use crate::error::BenchError;
use crate::pubsub::{BrokerEndpoint, MessageStamp};
use crate::target::Endpoint;

/// Messages sent.
const MESSAGES: u32 = 1_000_000;
/// Payload of each.
const SIZE: usize = 100;
/// Messages written at once.
const BATCH: u32 = 500;

/// CPU nanoseconds of the receiving thread for each message.
pub fn receive_cost_ns() -> Result<f64, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let plan = plan(&format!("mqtt://{}", listener.local_addr()?))?;
    let stage = FanoutProgress::default();
    stage.measure_between(1, u64::MAX);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let begin = thread_cpu_ns();
            let received = Receivers::run(&plan, &stage, 0, 1);
            received.map(|received| (thread_cpu_ns() - begin, received.in_time))
        });
        let sent = listener
            .accept()
            .and_then(|(stream, _)| flood(stream, &plan));
        while stage.received() < u64::from(MESSAGES) && sent.is_ok() && !receiving.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        stage.stop();
        sent?;
        match receiving.join() {
            Ok(result) => result.map(|(ns, count)| ns as f64 / count.max(1) as f64),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// One subscriber of one publisher.
fn plan(url: &str) -> Result<Plan, BenchError> {
    let malformed = || BenchError::Url(url.to_owned());
    let Endpoint::Url(url) = url.parse()? else {
        return Err(malformed());
    };
    let broker = BrokerEndpoint::of(&url)?.ok_or_else(malformed)?;
    Ok(Plan {
        subscribe_at: broker.clone(),
        publish_at: broker,
        qos: Qos::AtMostOnce,
        publishers: 1,
        subscribers: 1,
        rate: 1.0,
        size: SIZE,
        workers: 1,
        run: clock::now(),
        subscriber_share: 0..1,
        publisher_share: 0..1,
        clock_shift_ns: Vec::new(),
    })
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * clock::SECOND + time.tv_nsec as u64
}

/// Accepts the client, and sends all messages.
fn flood(mut stream: TcpStream, plan: &Plan) -> std::io::Result<()> {
    let mut request = [0; 4096];
    // CONNECT and CONNACK, SUBSCRIBE and SUBACK: one client, one subscription, one response each.
    let _ = stream.read(&mut request)?;
    stream.write_all(&[0x20, 2, 0, 0])?;
    let _ = stream.read(&mut request)?;
    stream.write_all(&[0x90, 3, 0, 1, 0])?;
    let topic = plan.topic(0);
    let mut payload = vec![b'.'; plan.size];
    let mut batch = Vec::new();
    for first in (0..MESSAGES).step_by(BATCH as usize) {
        batch.clear();
        for sequence in first..first + BATCH {
            MessageStamp {
                publisher: 0,
                sequence,
                due: clock::now(),
            }
            .write(&mut payload);
            let numbered = (Qos::AtMostOnce, None);
            plan.publish_at
                .publish(&topic, &payload, numbered, &mut batch);
        }
        stream.write_all(&batch)?;
    }
    Ok(())
}
