//! FANOUT: a few publishers at a fixed rate, thousands of subscribers.
//!
//! The publishers keep an open-loop schedule on a thread of their own; a message that could not be
//! sent in time is sent late, and its latency counts from when it was due. Each subscriber checks
//! the numbers inside the payloads, so that loss, doubles and disorder are counted exactly.

mod own_cost;
mod publish;
mod receive;
mod search;

pub use own_cost::receive_cost_ns;

use super::Scenario;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::outcome::{Headline, Outcome};
use crate::process::{Load, Machine, ProcessRecord, Sampler, Usage};
use crate::progress::Progress;
use crate::pubsub::{Dialect, STAMP_BYTES, Tally};
use crate::target::{Target, Url};
use gatepost_message::Qos;
use publish::{Published, Publishers};
use receive::{Receivers, Stage};
use serde::Serialize;
use std::thread;
use std::time::Duration;

/// How long all subscribers may take to be ready.
const READY_SECONDS: u64 = 120;
/// Between the publishers' being ready and the first message.
const LEAD: Nanoseconds = clock::SECOND / 5;
/// Delays of the schedule at p99 from which latencies are doubtful.
const LATE_US: f64 = 1_000.0;

/// Settings of FANOUT.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct FanoutArguments {
    /// The original's setting: 1 is 10 messages/s of 1,000 bytes, 2 is 35 messages/s of 100 bytes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    setting: u8,
    /// Publishers, each with a topic of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    publishers: u16,
    /// Subscribers, spread evenly over the topics
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    subscribers: usize,
    /// Messages per second of each publisher [default: by the setting]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Bytes of a message's payload, at least 28 [default: by the setting]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Seconds without a message after which the rest counts as lost
    #[arg(long, default_value_t = 2.0)]
    drain: f64,
    /// Quality of service, 0 or 1
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    qos: u8,
    /// Search the highest rate that holds, from --rate on, each tried for --seconds
    #[arg(long)]
    max: bool,
    /// Receiving threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
}

impl FanoutArguments {
    fn rate(&self) -> f64 {
        self.rate
            .unwrap_or(if self.setting == 1 { 10.0 } else { 35.0 })
    }

    fn size(&self) -> usize {
        self.size
            .unwrap_or(if self.setting == 1 { 1_000 } else { 100 })
    }

    fn qos(&self) -> Qos {
        if self.qos == 0 {
            Qos::AtMostOnce
        } else {
            Qos::AtLeastOnce
        }
    }
}

/// What publishers and subscribers must agree on.
#[derive(Clone)]
pub(crate) struct Plan {
    dialect: Dialect,
    address: std::net::SocketAddr,
    qos: Qos,
    publishers: u16,
    subscribers: usize,
    /// Messages per second of one publisher.
    rate: f64,
    size: usize,
    /// In the names of clients and topics, so that runs at one broker do not meet.
    run: u64,
}

impl Plan {
    fn topic(&self, publisher: u16) -> String {
        format!("bench/{:x}/{publisher}", self.run)
    }

    fn publisher_of(&self, subscriber: usize) -> u16 {
        (subscriber % usize::from(self.publishers)) as u16
    }

    fn subscribers_of(&self, publisher: u16) -> usize {
        let (publishers, publisher) = (usize::from(self.publishers), usize::from(publisher));
        (self.subscribers + publishers - 1 - publisher) / publishers
    }
}

/// FANOUT.
pub struct Fanout {
    arguments: FanoutArguments,
}

impl Fanout {
    /// With these settings.
    pub fn new(arguments: FanoutArguments) -> Result<Self, BenchError> {
        if arguments.size() < STAMP_BYTES {
            return Err(BenchError::Settings(format!(
                "--size must be at least {STAMP_BYTES}: the payload carries its number and time"
            )));
        }
        if arguments.rate() <= 0.0 || arguments.subscribers == 0 || arguments.workers == 0 {
            return Err(BenchError::Settings(
                "rate, subscribers and workers must be above 0".into(),
            ));
        }
        Ok(Self { arguments })
    }

    fn plan(&self, url: &Url, dialect: Dialect, rate: f64) -> Result<Plan, BenchError> {
        Ok(Plan {
            dialect,
            address: url.address()?,
            qos: self.arguments.qos(),
            publishers: self.arguments.publishers,
            subscribers: self.arguments.subscribers,
            rate,
            size: self.arguments.size(),
            run: clock::now(),
        })
    }
}

impl Scenario for Fanout {
    fn name(&self) -> &'static str {
        "fanout"
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self.arguments);
        settings["rate"] = self.arguments.rate().into();
        settings["size"] = self.arguments.size().into();
        settings
    }

    fn headlines(&self) -> Vec<Headline> {
        let (rate, cpu, memory) = match self.arguments.setting {
            1 => (30_000.0, 50.0, 287_960.0),
            _ => (105_000.0, 45.0, 342_172.0),
        };
        let source = format!(
            "ICE iPush 2.1, 2005, setting {}: Pentium 4 3.0 GHz, two client hosts, 1 Gbit/s",
            self.arguments.setting
        );
        vec![
            Headline::new("deliveries per second", rate, &source),
            Headline::new("server CPU", cpu, &source),
            Headline::new("server memory", memory, &source),
            Headline::new("lost", 0.0, &source),
        ]
    }

    fn run(&self, target: &Target, progress: &Progress) -> Result<Outcome, BenchError> {
        if self.arguments.max {
            search::highest_rate(self, target, progress)
        } else {
            self.run_at(self.arguments.rate(), target, progress)
        }
    }
}

impl Fanout {
    /// Measures once, at so many messages per second of each publisher.
    fn run_at(
        &self,
        rate: f64,
        target: &Target,
        progress: &Progress,
    ) -> Result<Outcome, BenchError> {
        const TAKES: &str = "mqtt://HOST:PORT, mqtt5://HOST:PORT or nats://HOST:PORT";
        let url = target.url("fanout", &["mqtt", "mqtt5", "nats"], TAKES)?;
        let dialect = Dialect::of(url).ok_or(BenchError::NoTarget)?;
        let plan = self.plan(url, dialect, rate)?;
        let stage = Stage::default();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.arguments.workers)
                .map(|worker| {
                    let (plan, stage, workers) = (&plan, &stage, self.arguments.workers);
                    scope.spawn(move || Receivers::run(plan, stage, worker, workers))
                })
                .collect();
            let conducted = self.conduct(target, &plan, &stage, progress);
            stage.stop();
            let mut received = Received::default();
            for worker in workers {
                match worker.join() {
                    Ok(Ok(of_worker)) => received.merge(of_worker),
                    Ok(Err(error)) => conducted
                        .is_ok()
                        .then_some(())
                        .map_or(Ok(()), |()| Err(error))?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(report(&plan, conducted?, received))
        })
    }
}

/// What the conductor saw of a run.
struct Conducted<'plan> {
    published: Published<'plan>,
    measured_seconds: f64,
    /// Of the server, from the first measured message to the last delivery.
    server_cpu_seconds: Option<f64>,
    costs: (Option<ProcessRecord>, ProcessRecord, Load),
    interrupted: bool,
}

/// What the receiving threads saw.
#[derive(Default)]
struct Received {
    latencies: Latencies,
    /// Deliveries that came in the measured time, whenever they were due: the throughput.
    in_time: u64,
    by_second: Vec<u64>,
    trackers: Vec<(u16, crate::pubsub::Tracker)>,
    foreign: u64,
    disconnected: Vec<String>,
}

impl Received {
    fn merge(&mut self, other: Self) {
        self.latencies.merge(&other.latencies);
        self.in_time += other.in_time;
        self.foreign += other.foreign;
        self.trackers.extend(other.trackers);
        self.disconnected.extend(other.disconnected);
        if self.by_second.len() < other.by_second.len() {
            self.by_second.resize(other.by_second.len(), 0);
        }
        for (mine, others) in self.by_second.iter_mut().zip(other.by_second) {
            *mine += others;
        }
    }
}

impl Fanout {
    /// Waits for the subscribers, lets the publishers play, and waits for the last deliveries.
    fn conduct<'plan>(
        &self,
        target: &Target,
        plan: &'plan Plan,
        stage: &Stage,
        progress: &Progress,
    ) -> Result<Conducted<'plan>, BenchError> {
        self.wait_until_ready(target, stage, progress)?;
        let publishers = Publishers::connect(plan)?;
        let begin = clock::now() + LEAD;
        let measure = begin + clock::from_seconds(self.arguments.warm_up);
        let end = measure + clock::from_seconds(self.arguments.seconds);
        stage.measure_between(measure, end);
        let cpu = || {
            target
                .process
                .and_then(Usage::of_tree)
                .map(|usage| usage.cpu_seconds())
        };
        let (published, costs, measured_until, cpu_before) = thread::scope(|scope| {
            let playing = scope.spawn(|| publishers.play(begin, end));
            clock::sleep_until(measure);
            let cpu_before = cpu();
            let sampler = Sampler::start(target.process);
            // The last message is due before the end; the measured time goes on until it.
            let failed = || playing.is_finished() && clock::now() + clock::SECOND < end;
            while clock::now() < end && !interrupted() && !failed() {
                let left = Duration::from_nanos(end.saturating_sub(clock::now()));
                thread::sleep(left.min(Duration::from_millis(50)));
                let done = (clock::now() - begin) as f64 / (end - begin) as f64;
                progress.update(done, || stage.describe(clock::now() - begin));
            }
            let measured_until = clock::now();
            let costs = sampler.finish();
            match playing.join() {
                Ok(published) => (published, costs, measured_until, cpu_before),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        let mut published = published?;
        self.drain(plan, stage, &mut published);
        let server_cpu_seconds = cpu_before.zip(cpu()).map(|(before, after)| after - before);
        Ok(Conducted {
            server_cpu_seconds,
            published,
            measured_seconds: clock::seconds(measured_until.min(end) - measure),
            costs,
            interrupted: interrupted(),
        })
    }

    fn wait_until_ready(
        &self,
        target: &Target,
        stage: &Stage,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        let wanted = self.arguments.subscribers;
        let deadline = clock::now() + READY_SECONDS * clock::SECOND;
        loop {
            let ready = stage.ready();
            if ready >= wanted {
                return Ok(());
            }
            if let Some(reason) = stage.failure() {
                return Err(BenchError::server(target, reason));
            }
            if interrupted() {
                return Err(BenchError::Interrupted);
            }
            if clock::now() > deadline {
                let reason = format!("only {ready} of {wanted} subscribers were ready in time");
                return Err(BenchError::server(target, reason));
            }
            progress.update(ready as f64 / wanted as f64, || {
                format!("{ready} subscribers")
            });
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until everything came, or nothing came for a while.
    fn drain(&self, plan: &Plan, stage: &Stage, published: &mut Published<'_>) {
        let expected = published.expected_deliveries(plan);
        let patience = clock::from_seconds(self.arguments.drain);
        let (mut last_count, mut last_change) = (stage.received(), clock::now());
        while last_count < expected && clock::now() - last_change < patience {
            thread::sleep(Duration::from_millis(5));
            published.collect_acknowledgements();
            let count = stage.received();
            if count != last_count {
                (last_count, last_change) = (count, clock::now());
            }
        }
    }
}

fn report(plan: &Plan, conducted: Conducted<'_>, received: Received) -> Outcome {
    let Conducted {
        published,
        measured_seconds,
        server_cpu_seconds,
        costs,
        interrupted,
    } = conducted;
    let mut outcome = Outcome {
        interrupted,
        ..Outcome::default()
    };
    let mut tally = Tally::default();
    for (publisher, tracker) in &received.trackers {
        tally.add(tracker.tally(published.sent_by(*publisher)));
    }
    let rate = received.in_time as f64 / measured_seconds;
    outcome.higher("deliveries per second", rate, "/s");
    let offered = plan.rate * plan.subscribers as f64;
    outcome.neutral("offered", offered, "/s");
    outcome.lower("lost", tally.lost as f64, "");
    outcome.lower("duplicates", tally.duplicates as f64, "");
    outcome.lower("out of order", tally.reordered as f64, "");
    let deliveries = received.latencies.count().max(1) as f64;
    if let Some(cpu_seconds) = server_cpu_seconds {
        outcome.lower(
            "server CPU per delivery",
            cpu_seconds / deliveries * 1e6,
            "µs",
        );
    }
    if let Some(server) = &costs.0 {
        let switches = server.voluntary_switches + server.involuntary_switches;
        let per_second = switches as f64 / server.seconds.max(1e-9);
        outcome.lower("server context switches", per_second, "/s");
    }
    let own_cpu = costs.1.cpu_seconds() / received.in_time.max(1) as f64;
    outcome.neutral("generator CPU per delivery", own_cpu * 1e6, "µs");
    outcome
        .latencies
        .push(("delivery".into(), received.latencies.summary()));
    let slip = published.slip.summary();
    outcome.latencies.push(("schedule".into(), slip));
    if slip.p99_us > LATE_US {
        let late = slip.p99_us / 1e3;
        outcome
            .warnings
            .push(format!("the schedule slipped: {late:.1} ms late at p99"));
    }
    if tally.lost > 0 {
        outcome
            .warnings
            .push(format!("{} messages were lost", tally.lost));
    }
    if received.foreign > 0 {
        outcome
            .warnings
            .push(format!("{} messages were none of ours", received.foreign));
    }
    if let Some(first) = received.disconnected.first() {
        let count = received.disconnected.len();
        outcome
            .warnings
            .push(format!("{count} subscribers were disconnected: {first}"));
    }
    if published.unacknowledged() > 0 {
        let count = published.unacknowledged();
        outcome
            .warnings
            .push(format!("{count} publications were never acknowledged"));
    }
    outcome.original = original_lines(plan, &received.by_second, rate, &tally);
    outcome.counts_by_second = received.by_second;
    outcome.set_costs(costs, Machine::this().processors);
    outcome
}

fn original_lines(plan: &Plan, by_second: &[u64], rate: f64, tally: &Tally) -> Vec<String> {
    let seconds: Vec<String> = by_second.iter().map(u64::to_string).collect();
    let dropped = if tally.lost == 0 {
        "none".to_owned()
    } else {
        tally.lost.to_string()
    };
    vec![
        format!(
            "{} publishers x {} messages/s of {} bytes, {} subscribers",
            plan.publishers, plan.rate, plan.size, plan.subscribers
        ),
        format!("Total message throughput: {rate:.0} msg/sec; dropped: {dropped}"),
        format!("by second: {}", seconds.join(" ")),
    ]
}
