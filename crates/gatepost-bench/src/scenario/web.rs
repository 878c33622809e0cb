//! WEB: pages with one dynamic insertion point, in nine sizes, fetched as WebStone does.
//!
//! A few clients fetch back to back for a fixed time; by default each request has a connection
//! of its own, as the original's did. WebStone's figures: connections per second, errors per
//! second, Mbit/s with headers, response time from before `socket()` to after `close()`, connect
//! time, and Little's load factor (time spent in requests divided by test time).

use super::{Scenario, page};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{Closed, Conversation, Dialer, Loop, Part, Received, ResponseReader};
use crate::outcome::{Headline, Outcome};
use crate::peer::Definition;
use crate::process::{Machine, Sampler, Usage};
use crate::progress::Progress;
use crate::target::Target;
use serde::Serialize;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SIZES: &str = "317,1337,2357,5417,10517,20717,51317,102317,204317";
/// Size of the response, hits per second, as published in 1998.
const ORIGINAL: [(usize, f64); 9] = [
    (317, 84.18),
    (1_337, 81.04),
    (2_357, 78.62),
    (5_417, 70.13),
    (10_517, 59.24),
    (20_717, 43.18),
    (51_317, 22.52),
    (102_317, 13.09),
    (204_317, 6.49),
];
/// An answer that takes longer is no answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of WEB.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct WebArguments {
    /// Response sizes; {size} in the URL stands for each, a URL without it is fetched as it is
    #[arg(long, value_delimiter = ',', default_value = SIZES)]
    sizes: Vec<usize>,
    /// Clients that fetch at the same time
    #[arg(long, value_name = "N", default_value_t = 5)]
    clients: usize,
    /// Seconds for each size
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Fetch many pages over each connection, instead of one
    #[arg(long)]
    keep_alive: bool,
}

/// WEB.
pub struct Web {
    arguments: WebArguments,
}

impl Web {
    /// With these settings.
    pub const fn new(arguments: WebArguments) -> Self {
        Self { arguments }
    }
}

impl Scenario for Web {
    fn name(&self) -> &'static str {
        "web"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        let source = "PicLan-IP Coyote, 1998: two Pentium 200 MMX, WebStone with 5 threads";
        let headline = |(size, rate): &(usize, f64)| Headline::new(rate_name(*size), *rate, source);
        ORIGINAL.iter().map(headline).collect()
    }

    fn prepare_peer(&self, peer: &Definition, folder: &Path) -> Result<(), BenchError> {
        let Some(web) = &peer.web else { return Ok(()) };
        for &size in &self.arguments.sizes {
            let path = folder.join(web.file.replace("{size}", &size.to_string()));
            let write = || {
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                fs::write(&path, page::page(size, &web.insertion))
            };
            write().map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })?;
        }
        Ok(())
    }

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        let url = target.url("web", &["http"], "http://HOST:PORT/PATH")?;
        let address = url.address()?;
        let mut outcome = Outcome::default();
        let sampler = Sampler::start(target.process);
        outcome.original.push(heading());
        let mut sizes = self.arguments.sizes.as_slice();
        if !url.path.contains("{size}") {
            sizes = &sizes[..1.min(sizes.len())];
        }
        for (number, &size) in sizes.iter().enumerate() {
            let path = url.path.replace("{size}", &size.to_string());
            let path = if path.is_empty() {
                "/".to_owned()
            } else {
                path
            };
            check_page(target, address, &request(&url.host, &path, false))?;
            let before = target.process.and_then(Usage::of_tree);
            let done = number as f64 / sizes.len() as f64;
            let request = request(&url.host, &path, self.arguments.keep_alive);
            let measured = self.measure(address, request, |share, hits| {
                progress.update(done + share / sizes.len() as f64, || {
                    format!("{size} B, {hits:.0}/s")
                });
            })?;
            let after = target.process.and_then(Usage::of_tree);
            let cpu = before
                .zip(after)
                .map(|(b, a)| a.cpu_seconds() - b.cpu_seconds());
            measured.report(size, cpu, &mut outcome);
            if interrupted() {
                outcome.interrupted = true;
                break;
            }
        }
        outcome.set_costs(sampler.finish(), Machine::this().processors);
        Ok(outcome)
    }
}

fn rate_name(size: usize) -> String {
    format!("{size} B pages per second")
}

fn request(host: &str, path: &str, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gatepost-bench\r\n\
         Connection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// Fetches a page once: the figures of an error page, or of a page whose insertion point was sent
/// as it is written, would be worth nothing.
fn check_page(target: &Target, address: SocketAddr, request: &[u8]) -> Result<(), BenchError> {
    let fetch = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = fetch().map_err(|error| BenchError::server(target, error.to_string()))?;
    let text = String::from_utf8_lossy(&answer);
    let line = text.lines().next().unwrap_or_default();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    if !status.is_some_and(|code| (200..300).contains(&code)) {
        let path = String::from_utf8_lossy(request)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        return Err(BenchError::server(
            target,
            format!("answered {line:?} to {path:?}"),
        ));
    }
    if text.contains("{{ now()") || text.contains("<!--#echo") {
        return Err(BenchError::server(
            target,
            "the insertion point was sent, not its value",
        ));
    }
    Ok(())
}

/// What all clients write to.
struct Shared {
    request: Arc<[u8]>,
    keep_alive: bool,
    /// Clients that need a new connection.
    idle: Vec<usize>,
    hits: u64,
    errors: u64,
    bytes: u64,
    response: Latencies,
    connect: Latencies,
    /// Nanoseconds spent in requests, by all clients.
    in_requests: Nanoseconds,
}

/// One client's request in progress.
struct Client {
    number: usize,
    begun: Nanoseconds,
    reader: ResponseReader,
    whole: bool,
}

impl Client {
    fn count(&self, shared: &mut Shared) {
        let span = clock::now() - self.begun;
        shared.in_requests += span;
        if self.whole && (200..300).contains(&self.reader.status) {
            shared.hits += 1;
            shared.bytes += self.reader.bytes;
            shared.response.record(span);
        } else {
            shared.errors += 1;
        }
    }
}

impl Conversation<Shared> for Client {
    fn connected(&mut self, shared: &mut Shared, outgoing: &mut Vec<u8>) {
        shared.connect.record(clock::now() - self.begun);
        outgoing.extend_from_slice(&shared.request);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        _now: Nanoseconds,
        shared: &mut Shared,
        outgoing: &mut Vec<u8>,
    ) -> Received {
        match self.reader.read(bytes) {
            Part::More(taken) => Received::Taken(taken),
            Part::Malformed => Received::Broken,
            Part::Whole(taken) => {
                self.whole = true;
                if !shared.keep_alive {
                    return Received::Finished;
                }
                self.count(shared);
                self.whole = false;
                self.reader.reset();
                self.begun = clock::now();
                outgoing.extend_from_slice(&shared.request);
                Received::Taken(taken)
            }
        }
    }

    fn closed(&mut self, reason: Closed, shared: &mut Shared) {
        self.whole |= reason == Closed::ByServer && self.reader.ends_with_connection();
        // A kept connection that the server ends between two responses is no failed request.
        let between = shared.keep_alive && reason == Closed::ByServer && self.reader.bytes == 0;
        if !between {
            self.count(shared);
        }
        shared.idle.push(self.number);
    }
}

/// One size, measured.
struct Measured {
    seconds: f64,
    shared: Shared,
    by_second: Vec<u64>,
}

impl Web {
    fn measure(
        &self,
        address: SocketAddr,
        request: Vec<u8>,
        mut tell: impl FnMut(f64, f64),
    ) -> Result<Measured, BenchError> {
        let mut clients: Loop<Client> = Loop::new()?;
        let mut dialer = Dialer::new(address);
        let mut shared = Shared {
            request: request.into(),
            keep_alive: self.arguments.keep_alive,
            idle: (0..self.arguments.clients).collect(),
            hits: 0,
            errors: 0,
            bytes: 0,
            response: Latencies::default(),
            connect: Latencies::default(),
            in_requests: 0,
        };
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
                *last += shared.hits - counted;
            }
            counted = shared.hits;
            if now >= end || interrupted() {
                break;
            }
            tell(
                (now - begin) as f64 / (end - begin) as f64,
                rate(shared.hits, now - begin),
            );
            while let Some(number) = shared.idle.pop() {
                let begun = clock::now();
                let Ok(socket) = dialer.dial() else {
                    shared.errors += 1;
                    shared.idle.push(number);
                    break;
                };

                let reader = ResponseReader::default();
                clients.add(
                    socket,
                    Client {
                        number,
                        begun,
                        reader,
                        whole: false,
                    },
                )?;
            }
            clients.turn(end.min(now + clock::SECOND / 10), &mut shared)?;
        }
        let finish = clock::now();
        // Requests cut off by the end count for the load factor only.
        shared.in_requests += clients
            .conversations()
            .map(|client| finish - client.begun)
            .sum::<u64>();
        Ok(Measured {
            seconds: clock::seconds(finish - begin),
            shared,
            by_second,
        })
    }
}

fn rate(hits: u64, span: Nanoseconds) -> f64 {
    hits as f64 / clock::seconds(span.max(1))
}

fn heading() -> String {
    format!(
        "{:>7} {:>9} {:>10} {:>12} {:>8} {:>8} {:>11} {:>11} {:>6}",
        "size",
        "response",
        "conn/s",
        "bytes/s",
        "err/s",
        "Mbit/s",
        "response ms",
        "connect ms",
        "load"
    )
}

impl Measured {
    fn report(&self, size: usize, server_cpu: Option<f64>, outcome: &mut Outcome) {
        let Self {
            seconds,
            shared,
            by_second,
        } = self;
        let per_second = shared.hits as f64 / seconds;
        let bytes_per_second = shared.bytes as f64 / seconds;
        let errors_per_second = shared.errors as f64 / seconds;
        let megabits = bytes_per_second * 8.0 / 1e6;
        let (response, connect) = (shared.response.summary(), shared.connect.summary());
        let load = clock::seconds(shared.in_requests) / seconds;
        let length = shared.bytes / shared.hits.max(1);
        outcome.original.push(format!(
            "{size:>7} {length:>9} {per_second:>10.2} {bytes_per_second:>12.0} \
             {errors_per_second:>8.2} {megabits:>8.1} {:>11.3} {:>11.3} {load:>6.2}",
            response.mean_us / 1e3,
            connect.mean_us / 1e3,
        ));
        outcome.higher(rate_name(size), per_second, "/s");
        outcome.higher(format!("{size} B throughput"), megabits, "Mbit/s");
        outcome.lower(
            format!("{size} B errors per second"),
            errors_per_second,
            "/s",
        );
        outcome.neutral(format!("{size} B load factor"), load, "");
        if let Some(cpu) = server_cpu {
            let per_hit = cpu / shared.hits.max(1) as f64 * 1e6;
            outcome.lower(format!("{size} B server CPU per page"), per_hit, "µs");
        }
        outcome
            .latencies
            .push((format!("{size} B response"), response));
        outcome
            .latencies
            .push((format!("{size} B connect"), connect));
        outcome.counts_by_second.extend(by_second);
        if shared.errors > 0 {
            outcome
                .warnings
                .push(format!("{size} B: {} requests failed", shared.errors));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that answers every n-th request with an error, the rest with a short page.
    fn server(every_nth_fails: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let mut number = 0_usize;
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 1024];
                while let Ok(1..) = stream.read(&mut request) {
                    number += 1;
                    let fails = number.is_multiple_of(every_nth_fails);
                    let status = if fails { "500 Oh" } else { "200 OK" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\npage");
                    if stream.write_all(answer.as_bytes()).is_err()
                        || !text_of(&request).contains("keep-alive")
                    {
                        break;
                    }
                }
            }
        });
        address
    }

    fn text_of(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn measure(address: SocketAddr, keep_alive: bool) -> Measured {
        let clients = if keep_alive { 1 } else { 3 };
        let web = Web::new(WebArguments {
            sizes: vec![317],
            clients,
            seconds: 0.2,
            keep_alive,
        });
        web.measure(address, request("localhost", "/", keep_alive), |_, _| {})
            .expect("measured")
    }

    #[test]
    fn pages_are_counted_and_so_are_errors() {
        for keep_alive in [false, true] {
            let measured = measure(server(10), keep_alive);
            let Shared {
                hits,
                errors,
                bytes,
                ..
            } = &measured.shared;
            assert!(*hits > 20, "{hits} with keep-alive {keep_alive}");
            // One in ten, and up to three requests cut off by the end.
            assert!((*hits / 9).abs_diff(*errors) <= 3, "{hits} and {errors}");
            assert_eq!(
                *bytes,
                hits * "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".len() as u64
            );
            assert_eq!(measured.by_second.iter().sum::<u64>(), *hits);
            let load = clock::seconds(measured.shared.in_requests) / measured.seconds;
            assert!(load > 0.5 && load < 3.2, "{load}");
        }
    }

    #[test]
    fn an_error_page_is_found_before_the_measurement() {
        let address = server(1);
        let target = Target {
            name: "t".into(),
            endpoint: format!("http://{address}/page").parse().expect("a URL"),
            process: None,
            start_seconds: None,
        };
        let arguments = WebArguments {
            sizes: vec![317],
            clients: 1,
            seconds: 0.1,
            keep_alive: false,
        };
        let error = Web::new(arguments)
            .run(&target, &Progress::hidden())
            .expect_err("500");
        assert!(error.to_string().contains("500 Oh"), "{error}");
    }
}
