//! WEB: pages with one dynamic insertion point, in nine sizes, fetched as WebStone does.
//!
//! A few clients fetch back to back for a fixed time; by default each request has a separate
//! connection, as in the original. WebStone's figures: connections per second, errors per second,
//! Mbit/s with headers, response time from before `socket()` to after `close()`, connect time, and
//! Little's load factor (time spent in requests divided by test time).

mod check;
mod client;
mod measure;
mod request;
mod schedule;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{FloorOf, Scenario, limit_clients, page};
use crate::bounds;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::load::{Dialer, check_connections};
use crate::outcome::{Headline, RunOutcome};
use crate::peer::PeerDefinition;
use crate::process::Sampler;
use crate::progress::RunProgress;
use crate::sweep::{Listed, Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;
pub(crate) use request::hide_header_values;

const SIZES: &str = "317,1337,2357,5417,10517,20717,51317,102317,204317";
/// The size of the response, and hits per second, as published in 1998.
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
/// Settings of WEB.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct WebArguments {
    /// Response sizes, all in every run; a range is swept. {size} in the URL stands for each; a URL
    /// without it is fetched unchanged
    #[arg(long, value_name = "BYTES,…", default_value = SIZES)]
    sizes: Listed<usize>,
    /// Clients that fetch at the same time
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) clients: SweepValues<usize>,
    /// Seconds for each size
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = bounds::seconds_above_0)]
    seconds: f64,
    /// Seconds to run before measuring each size
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = bounds::seconds)]
    warm_up: f64,
    /// Fetch many pages over each connection, instead of one
    #[arg(long)]
    keep_alive: bool,
    /// Pages per second over all clients, due at fixed times; response times count from then
    /// [default: each client fetches the next page when it has the last one]
    #[arg(long, value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<SweepValues<f64>>,
    /// A header field of each request, 'NAME: VALUE'; repeatable
    #[arg(long, value_name = "FIELD", value_parser = request::header_field)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    header: Vec<String>,
}

impl Sweepable for WebArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("clients", &mut self.clients),
            ("sizes", &mut self.sizes),
            ("rate", &mut self.rate),
        ]
    }
}

impl WebArguments {
    /// Restricts it to this number of the clients, with their part of the rate.
    pub(crate) fn limit_to(&mut self, clients: usize) {
        limit_clients(&mut self.clients, self.rate.as_mut(), clients);
    }
}

/// WEB.
pub struct Web {
    arguments: WebArguments,
}

impl Web {
    /// The scenario with these settings.
    pub fn new(arguments: WebArguments) -> Result<Self, BenchError> {
        check_connections("clients", arguments.clients.get())?;
        for &size in arguments.sizes.values() {
            bounds::check("sizes", size, 0..=bounds::CONTENT_MAX_BYTES)?;
        }
        if let Some(rate) = &arguments.rate {
            bounds::check_rate("rate", rate.get())?;
        }
        Ok(Self { arguments })
    }
}

impl Scenario for Web {
    fn name(&self) -> &'static str {
        "web"
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self.arguments);
        hide_header_values(&mut settings);
        settings
    }

    fn headlines(&self) -> Vec<Headline> {
        let source = "PicLan-IP Coyote, 1998: two Pentium 200 MMX, WebStone with 5 threads";
        // Swept sizes are chosen by the user.
        let known: &[(usize, f64)] = if self.arguments.sizes.is_swept() {
            &[]
        } else {
            &ORIGINAL
        };
        let headline = |(size, rate): &(usize, f64)| {
            Headline::new(format!("{size} B pages per second"), *rate, source)
        };
        known.iter().map(headline).collect()
    }

    fn floors(&self) -> Vec<FloorOf> {
        let exchange = "send and receive of 100 bytes on loopback";
        let connect = "connect, accept, close on loopback";
        let operations: &[&str] = if self.arguments.keep_alive {
            &[exchange]
        } else {
            &[connect, exchange]
        };
        let of_size = |size: &usize| {
            FloorOf::new(
                format!("{}server CPU per page", self.prefix(*size)),
                operations,
            )
        };
        self.arguments.sizes.values().iter().map(of_size).collect()
    }

    fn prepare_peer(&self, peer: &PeerDefinition, folder: &Path) -> Result<(), BenchError> {
        let Some(web) = &peer.web else { return Ok(()) };
        for &size in self.arguments.sizes.values() {
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

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        let url = target.url("web", &["http"], "http:// or https://HOST:PORT/PATH")?;
        let dialer = Dialer::new(url.address()?, url.is_encrypted);
        let mut outcome = RunOutcome::default();
        let sampler = Sampler::start(target.watched.clone());
        outcome.original.push(measure::heading());
        let mut pages = 0;
        let mut sizes = self.arguments.sizes.values();
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
            let length = check::check_page(target, url, &self.request(&url.host, &path, false))?;
            // A server may have shorter header fields, but not leave out half of the page.
            if url.path.contains("{size}") && length < size / 2 {
                outcome.warn(format!("{size} B: the whole response has only {length} B"));
            }
            progress.together()?;
            let before = target.usage();
            let done = number as f64 / sizes.len() as f64;
            let request = self.request(&url.host, &path, self.arguments.keep_alive);
            let measured =
                measure::measure(&self.arguments, dialer.clone(), request, |share, hits| {
                    progress.update(done + share / sizes.len() as f64, || {
                        format!("{size} B, {hits:.0}/s")
                    });
                })?;
            let after = target.usage();
            progress.together()?;
            let cpu = before
                .zip(after)
                .map(|(b, a)| a.cpu_seconds() - b.cpu_seconds());
            pages += measured.shared.pages;
            measured.report(size, &self.prefix(size), cpu, &mut outcome);
            if interrupted() {
                outcome.interrupted = true;
                break;
            }
        }
        outcome.set_costs(sampler.finish(), "page", pages);
        Ok(outcome)
    }
}

impl Web {
    fn request(&self, host: &str, path: &str, keep_alive: bool) -> Vec<u8> {
        request::request(host, path, keep_alive, &self.arguments.header)
    }

    /// The prefix of the names of a size's figures: empty if the sizes are swept, so that they are
    /// one figure with a curve.
    fn prefix(&self, size: usize) -> String {
        if self.arguments.sizes.is_swept() {
            String::new()
        } else {
            format!("{size} B ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::client::WebTotals;
    use super::measure::MeasuredSize;
    use super::*;
    use crate::clock;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;
    use std::time::Duration;

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
                        || text_of(&request).contains("close")
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

    fn arguments(clients: usize, keep_alive: bool) -> WebArguments {
        WebArguments {
            sizes: Listed::Together(vec![317]),
            clients: SweepValues::one(clients),
            seconds: 0.2,
            warm_up: 0.0,
            keep_alive,
            rate: None,
            header: Vec::new(),
        }
    }

    fn measure(address: SocketAddr, keep_alive: bool) -> MeasuredSize {
        let arguments = arguments(if keep_alive { 1 } else { 3 }, keep_alive);
        let request = request::request("localhost", "/", keep_alive, &[]);
        measure::measure(&arguments, Dialer::new(address, false), request, |_, _| {})
            .expect("measured")
    }

    #[test]
    fn pages_are_counted_and_so_are_errors() {
        for keep_alive in [false, true] {
            let measured = measure(server(10), keep_alive);
            let WebTotals {
                hits,
                errors,
                bytes,
                ..
            } = &measured.shared;
            assert!(*hits > 20, "{hits} with keep-alive {keep_alive}");
            // One in ten, and up to three requests interrupted at the end.
            assert!((*hits / 9).abs_diff(*errors) <= 3, "{hits} and {errors}");
            assert_eq!(
                *bytes,
                hits * "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".len() as u64
            );
            assert_eq!(
                measured.shared.timeline.seconds().iter().sum::<u64>(),
                *hits
            );
            let load = clock::seconds(measured.shared.in_requests) / measured.seconds;
            assert!(load > 0.5 && load < 3.2, "{load}");
        }
    }

    /// A server that answers one request after another, the first only after this time.
    fn server_that_stalls(stall: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let mut pause = Some(stall);
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 1024];
                while let Ok(1..) = stream.read(&mut request) {
                    thread::sleep(pause.take().unwrap_or_default());
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";
                    if stream.write_all(answer.as_bytes()).is_err()
                        || text_of(&request).contains("close")
                    {
                        break;
                    }
                }
            }
        });
        address
    }

    #[test]
    fn in_an_open_loop_a_stall_delays_every_page_that_was_due_meanwhile() {
        for keep_alive in [false, true] {
            let arguments = WebArguments {
                seconds: 1.0,
                rate: Some(SweepValues::one(100.0)),
                ..arguments(1, keep_alive)
            };
            let dialer = Dialer::new(server_that_stalls(Duration::from_millis(500)), false);
            let request = request::request("localhost", "/", keep_alive, &[]);
            let measured = measure::measure(&arguments, dialer, request, |_, _| {});
            let shared = measured.expect("measured").shared;
            let schedule = shared.schedule.expect("an open loop");
            assert_eq!(schedule.unanswered(), 0);
            assert_eq!(shared.response.count(), 100);
            // Half of the pages were due during the stall. A closed loop would see one slow page.
            assert!(shared.response.quantile_us(0.6) > 50_000.0);
            assert!(shared.response.quantile_us(0.99) > 400_000.0);
        }
    }

    #[test]
    fn pages_without_a_response_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let arguments = WebArguments {
            rate: Some(SweepValues::one(100.0)),
            ..arguments(2, true)
        };
        let request = request::request("localhost", "/", true, &[]);
        let dialer = Dialer::new(address, false);
        let measured = measure::measure(&arguments, dialer, request, |_, _| {}).expect("measured");
        let mut outcome = RunOutcome::default();
        measured.report(317, "", None, &mut outcome);
        // Those of 0.2 s: two wait for their response, the others for a client.
        assert_eq!(outcome.value("unanswered"), Some(20.0));
        assert_eq!(outcome.value("offered"), Some(100.0));
        drop(listener);
    }

    #[test]
    fn a_connection_that_is_closed_without_any_response_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // Read, so that the connection is closed in order and not reset.
                let _ = stream.read(&mut [0; 1024]);
            }
        });
        let measured = measure(address, true);
        assert!(measured.shared.errors > 0);
        assert_eq!(measured.shared.hits, 0);
    }

    #[test]
    fn an_insertion_point_of_any_peer_is_found() {
        for mark in [
            "{{ now() }}",
            "{{now | date}}",
            "<!--#echo var=\"X\" -->",
            "@@NOW@@",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("an address"));
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let answer = format!("HTTP/1.1 200 OK\r\n\r\n<p>The time is {mark}</p>");
                let _ = stream.write_all(answer.as_bytes());
            });
            let target = RunningTarget::from_endpoint(url.parse().expect("a URL"));
            let web = Web::new(arguments(1, false)).expect("settings");
            let error = web.run(&target, &RunProgress::hidden());
            let error = error.expect_err("not replaced").to_string();
            assert!(error.contains("insertion point"), "{error}");
            serving.join().expect("served");
        }
    }

    #[test]
    fn an_error_page_is_found_before_the_measurement() {
        let address = server(1);
        let target =
            RunningTarget::from_endpoint(format!("http://{address}/page").parse().expect("a URL"));
        let web = Web::new(arguments(1, false)).expect("settings");
        let error = web.run(&target, &RunProgress::hidden()).expect_err("500");
        assert!(error.to_string().contains("500 Oh"), "{error}");
    }
}
