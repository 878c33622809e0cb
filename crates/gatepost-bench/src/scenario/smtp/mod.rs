//! SMTP: the number of messages per second that a server accepts over a few sessions.
//!
//! The load is a closed loop, as with mail servers: each session waits for each reply. The
//! generator pipelines only if the server offers it (RFC 2920), and then as a mail server does: the
//! envelope in one piece, then the body.

mod session;

use serde::{Deserialize, Serialize};

use super::window::MeasurementWindow;
use super::{FloorOf, Scenario};
use crate::bounds;
use crate::clock;
use crate::error::BenchError;
use crate::load::{Dialer, Loop, check_connections};
use crate::outcome::{Headline, RunOutcome};
use crate::progress::RunProgress;
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;
use session::{SmtpLoadSession, SmtpTotals};

/// Settings of SMTP.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct SmtpArguments {
    /// Sessions at the same time
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) sessions: SweepValues<usize>,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value = "4000")]
    size: SweepValues<usize>,
    /// Number of messages per connection
    #[arg(long, value_name = "N", default_value_t = 100)]
    per_connection: u64,
    /// Recipient
    #[arg(long, default_value = "bench@localhost")]
    recipient: String,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = bounds::seconds_above_0)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = bounds::seconds)]
    warm_up: f64,
}

impl Sweepable for SmtpArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![("sessions", &mut self.sessions), ("size", &mut self.size)]
    }
}

/// SMTP.
pub struct Smtp {
    arguments: SmtpArguments,
}

impl Smtp {
    /// The scenario with these settings.
    pub fn new(arguments: SmtpArguments) -> Result<Self, BenchError> {
        let forbidden = |c: char| c.is_control() || c == '<' || c == '>' || c == ' ';
        if arguments.recipient.contains(forbidden) || !arguments.recipient.contains('@') {
            return Err(BenchError::Settings("--recipient is an address".into()));
        }
        check_connections("sessions", arguments.sessions.get())?;
        let size = arguments.size.get();
        bounds::check("size", size, 0..=bounds::CONTENT_MAX_BYTES)?;
        if arguments.per_connection == 0 {
            return Err(BenchError::Settings(
                "--per-connection must be above 0".into(),
            ));
        }
        Ok(Self { arguments })
    }
}

impl Scenario for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        Vec::new()
    }

    fn floors(&self) -> Vec<FloorOf> {
        // Envelope and body are at least two exchanges.
        let exchange = "send and receive of 100 bytes on loopback";
        vec![FloorOf::new(
            "server CPU per message",
            &[exchange, exchange],
        )]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let url = target.url("smtp", &["smtp"], "smtp://HOST:PORT")?;
        let mut dialer = Dialer::new(url.address()?, false);
        let mut sessions: Loop<SmtpLoadSession> = Loop::new()?;
        let (warm_up, seconds) = (self.arguments.warm_up, self.arguments.seconds);
        let mut window = MeasurementWindow::open(target, progress, warm_up, seconds)?;
        let mut shared = SmtpTotals::new(&self.arguments, window.begin);
        while let Some(now) = window.turn(&mut shared.tally)? {
            while sessions.open() < self.arguments.sessions.get() {
                sessions.add(dialer.dial()?, SmtpLoadSession::default())?;
            }
            let wake = window.next_phase(now).min(now + clock::SECOND / 10);
            sessions.turn(wake, &mut shared)?;
        }
        let oldest = sessions
            .conversations()
            .filter_map(SmtpLoadSession::begun)
            .min();
        let waited = oldest.map(|begun| clock::now().saturating_sub(begun));
        let mut outcome = window.close(&shared.tally, "message")?;
        outcome.warn_of_waiting("message", waited);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    /// Accepts mail; refuses every n-th message after its body. Pipelines if `pipelining` is set.
    fn server(refuse_every: u64, pipelining: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(&stream, refuse_every, pipelining));
            }
        });
        address
    }

    fn serve(stream: &std::net::TcpStream, refuse_every: u64, pipelining: bool) {
        let mut output = stream.try_clone().expect("a handle");
        output.set_nodelay(true).expect("an option");
        let mut say = |text: &str| output.write_all(format!("{text}\r\n").as_bytes()).is_ok();
        say("220 here");
        let (mut in_body, mut count) = (false, 0_u64);
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = match line.as_str() {
                "." if in_body => {
                    in_body = false;
                    count += 1;
                    if count.is_multiple_of(refuse_every) {
                        "550 no"
                    } else {
                        "250 taken"
                    }
                }
                _ if in_body => continue,
                "DATA" => {
                    in_body = true;
                    "354 go on"
                }
                "QUIT" => "221 bye",
                _ if line.starts_with("EHLO") && pipelining => "250-me\r\n250 PIPELINING",
                _ => "250 ok",
            };
            if !say(answer) {
                return;
            }
        }
    }

    #[test]
    fn messages_are_counted_by_their_last_answer() {
        for pipelining in [false, true] {
            let arguments = SmtpArguments {
                sessions: SweepValues::one(2),
                size: SweepValues::one(500),
                per_connection: 10,
                recipient: "a@localhost".into(),
                seconds: 1.0,
                warm_up: 0.0,
            };
            let url = format!("smtp://{}", server(5, pipelining));
            let target = RunningTarget::from_endpoint(url.parse().expect("a URL"));
            let smtp = Smtp::new(arguments).expect("settings");
            let outcome = smtp
                .run(&target, &RunProgress::hidden())
                .expect("an outcome");
            let accepted = outcome.latencies[0].summary.count;
            let refused = outcome.value("refused").expect("a count") as u64;
            assert!(accepted >= 4, "{outcome:?}");
            // One in five; each session that was interrupted at the end lacks up to four.
            assert!(
                (accepted / 4).abs_diff(refused) <= 3,
                "{accepted} and {refused}"
            );
            assert_eq!(outcome.value("broken connections"), Some(0.0));
        }
    }
}
