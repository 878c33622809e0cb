//! CALLS: a procedure is called over persistent connections.
//!
//! CALL starts a client program for each call, as a mail server starts a filter. CALLS measures the
//! call protocol for a program that keeps its connection and sends the next call before it has
//! read the last response. Without a rate the load is a closed loop: each connection has a fixed
//! number of calls in flight. With a rate it is an open loop: calls are due at fixed times,
//! whatever the server does, and latency is measured from that time (`schedule`).

mod schedule;
mod session;

use serde::{Deserialize, Serialize};

use super::window::MeasurementWindow;
use super::{FloorOf, Scenario, limit_clients};
use crate::bounds;
use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::load::{Dialer, Loop, check_connections};
use crate::outcome::{Headline, RunOutcome};
use crate::progress::RunProgress;
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;
use schedule::CallSchedule;
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
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = bounds::seconds_above_0)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = bounds::seconds)]
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

impl CallsArguments {
    /// Restricts it to this number of the connections, with their part of the rate.
    pub(crate) fn limit_to(&mut self, connections: usize) {
        limit_clients(&mut self.connections, Some(&mut self.rate), connections);
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
        check_connections("connections", arguments.connections.get())?;
        let in_flight = arguments.in_flight.get();
        bounds::check("in-flight", in_flight, 1..=bounds::IN_PROGRESS_MAX)?;
        if arguments.rate.get() != 0.0 {
            bounds::check_rate("rate", arguments.rate.get())?;
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
        let mut shared = CallTotals::new(&self.arguments, window.begin, window.end);
        let rate = self.arguments.rate.get();
        let mut schedule = (rate > 0.0).then(|| CallSchedule::new(window.start, rate));
        let connections = self.arguments.connections.get();
        while let Some(now) = window.turn(&mut shared.tally)? {
            while sessions.open() < connections {
                sessions.add(dialer.dial()?, CallerConnection::default())?;
            }
            let wake = window.next_phase(now);
            if let Some(schedule) = &mut schedule {
                let next = schedule.send_due(now, connections, &mut sessions, &mut shared);
                sessions.turn_until(wake.min(next), &mut shared)?;
            } else {
                sessions.turn(wake.min(now + clock::SECOND / 10), &mut shared)?;
            }
        }
        let oldest = sessions
            .conversations()
            .filter_map(CallerConnection::oldest)
            .min();
        let waited = oldest.map(|begun| clock::now().saturating_sub(begun));
        if let Some(schedule) = schedule.as_mut().filter(|_| !interrupted()) {
            // A generator that was late may not have sent the last ones.
            let last = window.end.saturating_sub(1);
            schedule.send_due(last, connections, &mut sessions, &mut shared);
            schedule::await_answers(&mut sessions, &mut shared)?;
        }
        let mut outcome = window.close(&shared.tally, "call")?;
        match &schedule {
            Some(schedule) => schedule.report(&shared, &mut outcome),
            None => outcome.warn_of_waiting("call", waited),
        }
        Ok(outcome)
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

    /// A server that answers this number of calls, and then no more.
    fn server_that_stops(answers: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut output = stream.try_clone().expect("a handle");
            let lines = BufReader::new(stream).lines().map_while(Result::ok);
            for (number, _) in lines.filter(String::is_empty).enumerate() {
                if number < answers && output.write_all(b"DONE accept\n\n").is_err() {
                    return;
                }
            }
        });
        address
    }

    fn run(rate: f64) -> RunOutcome {
        run_at(server(5), 2, rate)
    }

    fn run_at(server: SocketAddr, connections: usize, rate: f64) -> RunOutcome {
        let arguments = CallsArguments {
            connections: SweepValues::one(connections),
            in_flight: SweepValues::one(3),
            rate: SweepValues::one(rate),
            procedure: "/sizecheck".into(),
            size: 7,
            seconds: 1.0,
            warm_up: 0.0,
        };
        let url = format!("call://{server}");
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

    #[test]
    fn a_share_of_the_connections_has_its_share_of_the_rate() {
        let mut arguments = CallsArguments {
            connections: SweepValues::one(20),
            in_flight: SweepValues::one(1),
            rate: SweepValues::one(1_000.0),
            procedure: "/".into(),
            size: 0,
            seconds: 1.0,
            warm_up: 0.0,
        };
        arguments.limit_to(5);
        assert_eq!(arguments.connections.get(), 5);
        assert!((arguments.rate.get() - 250.0).abs() < 1e-9);
    }

    #[test]
    fn a_call_is_sent_when_it_is_due_not_when_the_next_one_is() {
        // One call in 250 ms: a call that waited for the time of the next one took that long.
        let outcome = run_at(server(1_000), 1, 4.0);
        let latency = &outcome.latencies[0].summary;
        assert_eq!(latency.count, 4, "{outcome:?}");
        assert!(latency.minimum_us < 200_000.0, "{latency:?}");
    }

    #[test]
    fn calls_without_an_answer_are_counted() {
        let outcome = run_at(server_that_stops(30), 1, 100.0);
        assert_eq!(outcome.value("unanswered"), Some(70.0), "{outcome:?}");
        assert_eq!(outcome.latencies[0].summary.count, 30);
        assert!(outcome.warnings.iter().any(|one| one.contains("70 calls")));
        assert_eq!(outcome.value("offered"), Some(100.0));
    }

    #[test]
    fn in_a_closed_loop_a_call_that_waits_at_the_end_is_reported() {
        let outcome = run_at(server_that_stops(30), 1, 0.0);
        let waits = |one: &String| one.contains("no answer") && one.contains("call");
        assert!(outcome.warnings.iter().any(waits), "{outcome:?}");
        assert!(!run(0.0).warnings.iter().any(waits));
    }
}
