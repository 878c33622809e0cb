//! FANOUT's settings, and the parameters that publishers and subscribers share.

use std::ops::Range;

use gatepost_message::Qos;
use gatepost_settings::{ByteSize, Period};
use serde::Serialize;

use crate::bounds;
use crate::clock;
use crate::error::BenchError;
use crate::pubsub::{BrokerEndpoint, LoginArguments, STAMP_BYTES};
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::{Endpoint, RunningTarget, Url};

const TAKES: &str = "mqtt://, mqtt5://, ws:// or ws5:// (MQTT in WebSocket), nats://, redis://, \
                     sse:// or websocket://; over TLS mqtts://, wss:// or tls:// (NATS)";
/// More receiving threads than any host has processors.
const WORKERS_MAX: usize = 1_024;
const SCHEMES: [&str; 8] = [
    "mqtt",
    "mqtt5",
    "ws",
    "ws5",
    "nats",
    "redis",
    "sse",
    "websocket",
];

/// Settings of FANOUT.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub struct FanoutArguments {
    /// The original's setting: 1 is 10 messages/s of 1,000 bytes, 2 is 35 messages/s of 100 bytes
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=2),
    )]
    pub(super) setting: u8,
    /// Publishers, each with a separate topic
    #[arg(long, value_name = "N", default_value = "5")]
    pub(super) publishers: SweepValues<u16>,
    /// Subscribers, spread evenly over the topics
    #[arg(long, value_name = "N", default_value = "3000")]
    pub(super) subscribers: SweepValues<usize>,
    /// Messages per second of each publisher [default: by the setting]
    #[arg(long, value_name = "N")]
    pub(super) rate: Option<SweepValues<f64>>,
    /// Bytes of a message's payload, at least 28 [default: by the setting]
    #[arg(long, value_name = "BYTES")]
    pub(super) size: Option<SweepValues<usize>>,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = bounds::seconds_above_0)]
    pub(crate) seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = bounds::seconds)]
    pub(crate) warm_up: f64,
    /// Seconds without a message after which the rest counts as lost
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = bounds::seconds)]
    pub(crate) drain: f64,
    /// Quality of service of MQTT, 0 to 2
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(super) qos: u8,
    /// Search for the highest sustainable rate, starting at --rate, each tried for --seconds:
    /// nothing is lost, and --max-latency and --max-memory are kept
    #[arg(long)]
    pub(super) max: bool,
    /// The maximum p99 latency of a sustained rate [default: 100ms]
    #[arg(long, value_name = "PERIOD", requires = "max")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_latency: Option<Period>,
    /// The maximum resident memory of the server at a sustained rate [default: any]
    #[arg(long, value_name = "SIZE", requires = "max")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_memory: Option<ByteSize>,
    /// Receiving threads, on each agent if there are several hosts
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) workers: SweepValues<usize>,
    /// The publishers' target, if it is another one: a URL, http:// for POST requests
    #[arg(long, value_name = "URL")]
    pub(super) publish: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) login: LoginArguments,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) hosts: crate::hosts::HostArguments,
}

impl Sweepable for FanoutArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("publishers", &mut self.publishers),
            ("subscribers", &mut self.subscribers),
            ("rate", &mut self.rate),
            ("size", &mut self.size),
            ("workers", &mut self.workers),
        ]
    }
}

impl FanoutArguments {
    pub(super) fn rate(&self) -> f64 {
        let of_setting = if self.setting == 1 { 10.0 } else { 35.0 };
        self.rate.as_ref().map_or(of_setting, SweepValues::get)
    }

    pub(super) fn size(&self) -> usize {
        let of_setting = if self.setting == 1 { 1_000 } else { 100 };
        self.size.as_ref().map_or(of_setting, SweepValues::get)
    }

    pub(super) fn max_latency(&self) -> Period {
        self.max_latency.unwrap_or(Period::milliseconds(100))
    }

    fn qos(&self) -> Qos {
        Qos::from_level(self.qos).unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        if self.hosts.uses_agents() {
            self.login.refuse_on_agents()?;
        }
        check_numbers(
            (self.publishers.get(), self.subscribers.get()),
            self.rate(),
            self.size(),
            self.workers.get(),
        )
    }

    /// A plan with all connections on this host, which is the usual case.
    pub(super) fn plan(&self, target: &RunningTarget, rate: f64) -> Result<Plan, BenchError> {
        let (url, publish_url) = self.urls(target)?;
        let unusable = || BenchError::Target {
            scenario: "fanout",
            target: publish_url.to_string(),
            takes: TAKES,
        };
        let broker = |url: &Url| -> Result<BrokerEndpoint, BenchError> {
            let broker = BrokerEndpoint::of(url)?.ok_or_else(unusable)?;
            broker.with_login(&self.login)
        };
        let (subscribe_at, publish_at) = (broker(&url)?, broker(&publish_url)?);
        if self.qos > 0 && !(subscribe_at.has_qos() && publish_at.has_qos()) {
            return Err(BenchError::Settings(format!(
                "--qos {} needs MQTT, and {publish_url} is another protocol",
                self.qos
            )));
        }
        Ok(Plan {
            subscribe_at,
            publish_at,
            qos: self.qos(),
            publishers: self.publishers.get(),
            subscribers: self.subscribers.get(),
            rate,
            size: self.size(),
            workers: self.workers.get(),
            run: clock::now(),
            subscriber_share: 0..self.subscribers.get(),
            publisher_share: 0..self.publishers.get(),
            clock_shift_ns: Vec::new(),
        })
    }

    /// The targets of subscribers and of publishers.
    pub(crate) fn urls(&self, target: &RunningTarget) -> Result<(Url, Url), BenchError> {
        let url = target.url("fanout", &SCHEMES, TAKES)?;
        Ok((url.clone(), self.publish_url(target, url)?))
    }

    /// The URL as given; for streams that only read, POST requests use the same path without its
    /// query.
    fn publish_url(&self, target: &RunningTarget, url: &Url) -> Result<Url, BenchError> {
        let topics = match &self.publish {
            Some(text) => Some(text.parse::<Endpoint>()?),
            None => target.publish.clone(),
        };
        match topics {
            Some(Endpoint::Url(url)) => Ok(url),
            Some(Endpoint::Command(words)) => Err(BenchError::Url(words.join(" "))),
            None if matches!(url.scheme, "sse" | "websocket") => Ok(Url {
                scheme: "http",
                path: url.path.split('?').next().unwrap_or_default().to_owned(),
                ..url.clone()
            }),
            None => Ok(url.clone()),
        }
    }
}

/// Refuses numbers that no run can have, of the command line or of a conductor's order.
fn check_numbers(
    (publishers, subscribers): (u16, usize),
    rate: f64,
    size: usize,
    workers: usize,
) -> Result<(), BenchError> {
    if size < STAMP_BYTES {
        return Err(BenchError::Settings(format!(
            "--size must be at least {STAMP_BYTES}: the payload carries its number and time"
        )));
    }
    bounds::check("size", size, STAMP_BYTES..=bounds::CONTENT_MAX_BYTES)?;
    bounds::check("publishers", publishers.into(), 1..=u16::MAX.into())?;
    bounds::check("subscribers", subscribers, 1..=bounds::CONNECTIONS_MAX)?;
    bounds::check("workers", workers, 1..=WORKERS_MAX)?;
    bounds::check_rate("rate", rate)
}

/// The parameters that publishers and subscribers share, and the shares of this host.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) subscribe_at: BrokerEndpoint,
    pub(crate) publish_at: BrokerEndpoint,
    pub(crate) qos: Qos,
    pub(crate) publishers: u16,
    pub(crate) subscribers: usize,
    /// Messages per second of one publisher.
    pub(crate) rate: f64,
    pub(crate) size: usize,
    /// Receiving threads on each host, if it has as many subscribers.
    pub(crate) workers: usize,
    /// Part of the names of clients and topics, so that runs with one broker do not interfere.
    pub(crate) run: u64,
    /// The subscribers at this host.
    pub(crate) subscriber_share: Range<usize>,
    /// The publishers at this host.
    pub(crate) publisher_share: Range<u16>,
    /// The value to add to each publisher's times to convert them to this host's clock; empty if
    /// all publishers are on this host.
    pub(crate) clock_shift_ns: Vec<i64>,
}

impl Plan {
    pub(super) fn topic(&self, publisher: u16) -> String {
        format!("bench/{:x}/{publisher}", self.run)
    }

    pub(super) fn publisher_of(&self, subscriber: usize) -> u16 {
        (subscriber % usize::from(self.publishers)) as u16
    }

    /// Refuses the numbers of an order that no command line can have.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let known = self.subscriber_share.end <= self.subscribers
            && self.publisher_share.end <= self.publishers;
        if !known {
            let reason = "the share of this agent is larger than the whole";
            return Err(BenchError::Settings(reason.into()));
        }
        let connections = (self.publishers, self.subscribers);
        check_numbers(connections, self.rate, self.size, self.workers)
    }

    /// The number of receiving threads at this host.
    pub(crate) fn threads(&self) -> usize {
        self.workers.min(self.subscriber_share.len()).max(1)
    }

    /// Whether each publication is acknowledged.
    pub(crate) fn expects_acknowledgements(&self) -> bool {
        self.qos != Qos::AtMostOnce || self.publish_at.acknowledges_all()
    }

    /// The number of a publisher's subscribers among these.
    pub(crate) fn subscribers_among(&self, among: &Range<usize>, publisher: u16) -> usize {
        let (step, first) = (usize::from(self.publishers), usize::from(publisher));
        // Those below n have the numbers first + k · step.
        let below = |n: usize| (n + step - 1 - first) / step;
        below(among.end) - below(among.start)
    }

    pub(super) fn clock_shift(&self, publisher: u16) -> i64 {
        let shift = self.clock_shift_ns.get(usize::from(publisher));
        shift.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct FanoutCommandLine {
        #[command(flatten)]
        fanout: FanoutArguments,
    }

    #[test]
    fn shares_add_up_to_all_subscribers() {
        let words = ["fanout", "--publishers", "5", "--subscribers", "23"];
        let arguments = FanoutCommandLine::parse_from(words).fanout;
        let target = RunningTarget::from_endpoint("mqtt://127.0.0.1:1".parse().expect("a URL"));
        let plan = arguments.plan(&target, 1.0).expect("a plan");
        for publisher in 0..5 {
            let of_publisher = (0..23)
                .filter(|&n| plan.publisher_of(n) == publisher)
                .count();
            assert_eq!(plan.subscribers_among(&(0..23), publisher), of_publisher);
            let parts = [0..7, 7..8, 8..23].map(|part| plan.subscribers_among(&part, publisher));
            assert_eq!(parts.iter().sum::<usize>(), of_publisher);
        }
    }

    #[test]
    fn only_mqtt_has_a_quality_of_service() {
        for (url, takes) in [
            ("mqtt://127.0.0.1:1", true),
            ("ws5://127.0.0.1:1/mqtt", true),
            ("nats://127.0.0.1:1", false),
            ("redis://127.0.0.1:1", false),
            ("sse://127.0.0.1:1/topics/{topic}", false),
        ] {
            let target = RunningTarget::from_endpoint(url.parse().expect("a URL"));
            for qos in ["0", "1", "2"] {
                let arguments = FanoutCommandLine::parse_from(["fanout", "--qos", qos]).fanout;
                let plan = arguments.plan(&target, 1.0);
                assert_eq!(plan.is_ok(), takes || qos == "0", "{url} {qos}");
                let acknowledged = plan.is_ok_and(|plan| plan.expects_acknowledgements());
                let expected = if takes {
                    qos != "0"
                } else {
                    qos == "0" && !url.starts_with("nats")
                };
                assert_eq!(acknowledged, expected, "{url} {qos}");
            }
        }
    }

    #[test]
    fn a_stream_s_publishers_post_beside_it() {
        let arguments = FanoutCommandLine::parse_from(["fanout"]).fanout;
        let endpoint = "sse://127.0.0.1:8080/topics/{topic}?data=payload";
        let target = RunningTarget::from_endpoint(endpoint.parse().expect("a URL"));
        let url = target.url("fanout", &SCHEMES, TAKES).expect("a URL");
        let publish = arguments.publish_url(&target, url).expect("a URL");
        assert_eq!(publish.to_string(), "http://127.0.0.1:8080/topics/{topic}");
    }
}
