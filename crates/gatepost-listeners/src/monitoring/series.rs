//! Figures over time: samples of the counters, for the dashboard's ranges of minutes to days.
//!
//! The task reads counters that others keep, on the control thread, and submits each sample to the
//! store without waiting for its commit. Rates are computed from the monotonic clock, so a jump of
//! the clock makes no rate wrong; only the time under which a sample is stored follows the clock.
//! A sample that cannot be stored is counted and discarded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatepost_gateway::JudgeTimeCounts;
use gatepost_message::{Action, Listener};
use gatepost_store::{
    SeriesResolution, SeriesSample, StoreChange, StoreError, StoreSettings, Ticket,
};
use tokio::time::{Interval, MissedTickBehavior};

use super::stats::{StatsKeeper, cpu_time, memory_bytes, unix_ms};

/// The interval at which the settings are read while no figures are kept.
const IDLE: Duration = Duration::from_secs(10);
/// Samples whose commit is not known yet. They wait a minute at most.
const PENDING_MAX: usize = 256;

/// The names of the figures besides those of listeners and verdicts, with their units.
const NAMES: [(&str, &str); 13] = [
    ("publications", "per second"),
    ("deliveries", "per second"),
    ("connections", "connections"),
    ("sessions", "sessions"),
    ("queued_messages", "messages"),
    ("queue_bytes", "bytes"),
    ("memory_bytes", "bytes"),
    ("cpu_cores", "cores"),
    ("judge_p50_ms", "milliseconds"),
    ("judge_p99_ms", "milliseconds"),
    ("bayes_spam", "messages"),
    ("bayes_ham", "messages"),
    ("bayes_tokens", "tokens"),
];

/// The name and the unit of every figure over time.
pub(crate) fn names() -> impl Iterator<Item = (String, &'static str)> {
    let listeners = Listener::ALL.map(|listener| format!("messages.{}", listener.name()));
    let verdicts = Action::ALL.map(|action| format!("verdicts.{}", action.name()));
    let rates = listeners.into_iter().chain(verdicts);
    let named = NAMES.map(|(name, unit)| (name.to_owned(), unit));
    rates.map(|name| (name, "per second")).chain(named)
}

/// Counters whose differences are rates.
#[derive(Clone, Copy)]
struct SeriesTotals {
    at: Instant,
    messages: [u64; Listener::ALL.len()],
    verdicts: [u64; Action::ALL.len()],
    publications: u64,
    deliveries: u64,
    cpu: Duration,
    judged: JudgeTimeCounts,
}

/// Values of one moment: connections, sessions, queued messages and bytes, memory; spam, ham and
/// tokens of Bayes.
type Gauges = [f64; 8];

/// Makes samples of the figures that a [`StatsKeeper`] reads.
struct SeriesSampler<'a> {
    keeper: &'a StatsKeeper,
    /// The listeners that have an address.
    open: Vec<Listener>,
    sampled: SeriesTotals,
    averaged: SeriesTotals,
    sums: Gauges,
    samples: u32,
    pending: VecDeque<Ticket>,
}

impl StatsKeeper {
    /// Stores samples at the interval of the settings, for as long as it is polled. The settings
    /// are read for each sample, since a reload may change them.
    pub(super) async fn keep_series(&self) {
        while let Some(settings) = self.store().settings() {
            let interval = settings.series_interval;
            if interval.duration().is_zero() {
                tokio::time::sleep(IDLE).await;
                continue;
            }
            let mut ticks = ticks(settings.series_interval_of(SeriesResolution::Samples)).await;
            let mut sampler = SeriesSampler::new(self);
            loop {
                ticks.tick().await;
                let Some(now) = self.store().settings() else {
                    return;
                };
                if now.series_interval != interval {
                    break;
                }
                sampler.sample(&now);
            }
        }
    }

    /// The samples that were not stored since the start.
    pub(crate) fn series_dropped(&self) -> u64 {
        self.dropped_samples().load(Ordering::Relaxed)
    }

    fn totals(&self) -> SeriesTotals {
        let broker = self.broker().stats(0, 0);
        let counters = self.gateway().counters();
        let listeners = counters.by_listener();
        SeriesTotals {
            at: Instant::now(),
            messages: listeners.map(|listener| listener.messages()),
            verdicts: std::array::from_fn(|action| {
                listeners.iter().map(|one| one.verdicts[action]).sum()
            }),
            publications: broker.messages_in,
            deliveries: broker.deliveries,
            cpu: cpu_time(),
            judged: counters.judge_times().counts(),
        }
    }

    fn gauges(&self) -> Gauges {
        let broker = self.broker().stats(0, 0);
        // Not a number until the learned data is read; such figures are not stored.
        let bayes = self.loaded_learning().map(|learning| &learning.bayes);
        let [spam, ham, tokens] = bayes.map_or([f64::NAN; 3], |bayes| {
            let totals = bayes.totals();
            let [spam, ham] = [totals.spam, totals.ham].map(f64::from);
            [spam, ham, bayes.token_count() as f64]
        });
        [
            self.connections() as f64,
            (broker.sessions_connected + broker.readers) as f64,
            broker.stored as f64,
            broker.queued_bytes as f64,
            memory_bytes() as f64,
            spam,
            ham,
            tokens,
        ]
    }
}

/// Ticks from now on; the first one ends the first interval.
async fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    ticks
}

impl<'a> SeriesSampler<'a> {
    fn new(keeper: &'a StatsKeeper) -> Self {
        let totals = keeper.totals();
        let is_open = |listener: &Listener| keeper.has_address(*listener);
        Self {
            keeper,
            open: Listener::ALL.into_iter().filter(is_open).collect(),
            sampled: totals,
            averaged: totals,
            sums: Gauges::default(),
            samples: 0,
            pending: VecDeque::new(),
        }
    }

    fn sample(&mut self, settings: &StoreSettings) {
        let (now, gauges) = (self.keeper.totals(), self.keeper.gauges());
        self.submit(SeriesResolution::Samples, settings, {
            figures(&self.open, &self.sampled, &now, gauges)
        });
        self.sampled = now;
        for (sum, gauge) in self.sums.iter_mut().zip(gauges) {
            *sum += gauge;
        }
        self.samples += 1;
        let [samples, averages] = [SeriesResolution::Samples, SeriesResolution::Averages]
            .map(|resolution| settings.series_interval_of(resolution));
        if u128::from(self.samples) < averages.as_millis() / samples.as_millis() {
            return;
        }
        let means = self.sums.map(|sum| sum / f64::from(self.samples));
        self.submit(SeriesResolution::Averages, settings, {
            figures(&self.open, &self.averaged, &now, means)
        });
        self.averaged = now;
        self.sums = Gauges::default();
        self.samples = 0;
    }

    fn submit(
        &mut self,
        resolution: SeriesResolution,
        settings: &StoreSettings,
        figures: Vec<(String, f64)>,
    ) {
        let rows_max = settings.series_rows_max(resolution);
        if rows_max == 0 {
            return;
        }
        let sample = SeriesSample {
            resolution,
            at_ms: unix_ms(),
            figures,
            rows_max,
        };
        let dropped = self.keeper.dropped_samples();
        let change = StoreChange::Sample(Box::new(sample));
        match self.keeper.store().submit_unhurried(change) {
            Ok(ticket) => self.pending.push_back(ticket),
            Err(error) => count_dropped(dropped, &error),
        }
        while let Some(outcome) = self.pending.front().map(Ticket::outcome) {
            match outcome {
                Some(Err(error)) => count_dropped(dropped, &error),
                None if self.pending.len() < PENDING_MAX => break,
                _ => {}
            }
            self.pending.pop_front();
        }
    }
}

/// The store logs the cause.
fn count_dropped(dropped: &AtomicU64, error: &StoreError) {
    dropped.fetch_add(1, Ordering::Relaxed);
    tracing::debug!(target: "series", %error, "a sample was not stored");
}

/// The figures of the interval between two moments.
fn figures(
    open: &[Listener],
    before: &SeriesTotals,
    now: &SeriesTotals,
    gauges: Gauges,
) -> Vec<(String, f64)> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let mut figures = Vec::with_capacity(NAMES.len() + open.len() + Action::ALL.len());
    for &listener in open {
        let index = listener as usize;
        let per_second = rate(before.messages[index], now.messages[index]);
        figures.push((format!("messages.{}", listener.name()), per_second));
    }
    for action in Action::ALL {
        let index = action as usize;
        let per_second = rate(before.verdicts[index], now.verdicts[index]);
        figures.push((format!("verdicts.{}", action.name()), per_second));
    }
    let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds;
    let judged = now.judged.since(&before.judged);
    // Not a number without judged messages; such figures are not stored.
    let percentile = |percent| {
        let found = judged.percentile(percent);
        found.map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
    };
    let [
        connections,
        sessions,
        queued,
        queue_bytes,
        memory,
        spam,
        ham,
        tokens,
    ] = gauges;
    let values = [
        rate(before.publications, now.publications),
        rate(before.deliveries, now.deliveries),
        connections,
        sessions,
        queued,
        queue_bytes,
        memory,
        cpu,
        percentile(50),
        percentile(99),
        spam,
        ham,
        tokens,
    ];
    let named = NAMES.iter().zip(values);
    figures.extend(named.map(|((name, _), value)| ((*name).to_owned(), value)));
    figures
}
