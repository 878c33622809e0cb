//! SCAN: a rule engine scores a set of mails; four columns of seconds.
//!
//! The original program printed the seconds to load the module, to construct the engine, to compile
//! the rules, and to scan all messages. A server does the first three before it answers, so for a
//! server they are the times from its start until it accepts connections (if the bench started it),
//! until it answers a PING, and until it has scanned one small message, which completes its
//! deferred initialisation, and is idle. If a command prints four such columns itself, they are
//! used; for any other command the first three are 0 and the fourth is its total time.

mod messages;
mod server;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use super::{FloorOf, Scenario};
use crate::bounds;
use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::outcome::{Headline, RunOutcome};
use crate::process::Sampler;
use crate::progress::RunProgress;
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::{Endpoint, RunningTarget};
use messages::ScanCorpus;
use server::ScanServer;

/// Settings of SCAN.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct ScanArguments {
    /// A message, a Maildir or another folder of messages; repeatable [default: 178 mails of the
    /// public corpus below .corpora, which tests/fetch-corpus fetches; without it as --composed]
    #[arg(long = "messages", visible_alias = "mails", value_name = "PATH")]
    messages: Vec<PathBuf>,
    /// 178 generated mails, with the sizes of the original's, instead of real ones
    #[arg(long, conflicts_with = "messages")]
    #[serde(skip)]
    composed: bool,
    /// Use only this number of messages
    #[arg(long, value_name = "N")]
    limit: Option<SweepValues<usize>>,
    /// Messages in progress at a time; the original scanned one
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: SweepValues<usize>,
}

impl Sweepable for ScanArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("limit", &mut self.limit),
            ("concurrency", &mut self.concurrency),
        ]
    }
}

/// SCAN with its messages in memory.
pub struct Scan {
    arguments: ScanArguments,
    messages: ScanCorpus,
}

impl Scan {
    /// Reads or generates the messages.
    pub fn new(arguments: ScanArguments) -> Result<Self, BenchError> {
        let concurrency = arguments.concurrency.get();
        bounds::check("concurrency", concurrency, 1..=bounds::IN_PROGRESS_MAX)?;
        if arguments
            .limit
            .as_ref()
            .is_some_and(|limit| limit.get() == 0)
        {
            return Err(BenchError::Settings("--limit must be above 0".into()));
        }
        let messages = ScanCorpus::load(&arguments)?;
        Ok(Self {
            arguments,
            messages,
        })
    }
}

impl Scenario for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn settings(&self) -> serde_json::Value {
        let sizes: Vec<usize> = self.messages.contents.iter().map(Vec::len).collect();
        let mut settings = serde_json::json!(self.arguments);
        settings["sample"] = self.messages.sample.name().into();
        settings["count"] = sizes.len().into();
        settings["total_bytes"] = sizes.iter().sum::<usize>().into();
        settings
    }

    fn usual_runs(&self) -> usize {
        20
    }

    fn headlines(&self) -> Vec<Headline> {
        let source = "SpamAssassin 3.1.5 on Perl 5.8.8, 2006: 178 messages, the best";
        let worst = "SpamAssassin 3.1.5 on Perl 5.8.8, 2006: 178 messages, the worst";
        vec![
            Headline::new("messages per second", 24.18, source),
            Headline::new("messages per second", 20.67, worst),
        ]
    }

    fn floors(&self) -> Vec<FloorOf> {
        let connect = "connect, accept, close on loopback";
        let exchange = "send and receive of 100 bytes on loopback";
        vec![FloorOf::new("server CPU per message", &[connect, exchange])]
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        vec![("children", self.arguments.concurrency.get().to_string())]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let mut outcome = RunOutcome::default();
        let mut latencies = Latencies::default();
        let mut spam = None;
        let (columns, costs) = match &target.endpoint {
            Endpoint::Command(words) => {
                let sampler = Sampler::start(target.watched.clone());
                (self.run_command(target, words)?, sampler.finish())
            }
            Endpoint::Url(_) => {
                let url = target.url(
                    "scan",
                    &["spamd", "http"],
                    "spamd://HOST, http://HOST/checkv2 or a command",
                )?;
                let server = ScanServer::new(url)?;
                let mut columns = server.warm_up(target, &mut outcome)?;
                // The small message of the third column is not counted.
                let sampler = Sampler::start(target.watched.clone());
                let begin = clock::now();
                let scanned = self.scan_all(&server, target, progress)?;
                columns[3] = clock::seconds(clock::now() - begin);
                let costs = sampler.finish();
                latencies = scanned.latencies;
                spam = Some(scanned.spam);
                (columns, costs)
            }
        };
        let count = if spam.is_some() {
            latencies.count()
        } else {
            self.messages.contents.len() as u64
        };
        outcome.interrupted = count < self.messages.contents.len() as u64;
        let [load, construct, compile, scan] = columns;
        outcome
            .original
            .push(format!("{load:.6},{construct:.6},{compile:.6},{scan:.6}"));
        outcome.higher("messages per second", count as f64 / scan, "/s");
        outcome.lower("load", load, "s");
        outcome.lower("construct", construct, "s");
        outcome.lower("compile", compile, "s");
        outcome.lower("scan", scan, "s");
        if let Some(spam) = spam {
            outcome.neutral("found to be spam", spam as f64, "");
            outcome.latency("message", &latencies);
        }
        outcome.set_costs(costs, "message", count);
        Ok(outcome)
    }
}

/// The result of scanning all messages at a server.
#[derive(Default)]
struct ScanResult {
    latencies: Latencies,
    spam: u64,
}

impl Scan {
    fn scan_all(
        &self,
        server: &ScanServer,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<ScanResult, BenchError> {
        let begun = clock::now();
        let next = AtomicUsize::new(0);
        let all = Mutex::new(ScanResult::default());
        let scan_some = |progress: Option<&RunProgress>| -> Result<(), BenchError> {
            let mut own = ScanResult::default();
            while let Some(message) = self
                .messages
                .contents
                .get(next.fetch_add(1, Ordering::Relaxed))
            {
                if interrupted() {
                    break;
                }
                let begin = clock::now();
                own.spam += u64::from(server.scan(target, message)?);
                own.latencies.record(clock::now() - begin);
                if let Some(progress) = progress {
                    let done = next.load(Ordering::Relaxed);
                    let share = done as f64 / self.messages.contents.len() as f64;
                    let span = clock::now() - begun;
                    progress.update(share, || {
                        let rate = done as f64 / clock::seconds(span.max(1));
                        format!("{rate:.1}/s, {done} messages")
                    });
                }
            }
            // Poisoned only if another worker panicked, and the scope propagates that panic.
            if let Ok(mut all) = all.lock() {
                all.latencies.merge(&own.latencies);
                all.spam += own.spam;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.arguments.concurrency.get())
                .map(|_| scope.spawn(|| scan_some(None)))
                .collect();
            let mut result = scan_some(Some(progress));
            for other in others {
                match other.join() {
                    Ok(of_other) => result = result.and(of_other),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            result
        })?;
        all.into_inner()
            .map_err(|_| BenchError::server(target, "a worker failed"))
    }

    fn run_command(
        &self,
        target: &RunningTarget,
        words: &[String],
    ) -> Result<[f64; 4], BenchError> {
        let (program, arguments) = words.split_first().ok_or(BenchError::NoTarget)?;
        let begin = clock::now();
        let output = Command::new(program)
            .args(arguments)
            .args(&self.messages.files)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| BenchError::server(target, format!("{program}: {error}")))?;
        let whole = clock::seconds(clock::now() - begin);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let reason = format!("{}: {}", output.status, said.trim());
            return Err(BenchError::server(target, reason));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .lines()
            .last()
            .and_then(four_columns)
            .unwrap_or([0.0, 0.0, 0.0, whole]))
    }
}

/// `a,b,c,d`, all durations in seconds.
fn four_columns(line: &str) -> Option<[f64; 4]> {
    let columns: Vec<f64> = line
        .split(',')
        .map(|column| column.trim().parse().ok())
        .collect::<Option<_>>()?;
    columns.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn scan(count: usize) -> Scan {
        Scan::new(ScanArguments {
            messages: Vec::new(),
            composed: true,
            limit: Some(SweepValues::one(count)),
            concurrency: SweepValues::one(2),
        })
        .expect("messages")
    }

    fn target(endpoint: &str) -> RunningTarget {
        RunningTarget {
            start_seconds: Some(0.5),
            ..RunningTarget::from_endpoint(endpoint.parse().expect("an endpoint"))
        }
    }

    /// Answers as spamd does: a message with an even number of bytes is spam.
    fn fake_spamd(status: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = Vec::new();
                let _ = stream.read_to_end(&mut request);
                let answer = if request.starts_with(b"PING") {
                    "SPAMD/1.5 0 PONG\r\n".to_owned()
                } else {
                    let head = request
                        .windows(4)
                        .position(|w| w == b"\r\n\r\n")
                        .expect("a head");
                    let spam = (request.len() - head - 4) % 2 == 0;
                    let word = if spam { "True" } else { "False" };
                    format!("SPAMD/1.1 {status}\r\nSpam: {word} ; 1.0 / 5.0\r\n\r\n")
                };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        format!("spamd://{address}")
    }

    #[test]
    fn every_message_is_scanned_once() {
        let scan = scan(30);
        let even = scan
            .messages
            .contents
            .iter()
            .filter(|message| message.len() % 2 == 0)
            .count();
        let outcome = scan.run(&target(&fake_spamd("0 EX_OK")), &RunProgress::hidden());
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.value("found to be spam"), Some(even as f64));
        assert_eq!(outcome.latencies[0].summary.count, 30);
        assert_eq!(outcome.value("load"), Some(0.5));
        assert_eq!(
            four_columns(&outcome.original[0]).map(|c| c[3] > 0.0),
            Some(true)
        );
    }

    #[test]
    fn an_error_of_the_server_ends_the_run() {
        let result = scan(3).run(
            &target(&fake_spamd("75 EX_TEMPFAIL")),
            &RunProgress::hidden(),
        );
        assert!(
            result
                .expect_err("an error")
                .to_string()
                .contains("EX_TEMPFAIL")
        );
    }

    #[test]
    fn columns_that_a_command_prints_are_used() {
        let outcome = scan(4).run(&target("sh -c 'echo 1,2,3,8'"), &RunProgress::hidden());
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.value("messages per second"), Some(0.5));
        assert_eq!(outcome.original, ["1.000000,2.000000,3.000000,8.000000"]);
        assert!(
            scan(1)
                .run(&target("false"), &RunProgress::hidden())
                .is_err()
        );
    }
}
