//! CALLS: a procedure is called over persistent connections.
//!
//! CALL starts a client program for each call, as a mail server starts a filter. CALLS measures the
//! call protocol for a program that keeps its connection and sends the next call before it has
//! read the last response. Without a rate the load is a closed loop: each connection has a fixed
//! number of calls in flight. With a rate it is an open loop: calls are due at fixed times,
//! whatever the server does, and latency is measured from that time.

mod session;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::window::MeasurementWindow;
use super::{FloorOf, Scenario};
use crate::clock;
use crate::error::BenchError;
use crate::load::{Dialer, Loop};
use crate::outcome::{Headline, RunOutcome};
use crate::progress::RunProgress;
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;
use session::{CallTotals, CallerConnection};

/// Settings of CALLS.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct CallsArguments {
    /// Connections
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) connections: SweepValues<usize>,
    /// Calls in flight on each connection, if no rate is given
    #[arg(long, value_name = "N", default_value = "16")]
    in_flight: SweepValues<usize>,
    /// Calls per second over all connections, due at fixed times [default: as many as are answered]
    #[arg(long, value_name = "N", default_value = "0")]
    rate: SweepValues<f64>,
    /// The procedure
    #[arg(long, value_name = "PATH", default_value = "/sizecheck")]
    procedure: String,
    /// Message size announced by each call; no body is sent
    #[arg(long, value_name = "BYTES", default_value_t = 11_719)]
    size: u64,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    warm_up: f64,
}

impl Sweepable for CallsArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("connections", &mut self.connections),
            ("in-flight", &mut self.in_flight),
            ("rate", &mut self.rate),
        ]
    }
}

/// CALLS.
pub struct Calls {
    arguments: CallsArguments,
}

impl Calls {
    /// The scenario with these settings.
    pub fn new(arguments: CallsArguments) -> Result<Self, BenchError> {
        let path = &arguments.procedure;
        if !path.starts_with('/') || path.contains(char::is_control) {
            return Err(BenchError::Settings("--procedure is a path".into()));
        }
        if arguments.connections.get() == 0 || arguments.in_flight.get() == 0 {
            return Err(BenchError::Settings(
                "connections and calls in flight must be above 0".into(),
            ));
        }
        Ok(Self { arguments })
    }
}

impl Scenario for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        Vec::new()
    }

    fn floors(&self) -> Vec<FloorOf> {
        // Pipelined calls share their system calls, so no operation is needed for each call.
        Vec::new()
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let url = target.url("calls", &["call"], "call://HOST:PORT")?;
        let mut dialer = Dialer::new(url.address()?, false);
        let mut sessions: Loop<CallerConnection> = Loop::new()?;
        let (warm_up, seconds) = (self.arguments.warm_up, self.arguments.seconds);
        let mut window = MeasurementWindow::open(target, progress, warm_up, seconds)?;
        let mut shared = CallTotals::new(&self.arguments, window.begin);
        let rate = self.arguments.rate.get();
        let connections = self.arguments.connections.get();
        let mut made = 0_u64;
        while let Some(now) = window.turn(&mut shared.tally)? {
            while sessions.open() < connections {
                sessions.add(dialer.dial()?, CallerConnection::default())?;
            }
            let wake = window.next_phase(now);
            if rate > 0.0 {
                let due = (clock::seconds(now - window.start) * rate) as u64;
                let due_at = |number: u64| window.start + clock::from_seconds(number as f64 / rate);
                for number in made..due {
                    let index = number as usize % connections;
                    if let Some(session) = sessions.conversation(index) {
                        session.call_at(due_at(number));
                    }
                }
                send_due(&mut sessions, made..due, connections, &mut shared);
                made = due;
                sessions.turn_until(wake.min(due_at(made + 1)), &mut shared)?;
            } else {
                sessions.turn(wake.min(now + clock::SECOND / 10), &mut shared)?;
            }
        }
        window.close(&shared.tally, "call")
    }
}

/// Sends the calls that became due since the last turn: one write for each connection.
fn send_due(
    sessions: &mut Loop<CallerConnection>,
    due: Range<u64>,
    connections: usize,
    shared: &mut CallTotals,
) {
    let count = usize::try_from(due.end - due.start).unwrap_or(connections);
    for index in 0..connections.min(count) {
        let index = (due.start as usize + index) % connections;
        let session = sessions.conversation(index);
        let requests = session.map(|session| session.take_due(shared));
        sessions.send(index, &requests.unwrap_or_default(), shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    /// Answers calls one by one; fails every n-th.
    fn server(fail_every: u64) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut output = stream.try_clone().expect("a handle");
                    let mut calls = 0_u64;
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        if !line.is_empty() {
                            continue;
                        }
                        calls += 1;
                        let answer = if calls.is_multiple_of(fail_every) {
                            "FAIL no\n\n"
                        } else {
                            "DONE accept\ntext: fits\n\n"
                        };
                        if output.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn run(rate: f64) -> RunOutcome {
        let arguments = CallsArguments {
            connections: SweepValues::one(2),
            in_flight: SweepValues::one(3),
            rate: SweepValues::one(rate),
            procedure: "/sizecheck".into(),
            size: 7,
            seconds: 1.0,
            warm_up: 0.0,
        };
        let url = format!("call://{}", server(5));
        let target = RunningTarget::from_endpoint(url.parse().expect("a URL"));
        let calls = Calls::new(arguments).expect("settings");
        calls
            .run(&target, &RunProgress::hidden())
            .expect("an outcome")
    }

    #[test]
    fn answers_are_counted_and_failures_reported() {
        for rate in [0.0, 200.0] {
            let outcome = run(rate);
            let answered = outcome.latencies[0].summary.count;
            let failed = outcome.value("failed").expect("a count") as u64;
            assert!(answered >= 4, "{outcome:?}");
            // One in five of each of two connections.
            assert!((answered / 4).abs_diff(failed) <= 3, "{outcome:?}");
            assert_eq!(outcome.value("broken connections"), Some(0.0));
        }
    }

    #[test]
    fn an_open_loop_makes_no_more_calls_than_are_due() {
        let outcome = run(200.0);
        let answered = outcome.latencies[0].summary.count;
        let failed = outcome.value("failed").expect("a count") as u64;
        assert!(answered + failed <= 201, "{outcome:?}");
    }
}
