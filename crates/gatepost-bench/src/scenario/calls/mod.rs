//! CALLS: a procedure is asked by programs that stay, over connections that stay.
//!
//! CALL starts a client for each call, as a mail server starts a filter; here is what the call
//! protocol gives to a program that keeps its connection and sends the next call before it has
//! read the last answer. Closed loop: each connection has so many calls under way, and makes the
//! next when one is answered. With a rate, open loop: calls are due at fixed times, whatever the
//! server does, and a latency counts from then.

mod session;

use super::{FloorOf, Scenario};
use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::load::{Dialer, Loop};
use crate::outcome::{Headline, Outcome};
use crate::process::Sampler;
use crate::progress::Progress;
use crate::sweep::{Parameter, Sweepable, Swept};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use session::{Session, Shared};

/// Settings of CALLS.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct CallsArguments {
    /// Connections
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) connections: Swept<usize>,
    /// Calls under way on each connection, where no rate is given
    #[arg(long, value_name = "N", default_value = "16")]
    in_flight: Swept<usize>,
    /// Calls a second over all connections, due at fixed times [default: as many as are answered]
    #[arg(long, value_name = "N", default_value = "0")]
    rate: Swept<f64>,
    /// The procedure
    #[arg(long, value_name = "PATH", default_value = "/sizecheck")]
    procedure: String,
    /// Bytes of the message that each call tells of; no body is sent
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
    /// With these settings.
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
        // Pipelined calls share their system calls: no operation is needed for each.
        Vec::new()
    }

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        let url = target.url("calls", &["call"], "call://HOST:PORT")?;
        let mut dialer = Dialer::new(url.address()?);
        let mut sessions: Loop<Session> = Loop::new()?;
        progress.together()?;
        let start = clock::now();
        let begin = start + clock::from_seconds(self.arguments.warm_up);
        let end = begin + clock::from_seconds(self.arguments.seconds);
        let mut shared = Shared::new(&self.arguments, begin);
        let rate = self.arguments.rate.get();
        let connections = self.arguments.connections.get();
        let (mut sampler, mut made) = (None, 0_u64);
        loop {
            let now = clock::now();
            if now >= end || interrupted() {
                break;
            }
            if now >= begin && sampler.is_none() {
                sampler = Some(Sampler::start(target.watched.clone()));
            }
            if let Some(reason) = shared.tally.hopeless() {
                return Err(BenchError::server(target, reason));
            }
            while sessions.open() < connections {
                sessions.add(dialer.dial()?, Session::default())?;
            }
            let measured = now.saturating_sub(begin);
            progress.update(measured as f64 / (end - begin) as f64, || {
                shared.tally.describe(measured)
            });
            let wake = if now < begin { begin } else { end };
            if rate > 0.0 {
                // Due since the last turn: dealt out in turn, sent with one write each.
                let due = (clock::seconds(now - start) * rate) as u64;
                for number in made..due {
                    let at = start + clock::from_seconds(number as f64 / rate);
                    if let Some(session) = sessions.conversation(number as usize % connections) {
                        session.call_at(at);
                    }
                }
                for index in 0..connections.min(usize::try_from(due - made).unwrap_or(connections))
                {
                    let index = (made as usize + index) % connections;
                    let requests = sessions
                        .conversation(index)
                        .map(|session| session.take_due(&shared))
                        .unwrap_or_default();
                    sessions.send(index, &requests, &mut shared);
                }
                made = due;
                let next = start + clock::from_seconds((made + 1) as f64 / rate);
                sessions.turn_punctually(wake.min(next), &mut shared)?;
            } else {
                sessions.turn(wake.min(now + clock::SECOND / 10), &mut shared)?;
            }
        }
        let seconds = clock::seconds(clock::now().saturating_sub(begin).max(1));
        let mut outcome = Outcome {
            interrupted: interrupted(),
            ..Outcome::default()
        };
        shared.tally.report(seconds, &mut outcome);
        let costs = sampler.map(Sampler::finish).unwrap_or_default();
        progress.together()?;
        outcome.set_costs(costs, "call", shared.tally.taken());
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

    fn run(rate: f64) -> Outcome {
        let arguments = CallsArguments {
            connections: Swept::one(2),
            in_flight: Swept::one(3),
            rate: Swept::one(rate),
            procedure: "/sizecheck".into(),
            size: 7,
            seconds: 1.0,
            warm_up: 0.0,
        };
        let url = format!("call://{}", server(5));
        let target = Target::given(url.parse().expect("a URL"));
        let calls = Calls::new(arguments).expect("settings");
        calls.run(&target, &Progress::hidden()).expect("an outcome")
    }

    #[test]
    fn answers_are_counted_and_failures_told() {
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
