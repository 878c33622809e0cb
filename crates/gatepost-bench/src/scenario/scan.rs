//! SCAN: a rule engine scores a set of mails; four columns of seconds.
//!
//! The original program printed the seconds to load the module, to construct the engine, to
//! compile the rules, and to scan all messages. A server does the first three before it answers,
//! so for a server they are: from its start until it accepts connections (where the bench started
//! it), until it answers a PING, and until it has scanned one small message, which makes it do
//! what it left for later. A command that prints four such columns itself is believed; of any
//! other the first three stay 0 and the fourth is its whole run.

use super::{Scenario, mail};
use crate::clock;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::outcome::{Headline, Outcome};
use crate::process::{Machine, Sampler};
use crate::progress::Progress;
use crate::target::{Endpoint, Target, Url};
use serde::Serialize;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// No scan takes longer, even in Perl on a large message.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// Settings of SCAN.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct ScanArguments {
    /// A message, or a folder of them; repeatable [default: 178 made here, sizes as the original's]
    #[arg(long = "messages", value_name = "PATH")]
    messages: Vec<PathBuf>,
    /// Take only the first so many messages
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Messages in progress at a time; the original scanned one
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency: usize,
}

/// SCAN with its messages in memory.
pub struct Scan {
    arguments: ScanArguments,
    files: Vec<PathBuf>,
    messages: Vec<Vec<u8>>,
    _folder: Option<mail::MessageFolder>,
}

impl Scan {
    /// Reads or makes the messages.
    pub fn new(arguments: ScanArguments) -> Result<Self, BenchError> {
        let mut files = Vec::new();
        for path in &arguments.messages {
            collect(path, &mut files)?;
        }
        let mut folder = None;
        if arguments.messages.is_empty() {
            let made = mail::MessageFolder::with_sizes(&mail::original_sizes())?;
            files = made.files().to_vec();
            folder = Some(made);
        }
        files.truncate(arguments.limit.unwrap_or(usize::MAX));
        if files.is_empty() {
            let path = arguments.messages.first().cloned().unwrap_or_default();
            return Err(BenchError::Data {
                path,
                reason: "no messages are there".into(),
            });
        }
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })
        };
        let messages = files.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self {
            arguments,
            files,
            messages,
            _folder: folder,
        })
    }
}

/// All files below a path, in the order of their names.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), BenchError> {
    let failed = |error| BenchError::File {
        path: path.to_owned(),
        error,
    };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().try_for_each(|entry| collect(entry, files))
}

impl Scenario for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn settings(&self) -> serde_json::Value {
        let sizes: Vec<usize> = self.messages.iter().map(Vec::len).collect();
        let mut settings = serde_json::json!(self.arguments);
        settings["count"] = sizes.len().into();
        settings["total_bytes"] = sizes.iter().sum::<usize>().into();
        settings
    }

    fn headlines(&self) -> Vec<Headline> {
        let source = "SpamAssassin 3.1.5 on Perl 5.8.8, 2006: 178 messages, the best";
        let worst = "SpamAssassin 3.1.5 on Perl 5.8.8, 2006: 178 messages, the worst";
        vec![
            Headline::new("messages per second", 24.18, source),
            Headline::new("messages per second", 20.67, worst),
        ]
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        vec![("children", self.arguments.concurrency.to_string())]
    }

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        let mut outcome = Outcome::default();
        let sampler = Sampler::start(target.process);
        let mut latencies = Latencies::default();
        let mut spam = None;
        let columns = match &target.endpoint {
            Endpoint::Command(words) => self.run_command(target, words)?,
            Endpoint::Url(_) => {
                let url = target.url(
                    "scan",
                    &["spamd", "http"],
                    "spamd://HOST, http://HOST/checkv2 or a command",
                )?;
                let server = Server::new(url)?;
                let mut columns = server.warm_up(target)?;
                let begin = clock::now();
                let scanned = self.scan_all(&server, target, progress)?;
                columns[3] = clock::seconds(clock::now() - begin);
                latencies = scanned.latencies;
                spam = Some(scanned.spam);
                columns
            }
        };
        let count = if spam.is_some() {
            latencies.count()
        } else {
            self.messages.len() as u64
        };
        outcome.interrupted = count < self.messages.len() as u64;
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
            outcome
                .latencies
                .push(("message".into(), latencies.summary()));
        }
        let costs = sampler.finish();
        if let Some(server) = &costs.0 {
            let per_message = server.cpu_seconds() / count.max(1) as f64;
            outcome.lower("server CPU per message", per_message * 1e6, "µs");
        }
        outcome.set_costs(costs, Machine::this().processors);
        Ok(outcome)
    }
}

/// What came of scanning all messages at a server.
#[derive(Default)]
struct Scanned {
    latencies: Latencies,
    spam: u64,
}

impl Scan {
    fn scan_all(
        &self,
        server: &Server,
        target: &Target,
        progress: &Progress,
    ) -> Result<Scanned, BenchError> {
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Scanned::default());
        let scan_some = |progress: Option<&Progress>| -> Result<(), BenchError> {
            let mut own = Scanned::default();
            while let Some(message) = self.messages.get(next.fetch_add(1, Ordering::Relaxed)) {
                if interrupted() {
                    break;
                }
                let begin = clock::now();
                own.spam += u64::from(server.scan(target, message)?);
                own.latencies.record(clock::now() - begin);
                if let Some(progress) = progress {
                    let done = next.load(Ordering::Relaxed);
                    let share = done as f64 / self.messages.len() as f64;
                    progress.update(share, || format!("{done} messages"));
                }
            }
            // Poisoned only if another worker panicked, and that is passed on by the scope.
            if let Ok(mut all) = all.lock() {
                all.latencies.merge(&own.latencies);
                all.spam += own.spam;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.arguments.concurrency)
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

    fn run_command(&self, target: &Target, words: &[String]) -> Result<[f64; 4], BenchError> {
        let (program, arguments) = words.split_first().ok_or(BenchError::NoTarget)?;
        let begin = clock::now();
        let output = Command::new(program)
            .args(arguments)
            .args(&self.files)
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

/// `a,b,c,d`, all numbers of seconds.
fn four_columns(line: &str) -> Option<[f64; 4]> {
    let columns: Vec<f64> = line
        .split(',')
        .map(|column| column.trim().parse().ok())
        .collect::<Option<_>>()?;
    columns.try_into().ok()
}

/// A scanning server; a connection per message, as its clients do it.
struct Server {
    url: Url,
    address: std::net::SocketAddr,
}

impl Server {
    fn new(url: &Url) -> Result<Self, BenchError> {
        Ok(Self {
            url: url.clone(),
            address: url.address()?,
        })
    }

    /// The first three columns.
    fn warm_up(&self, target: &Target) -> Result<[f64; 4], BenchError> {
        let begin = clock::now();
        self.ping(target)?;
        let answered = clock::now();
        self.scan(target, &mail::message(0, 1_000))?;
        let scanned = clock::now();
        Ok([
            target.start_seconds.unwrap_or(0.0),
            clock::seconds(answered - begin),
            clock::seconds(scanned - answered),
            0.0,
        ])
    }

    fn ping(&self, target: &Target) -> Result<(), BenchError> {
        if self.url.scheme == "spamd" {
            let answer = self.ask(target, &[b"PING SPAMC/1.5\r\n\r\n"])?;
            if !answer.contains("PONG") {
                return Err(BenchError::server(
                    target,
                    format!("no PONG but {answer:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Scans one message; whether it is spam.
    fn scan(&self, target: &Target, message: &[u8]) -> Result<bool, BenchError> {
        let length = message.len();
        if self.url.scheme == "spamd" {
            let head = format!("CHECK SPAMC/1.5\r\nContent-length: {length}\r\n\r\n");
            let answer = self.ask(target, &[head.as_bytes(), message])?;
            return spamd_verdict(&answer)
                .ok_or_else(|| BenchError::server(target, format!("answered {answer:?}")));
        }
        let Url { host, path, .. } = &self.url;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let answer = self.ask(target, &[head.as_bytes(), message])?;
        if !answer.starts_with("HTTP/1.1 200") {
            let line = answer.lines().next().unwrap_or_default().to_owned();
            return Err(BenchError::server(target, format!("answered {line:?}")));
        }
        Ok(
            answer.contains("\"action\":\"reject\"")
                || answer.contains("\"action\":\"add header\""),
        )
    }

    fn ask(&self, target: &Target, parts: &[&[u8]]) -> Result<String, BenchError> {
        let exchange = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.write_all(&parts.concat())?;
            if self.url.scheme == "spamd" {
                stream.shutdown(Shutdown::Write)?;
            }
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        match exchange() {
            Ok(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
            Err(error) => Err(BenchError::server(target, error.to_string())),
        }
    }
}

/// `SPAMD/1.1 0 EX_OK`, then `Spam: True ; 15.0 / 5.0`.
fn spamd_verdict(answer: &str) -> Option<bool> {
    let mut lines = answer.lines();
    let status = lines.next()?.strip_prefix("SPAMD/")?;
    if status.split(' ').nth(1)? != "0" {
        return None;
    }
    let spam = lines.find_map(|line| line.strip_prefix("Spam: "))?;
    Some(spam.split(' ').next()?.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn scan(count: usize) -> Scan {
        Scan::new(ScanArguments {
            messages: Vec::new(),
            limit: Some(count),
            concurrency: 2,
        })
        .expect("messages")
    }

    fn target(endpoint: &str) -> Target {
        Target {
            name: "t".into(),
            endpoint: endpoint.parse().expect("an endpoint"),
            process: None,
            start_seconds: Some(0.5),
        }
    }

    /// Answers as spamd does: spam is what has an even number of bytes.
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
            .iter()
            .filter(|message| message.len() % 2 == 0)
            .count();
        let outcome = scan.run(&target(&fake_spamd("0 EX_OK")), &Progress::hidden());
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.value("found to be spam"), Some(even as f64));
        assert_eq!(outcome.latencies[0].1.count, 30);
        assert_eq!(outcome.value("load"), Some(0.5));
        assert_eq!(
            four_columns(&outcome.original[0]).map(|c| c[3] > 0.0),
            Some(true)
        );
    }

    #[test]
    fn an_error_of_the_server_ends_the_run() {
        let result = scan(3).run(&target(&fake_spamd("75 EX_TEMPFAIL")), &Progress::hidden());
        assert!(
            result
                .expect_err("an error")
                .to_string()
                .contains("EX_TEMPFAIL")
        );
    }

    #[test]
    fn a_command_s_own_columns_are_believed() {
        let outcome = scan(4).run(&target("sh -c 'echo 1,2,3,8'"), &Progress::hidden());
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.value("messages per second"), Some(0.5));
        assert_eq!(outcome.original, ["1.000000,2.000000,3.000000,8.000000"]);
        assert!(scan(1).run(&target("false"), &Progress::hidden()).is_err());
    }
}
