//! IDLE: the cost of idle connections that are logged in; and with `--storms`, the behaviour of a
//! server when all of them are closed at once and reconnect at once, as after a network failure.

use serde::{Deserialize, Serialize};

use super::login::{ClientStart, HasLogins, LoginClient, LoginPlan, Logins};
use super::{FloorOf, Scenario, limit_clients};
use crate::bounds;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::load::{ConnectionClosed, Conversation, Loop, ReceiveOutcome, check_connections};
use crate::outcome::{Headline, RunOutcome};
use crate::process::{Sampler, Usage};
use crate::progress::RunProgress;
use crate::pubsub::{BrokerEndpoint, LoginArguments};
use crate::sweep::{Parameter, SweepValues, Sweepable};
use crate::target::RunningTarget;

/// Connections that log in at the same time.
const CONNECTING_MAX: usize = 200;
/// The time within which all must be logged in.
const LOGIN_SECONDS: u64 = 120;

/// Settings of IDLE.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
pub struct IdleArguments {
    /// Connections
    #[arg(long, value_name = "N", default_value = "10000")]
    pub(crate) connections: SweepValues<usize>,
    /// Logins per second, each due at its own time [default: as many as the server answers]
    #[arg(long, value_name = "RATE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connect_rate: Option<SweepValues<f64>>,
    /// Seconds of the measurement, once all are connected
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = bounds::seconds_above_0)]
    seconds: f64,
    /// Number of times that all are closed and reconnect at once under their old names
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[serde(default, skip_serializing_if = "is_zero")]
    storms: u32,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) login: LoginArguments,
}

/// Omitted without storms, so that such runs stay comparable to earlier ones.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Sweepable for IdleArguments {
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
        vec![
            ("connections", &mut self.connections),
            ("connect-rate", &mut self.connect_rate),
        ]
    }
}

impl IdleArguments {
    /// Restricts it to this number of the connections, with their part of the rate.
    pub(crate) fn limit_to(&mut self, connections: usize) {
        limit_clients(
            &mut self.connections,
            self.connect_rate.as_mut(),
            connections,
        );
    }
}

/// IDLE.
pub struct Idle {
    arguments: IdleArguments,
}

impl Idle {
    /// The scenario with these settings; refuses more connections than this process may have.
    pub fn new(arguments: IdleArguments) -> Result<Self, BenchError> {
        check_connections("connections", arguments.connections.get())?;
        if let Some(rate) = &arguments.connect_rate {
            bounds::check_rate("connect-rate", rate.get())?;
        }
        Ok(Self { arguments })
    }
}

struct IdleTotals {
    logins: Logins,
    lost: usize,
}

struct IdleClient(LoginClient);

impl IdleClient {
    fn new(broker: &BrokerEndpoint, start: ClientStart) -> Self {
        Self(LoginClient::new(broker, start, 'i'))
    }
}

impl IdleTotals {
    fn new(broker: BrokerEndpoint, run: Nanoseconds) -> Self {
        Self {
            logins: Logins::new(broker, run),
            lost: 0,
        }
    }
}

impl HasLogins for IdleTotals {
    fn logins(&mut self) -> &mut Logins {
        &mut self.logins
    }
}

impl Conversation<IdleTotals> for IdleClient {
    fn connected(&mut self, shared: &mut IdleTotals, outgoing: &mut Vec<u8>) {
        self.0.open(&shared.logins, outgoing);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        _now: Nanoseconds,
        shared: &mut IdleTotals,
        outgoing: &mut Vec<u8>,
    ) -> ReceiveOutcome {
        let read = self.0.read(bytes, shared, outgoing, |_event, _shared| {});
        ReceiveOutcome::of_read(read, &mut shared.logins.failure)
    }

    fn closed(&mut self, reason: ConnectionClosed, shared: &mut IdleTotals) {
        shared.lost += 1;
        self.0.closed("connection", reason, &mut shared.logins);
    }
}

impl Scenario for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self.arguments)
    }

    fn headlines(&self) -> Vec<Headline> {
        Vec::new()
    }

    fn floors(&self) -> Vec<FloorOf> {
        let connect = "connect, accept, close on loopback";
        let exchange = "send and receive of 100 bytes on loopback";
        vec![FloorOf::new("server CPU per login", &[connect, exchange])]
    }

    fn run(
        &self,
        target: &RunningTarget,
        progress: &RunProgress,
    ) -> Result<RunOutcome, BenchError> {
        const TAKES: &str = "mqtt://, mqtt5://, ws://, ws5://, nats://, redis://, mqtts://, \
                             wss:// or tls://HOST:PORT";
        const SCHEMES: [&str; 6] = ["mqtt", "mqtt5", "ws", "ws5", "nats", "redis"];
        let url = target.url("idle", &SCHEMES, TAKES)?;
        let broker = BrokerEndpoint::of(url)?.ok_or(BenchError::NoTarget)?;
        let broker = broker.with_login(&self.arguments.login)?;
        let mut clients: Loop<IdleClient> = Loop::new()?;
        let mut shared = IdleTotals::new(broker, clock::now());
        let mut outcome = RunOutcome::default();
        progress.together()?;
        let before = target.usage();
        let own_before = Usage::of_self();
        let begin = clock::now();
        let rate = self.arguments.connect_rate.as_ref().map(SweepValues::get);
        let logins = self.logins(CONNECTING_MAX, rate, target, progress);
        logins.log_in(&mut clients, &mut shared, IdleClient::new)?;
        let login_seconds = clock::seconds(clock::now() - begin);
        let after = target.usage();
        let own_after = Usage::of_self();
        progress.together()?;
        let sampler = Sampler::start(target.watched.clone());
        let (begin, span) = (clock::now(), clock::from_seconds(self.arguments.seconds));
        let end = begin + span;
        while clock::now() < end && !interrupted() {
            let watched = (clock::now() - begin) as f64 / span.max(1) as f64;
            progress.update(0.5 + watched / 2.0, || {
                format!("{} idle connections", clients.open())
            });
            clients.turn(end.min(clock::now() + clock::SECOND / 5), &mut shared)?;
        }
        let costs = sampler.finish();
        let lost = shared.lost;
        let (latency, slip) = shared.logins.take_latencies();
        let (storms, lost_after) = self.storms(target, clients, &mut shared, progress)?;
        progress.together()?;
        outcome.interrupted = interrupted();
        let connections = self.arguments.connections.get();
        let count = connections as f64;
        outcome.higher("logins per second", count / login_seconds, "/s");
        outcome.lower("time for all", login_seconds, "s");
        outcome.lower("connections lost", lost as f64, "");
        outcome.latency("login", &latency);
        if let Some(rate) = rate {
            outcome.neutral("offered", rate, "/s");
            outcome.latency("schedule", &slip);
            outcome.warn_of_slip(&slip);
        }
        if let Some(slowest) = storms.iter().copied().reduce(f64::max) {
            outcome.lower("slowest storm, time for all", slowest, "s");
            outcome.lower("connections lost after storms", lost_after as f64, "");
        }
        report_usage(
            &mut outcome,
            count,
            before.zip(after),
            (own_before, own_after),
        );
        outcome.set_costs(costs, "idle connection", connections as u64);
        if lost + lost_after > 0 {
            outcome.warnings.extend(shared.logins.failure);
        }
        Ok(outcome)
    }
}

/// Adds the cost of a login, by the resources before and after all of them: those of the server,
/// if they are known, and those of this process.
fn report_usage(
    outcome: &mut RunOutcome,
    logins: f64,
    server: Option<(Usage, Usage)>,
    generator: (Usage, Usage),
) {
    let memory =
        |from: &Usage, to: &Usage| (to.resident_bytes as f64 - from.resident_bytes as f64) / logins;
    if let Some((before, after)) = server {
        let bytes = memory(&before, &after);
        outcome.lower("server memory per connection", bytes, "bytes");
        let cpu = after.cpu_seconds() - before.cpu_seconds();
        outcome.lower("server CPU per login", cpu / logins * 1e6, "µs");
    }
    let bytes = memory(&generator.0, &generator.1);
    outcome.neutral("generator memory per connection", bytes, "bytes");
}

impl Idle {
    fn logins<'a>(
        &self,
        connecting_max: usize,
        rate: Option<f64>,
        target: &'a RunningTarget,
        progress: &'a RunProgress,
    ) -> LoginPlan<'a> {
        LoginPlan {
            clients: "connections",
            count: self.arguments.connections.get(),
            connecting_max,
            rate,
            seconds_max: LOGIN_SECONDS,
            progress_share: 0.5,
            target,
            progress,
        }
    }

    /// Closes all connections and lets them reconnect at once; returns the duration of each storm
    /// in seconds, and the number of connections that were lost after any of them. A connection
    /// that is refused or does not reconnect ends the run.
    fn storms(
        &self,
        target: &RunningTarget,
        mut clients: Loop<IdleClient>,
        shared: &mut IdleTotals,
        progress: &RunProgress,
    ) -> Result<(Vec<f64>, usize), BenchError> {
        let (mut seconds, mut lost) = (Vec::new(), 0);
        let mut failure = shared.logins.failure.take();
        for _ in 0..self.arguments.storms {
            drop(clients);
            clients = Loop::new()?;
            *shared = IdleTotals::new(shared.logins.broker.clone(), shared.logins.run);
            let begin = clock::now();
            let logins = self.logins(usize::MAX, None, target, progress);
            logins.log_in(&mut clients, shared, IdleClient::new)?;
            seconds.push(clock::seconds(clock::now() - begin));
            // Connections that were accepted by mistake are closed now.
            clients.turn(clock::now() + clock::SECOND / 5, shared)?;
            lost += shared.lost;
            failure = failure.or_else(|| shared.logins.failure.take());
        }
        shared.logins.failure = failure;
        Ok((seconds, lost))
    }
}
