//! SUBSCRIBE: users log in; once all are logged in, each subscribes to many topics at once.
//!
//! A subscription counts when its acknowledgement has arrived at the client. The original printed a
//! line per login, then in each second the subscriptions acknowledged in it and so far.

use gatepost_message::Qos;
use gatepost_mqtt::PacketId;
use serde::{Deserialize, Serialize};

use super::login::{ClientEvent, ClientStart, HasLogins, LoginClient, LoginPlan, Logins};
use super::{FloorOf, Scenario};
use crate::bounds;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::latency::Latencies;
use crate::load::{ConnectionClosed, Conversation, Loop, ReceiveOutcome, check_connections};
use crate::outcome::{Headline, RunOutcome};
use crate::process::Sampler;
use crate::progress::RunProgress;
use crate::pubsub::{BrokerEndpoint, LoginArguments};
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;

/// The time within which all users must be logged in.
const LOGIN_SECONDS: u64 = 60;
/// Users that log in at the same time.
const CONNECTING_MAX: usize = 100;

/// Settings of SUBSCRIBE.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct SubscribeArguments {
    /// Users
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) users: SweepValues<usize>,
    /// Number of topics per user, all different
    #[arg(long, value_name = "N", default_value = "1000")]
    topics: SweepValues<u16>,
    /// Seconds to wait for acknowledgements
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = bounds::seconds_above_0)]
    seconds: f64,
    /// Seconds between two lines of counts
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = bounds::interval)]
    interval: f64,
    /// Subscriptions of a user that may await their acknowledgement at a time [default: all]
    #[arg(long, value_name = "N")]
    window: Option<SweepValues<u16>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) login: LoginArguments,
}

impl Sweepable for SubscribeArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("users", &mut self.users),
            ("topics", &mut self.topics),
            ("window", &mut self.window),
        ]
    }
}

/// SUBSCRIBE.
pub struct SubscribeBurst {
    arguments: SubscribeArguments,
}

impl SubscribeBurst {
    /// The scenario with these settings.
    pub fn new(arguments: SubscribeArguments) -> Result<Self, BenchError> {
        check_connections("users", arguments.users.get())?;
        let window = arguments.window.as_ref().map_or(1, SweepValues::get);
        if arguments.topics.get() == 0 || window == 0 {
            return Err(BenchError::Settings(
                "topics and window must be above 0".into(),
            ));
        }
        Ok(Self { arguments })
    }
}

impl Scenario for SubscribeBurst {
    fn name(&self) -> &'static str {
        "subscribe"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        let source = "ICE iPush 2.1, 2005: Pentium 4 3.0 GHz, average of the full seconds";
        vec![
            Headline::new("subscriptions per second", 28_377.0, source),
            Headline::new("time for all", 3.75, source),
            Headline::new("failed", 0.0, source),
        ]
    }

    fn floors(&self) -> Vec<FloorOf> {
        // A server that answers many at once can be below it.
        vec![FloorOf::new(
            "server CPU per subscription",
            &["send of 100 bytes on loopback"],
        )]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        const TAKES: &str = "mqtt://, mqtt5://, ws://, ws5://, nats://, redis://, mqtts://, \
                             wss:// or tls://HOST:PORT";
        const SCHEMES: [&str; 6] = ["mqtt", "mqtt5", "ws", "ws5", "nats", "redis"];
        let url = target.url("subscribe", &SCHEMES, TAKES)?;
        let broker = BrokerEndpoint::of(url)?.ok_or(BenchError::NoTarget)?;
        let broker = broker.with_login(&self.arguments.login)?;
        let mut burst = Burst::new(&self.arguments, broker);
        let mut users: Loop<User> = Loop::new()?;
        let mut outcome = RunOutcome::default();
        let logins = LoginPlan {
            clients: "users",
            count: self.arguments.users.get(),
            connecting_max: CONNECTING_MAX,
            rate: None,
            seconds_max: LOGIN_SECONDS,
            progress_share: 0.0,
            target,
            progress,
        };
        logins.log_in(&mut users, &mut burst, User::new)?;
        outcome.original.append(&mut burst.lines);
        progress.together()?;
        let before = target.usage();
        let sampler = Sampler::start(target.watched.clone());
        self.subscribe(&mut users, &mut burst, progress, &mut outcome)?;
        let costs = sampler.finish();
        let after = target.usage();
        progress.together()?;
        self.report(&burst, &mut outcome);
        if let Some((before, after)) = before.zip(after) {
            let count = burst.granted.max(1) as f64;
            let cpu = after.cpu_seconds() - before.cpu_seconds();
            outcome.lower("server CPU per subscription", cpu / count * 1e6, "µs");
            let grown = after.resident_bytes as f64 - before.resident_bytes as f64;
            outcome.lower("server memory per subscription", grown / count, "bytes");
        }
        outcome.set_costs(costs, "subscription", burst.granted);
        Ok(outcome)
    }
}

/// State that all users share.
struct Burst {
    logins: Logins,
    topics: u16,
    window: u16,
    begun: Nanoseconds,
    last_acknowledged: Nanoseconds,
    granted: u64,
    refused: u64,
    latencies: Latencies,
    lines: Vec<String>,
}

impl Burst {
    fn new(arguments: &SubscribeArguments, broker: BrokerEndpoint) -> Self {
        Self {
            logins: Logins::new(broker, clock::now()),
            topics: arguments.topics.get(),
            window: arguments
                .window
                .as_ref()
                .map_or(arguments.topics.get(), SweepValues::get),
            begun: 0,
            last_acknowledged: 0,
            granted: 0,
            refused: 0,
            latencies: Latencies::default(),
            lines: Vec::new(),
        }
    }

    fn count(&mut self, granted: bool, now: Nanoseconds) {
        if granted {
            self.granted += 1;
            // A refusal costs a server less, so a server that refuses much would seem fast.
            self.latencies.record(now - self.begun);
        } else {
            self.refused += 1;
        }
        self.last_acknowledged = now;
    }

    fn answered(&self) -> u64 {
        self.granted + self.refused
    }
}

impl HasLogins for Burst {
    fn logins(&mut self) -> &mut Logins {
        &mut self.logins
    }
}

struct User {
    login: LoginClient,
    /// Subscriptions sent so far.
    sent: u16,
}

impl User {
    fn new(broker: &BrokerEndpoint, start: ClientStart) -> Self {
        Self {
            login: LoginClient::new(broker, start, 'u'),
            sent: 0,
        }
    }

    /// Subscribes to this number of further topics, or to the remaining ones.
    fn subscribe(&mut self, count: u16, burst: &Burst, outgoing: &mut Vec<u8>) {
        let end = self.sent.saturating_add(count).min(burst.topics);
        for topic in self.sent..end {
            let run = burst.logins.run;
            let topic_name = format!("bench/{run:x}/{}/{topic}", self.login.start.number);
            if let Some(number) = PacketId::new(topic + 1) {
                let broker = &burst.logins.broker;
                broker.subscribe(&topic_name, number, Qos::AtMostOnce, outgoing);
            }
        }
        self.sent = end;
    }
}

impl Conversation<Burst> for User {
    fn connected(&mut self, burst: &mut Burst, outgoing: &mut Vec<u8>) {
        self.login.open(&burst.logins, outgoing);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        now: Nanoseconds,
        burst: &mut Burst,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let number = self.login.start.number;
        let before = burst.answered();
        let handle = |event, burst: &mut Burst| match event {
            ClientEvent::LoggedIn => burst.lines.push(format!("user {number} login ok")),
            ClientEvent::Subscribed { granted } => burst.count(granted, now),
        };
        let read = self.login.read(bytes, burst, outgoing, handle);
        let answered = burst.answered() - before;
        if answered > 0 {
            let room = u16::try_from(answered).unwrap_or(u16::MAX);
            self.subscribe(room, burst, outgoing);
        }
        ReceiveOutcome::of_read(read, &mut burst.logins.failure)
    }

    fn closed(&mut self, reason: ConnectionClosed, burst: &mut Burst) {
        self.login.closed("user", reason, &mut burst.logins);
    }
}

impl SubscribeBurst {
    fn subscriptions_total(&self) -> u64 {
        self.arguments.users.get() as u64 * u64::from(self.arguments.topics.get())
    }

    /// Sends all subscriptions, and counts the acknowledged ones per interval.
    fn subscribe(
        &self,
        users: &mut Loop<User>,
        burst: &mut Burst,
        progress: &RunProgress,
        outcome: &mut RunOutcome,
    ) -> Result<(), BenchError> {
        let wanted = self.subscriptions_total();
        let interval = clock::from_seconds(self.arguments.interval);
        burst.begun = clock::now();
        burst.last_acknowledged = burst.begun;
        let deadline = burst.begun + clock::from_seconds(self.arguments.seconds);
        let (mut next_line, mut counted) = (burst.begun + interval, 0);
        let mut outgoing = Vec::new();
        for index in 0..self.arguments.users.get() {
            if let Some(user) = users.conversation(index) {
                user.subscribe(burst.window, burst, &mut outgoing);
                users.send(index, &outgoing, burst);
                outgoing.clear();
            }
            // The first subscriptions are acknowledged while the last ones are still sent.
            users.turn(0, burst)?;
        }
        loop {
            let now = clock::now();
            let done = burst.answered() >= wanted || burst.logins.failure.is_some();
            let over = done || now >= deadline || interrupted();
            if now >= next_line || over {
                let since = burst.granted - counted;
                counted = burst.granted;
                next_line += interval;
                outcome.counts_by_second.push(since);
                outcome.original.push(format!("[sub_ok] {since} {counted}"));
            }
            if over {
                outcome.interrupted = interrupted();
                return Ok(());
            }
            let share = burst.answered() as f64 / wanted as f64;
            progress.update(share, || {
                let rate = burst.granted as f64 / clock::seconds((now - burst.begun).max(1));
                format!(
                    "{rate:.0}/s, {} granted, {} refused",
                    burst.granted, burst.refused
                )
            });
            users.turn(next_line.min(now + clock::SECOND / 10), burst)?;
        }
    }

    fn report(&self, burst: &Burst, outcome: &mut RunOutcome) {
        let wanted = self.subscriptions_total();
        let seconds = clock::seconds(burst.last_acknowledged - burst.begun);
        let failed = wanted - burst.granted.min(wanted);
        outcome.higher(
            "subscriptions per second",
            burst.granted as f64 / seconds.max(1e-9),
            "/s",
        );
        outcome.lower("time for all", seconds, "s");
        outcome.lower("failed", failed as f64, "");
        outcome.latency("since the burst began", &burst.latencies);
        if failed > 0 {
            let failure = &burst.logins.failure;
            let why = failure
                .clone()
                .unwrap_or_else(|| "no answer in time".into());
            outcome.warn(format!(
                "{failed} subscriptions failed: {} refused; {why}",
                burst.refused
            ));
        }
    }
}
