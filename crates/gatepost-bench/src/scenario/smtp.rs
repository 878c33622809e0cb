//! SMTP: mail comes in over a few sessions; how many messages are taken per second.
//!
//! Closed loop, as mail servers send: each session waits for each answer. The generator pipelines
//! only where the server offers it (RFC 2920), and then as a mail server would: envelope in one
//! piece, then the body.

use super::{Scenario, mail};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{Closed, Conversation, Dialer, Loop, Received};
use crate::outcome::{Headline, Outcome};
use crate::process::{Machine, Sampler};
use crate::progress::Progress;
use crate::target::Target;
use memchr::memchr;
use serde::Serialize;

/// Longest line of a reply.
const LINE_MAX_BYTES: usize = 4096;

/// Settings of SMTP.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct SmtpArguments {
    /// Sessions at the same time
    #[arg(long, value_name = "N", default_value_t = 20)]
    sessions: usize,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 4_000)]
    size: usize,
    /// Messages over one connection, before it is closed
    #[arg(long, value_name = "N", default_value_t = 100)]
    per_connection: u64,
    /// Recipient
    #[arg(long, default_value = "bench@localhost")]
    recipient: String,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// SMTP.
pub struct Smtp {
    arguments: SmtpArguments,
}

impl Smtp {
    /// With these settings.
    pub fn new(arguments: SmtpArguments) -> Result<Self, BenchError> {
        let forbidden = |c: char| c.is_control() || c == '<' || c == '>' || c == ' ';
        if arguments.recipient.contains(forbidden) || !arguments.recipient.contains('@') {
            return Err(BenchError::Settings("--recipient is an address".into()));
        }
        if arguments.sessions == 0 || arguments.per_connection == 0 {
            return Err(BenchError::Settings(
                "sessions and messages must be above 0".into(),
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

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        let url = target.url("smtp", &["smtp"], "smtp://HOST:PORT")?;
        let mut dialer = Dialer::new(url.address()?);
        let mut sessions: Loop<Session> = Loop::new()?;
        let mut shared = Shared::new(&self.arguments);
        let sampler = Sampler::start(target.process);
        let begin = clock::now();
        let end = begin + clock::from_seconds(self.arguments.seconds);
        let mut by_second = vec![0];
        let mut counted = 0;
        loop {
            let now = clock::now();
            while now >= begin + by_second.len() as u64 * clock::SECOND {
                by_second.push(0);
            }
            if let Some(last) = by_second.last_mut() {
                *last += shared.accepted - counted;
            }
            counted = shared.accepted;
            if now >= end || interrupted() {
                break;
            }
            if shared.accepted == 0
                && let Some(reason) = shared.failure.take()
            {
                return Err(BenchError::server(target, reason));
            }
            while sessions.open() < self.arguments.sessions {
                sessions.add(dialer.dial()?, Session::default())?;
            }
            let share = (now - begin) as f64 / (end - begin) as f64;
            progress.update(share, || format!("{} messages", shared.accepted));
            sessions.turn(end.min(now + clock::SECOND / 10), &mut shared)?;
        }
        let seconds = clock::seconds(clock::now() - begin);
        let mut outcome = Outcome {
            interrupted: interrupted(),
            ..Outcome::default()
        };
        shared.report(seconds, &mut outcome);
        outcome.counts_by_second = by_second;
        let costs = sampler.finish();
        if let Some(server) = &costs.0 {
            let per_message = server.cpu_seconds() / shared.accepted.max(1) as f64;
            outcome.lower("server CPU per message", per_message * 1e6, "µs");
        }
        outcome.set_costs(costs, Machine::this().processors);
        Ok(outcome)
    }
}

struct Shared {
    envelope: String,
    body: Vec<u8>,
    per_connection: u64,
    accepted: u64,
    refused: u64,
    broken: u64,
    latencies: Latencies,
    failure: Option<String>,
}

impl Shared {
    fn new(arguments: &SmtpArguments) -> Self {
        let mut body = mail::message(1, arguments.size);
        // Lines of the generated text never begin with a dot, so nothing needs stuffing.
        body.extend_from_slice(b"\r\n.\r\n");
        Self {
            envelope: format!(
                "MAIL FROM:<sender@example.net>\r\nRCPT TO:<{}>\r\nDATA\r\n",
                arguments.recipient
            ),
            body,
            per_connection: arguments.per_connection,
            accepted: 0,
            refused: 0,
            broken: 0,
            latencies: Latencies::default(),
            failure: None,
        }
    }

    fn report(&self, seconds: f64, outcome: &mut Outcome) {
        outcome.higher("messages per second", self.accepted as f64 / seconds, "/s");
        outcome.lower("refused", self.refused as f64, "");
        outcome.lower("broken connections", self.broken as f64, "");
        outcome
            .latencies
            .push(("message".into(), self.latencies.summary()));
        if let Some(reason) = &self.failure {
            outcome.warnings.push(format!("first failure: {reason}"));
        }
    }
}

/// What the next reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Awaiting {
    #[default]
    Greeting,
    Hello,
    From,
    Recipient,
    Data,
    Body,
    Goodbye,
}

#[derive(Default)]
struct Session {
    awaiting: Awaiting,
    pipelining: bool,
    /// Of this message, so far.
    refused: bool,
    messages: u64,
    begun: Nanoseconds,
}

impl Session {
    /// Begins a message, or ends the session after the last.
    fn next_message(&mut self, now: Nanoseconds, shared: &Shared, outgoing: &mut Vec<u8>) {
        if self.messages >= shared.per_connection {
            outgoing.extend_from_slice(b"QUIT\r\n");
            self.awaiting = Awaiting::Goodbye;
            return;
        }
        self.begun = now;
        self.refused = false;
        self.awaiting = Awaiting::From;
        self.send_command(0, shared, outgoing);
    }

    /// Sends the n-th line of the envelope, or with pipelining all of it at the first.
    fn send_command(&self, number: usize, shared: &Shared, outgoing: &mut Vec<u8>) {
        if self.pipelining {
            if number == 0 {
                outgoing.extend_from_slice(shared.envelope.as_bytes());
            }
        } else if let Some(line) = shared.envelope.split_inclusive("\r\n").nth(number) {
            outgoing.extend_from_slice(line.as_bytes());
        }
    }

    /// Takes the last line of a reply; whether the session goes on.
    fn reply(
        &mut self,
        line: &[u8],
        now: Nanoseconds,
        shared: &mut Shared,
        outgoing: &mut Vec<u8>,
    ) -> bool {
        let positive = matches!(line.first(), Some(b'2' | b'3'));
        if !positive {
            self.refused = true;
            shared
                .failure
                .get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
        }
        match self.awaiting {
            Awaiting::Greeting => {
                outgoing.extend_from_slice(b"EHLO bench.example.net\r\n");
                self.awaiting = Awaiting::Hello;
                return positive;
            }
            Awaiting::Hello => {
                self.next_message(now, shared, outgoing);
                return positive;
            }
            Awaiting::From => {
                self.awaiting = Awaiting::Recipient;
                self.send_command(1, shared, outgoing);
            }
            Awaiting::Recipient => {
                self.awaiting = Awaiting::Data;
                self.send_command(2, shared, outgoing);
            }
            Awaiting::Data if positive => {
                self.awaiting = Awaiting::Body;
                outgoing.extend_from_slice(&shared.body);
            }
            Awaiting::Data | Awaiting::Body => {
                self.messages += 1;
                if self.refused {
                    shared.refused += 1;
                } else {
                    shared.accepted += 1;
                    shared.latencies.record(now - self.begun);
                }
                self.next_message(now, shared, outgoing);
            }
            Awaiting::Goodbye => return false,
        }
        true
    }
}

impl Conversation<Shared> for Session {
    fn connected(&mut self, _shared: &mut Shared, _outgoing: &mut Vec<u8>) {}

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        shared: &mut Shared,
        outgoing: &mut Vec<u8>,
    ) -> Received {
        let mut taken = 0;
        while let Some(end) = memchr(b'\n', &bytes[taken..]) {
            let line = bytes[taken..taken + end].trim_ascii_end();
            taken += end + 1;
            self.pipelining |= self.awaiting == Awaiting::Hello && line.ends_with(b"PIPELINING");
            // All lines of a reply but the last have a dash after the code (RFC 5321 § 4.2.1).
            if line.get(3) == Some(&b'-') {
                continue;
            }
            if !self.reply(line, now, shared, outgoing) {
                return Received::Finished;
            }
        }
        if bytes.len() - taken > LINE_MAX_BYTES {
            return Received::Broken;
        }
        Received::Taken(taken)
    }

    fn closed(&mut self, reason: Closed, shared: &mut Shared) {
        if self.awaiting != Awaiting::Goodbye {
            shared.broken += 1;
            shared
                .failure
                .get_or_insert_with(|| format!("{reason:?} awaiting {:?}", self.awaiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    /// Takes mail; refuses every n-th message after its body. Pipelines where told to.
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
                sessions: 2,
                size: 500,
                per_connection: 10,
                recipient: "a@localhost".into(),
                seconds: 0.3,
            };
            let target = Target {
                name: "t".into(),
                endpoint: format!("smtp://{}", server(5, pipelining))
                    .parse()
                    .expect("a URL"),
                process: None,
                start_seconds: None,
            };
            let smtp = Smtp::new(arguments).expect("settings");
            let outcome = smtp.run(&target, &Progress::hidden()).expect("an outcome");
            let accepted = outcome.latencies[0].1.count;
            let refused = outcome.value("refused").expect("a count") as u64;
            assert!(accepted >= 4, "{outcome:?}");
            // One in five; sessions cut off by the end are short of up to four each.
            assert!(
                (accepted / 4).abs_diff(refused) <= 3,
                "{accepted} and {refused}"
            );
            assert_eq!(outcome.value("broken connections"), Some(0.0));
        }
    }
}
