//! A run on one host: waits for the subscribers, runs the publishers, and waits for the last
//! deliveries.

use std::thread;
use std::time::Duration;

use super::measured::{MeasuredRun, ReceiveTotals};
use super::publish::{PublishedRun, Publishers};
use super::receive::{FanoutProgress, Receivers};
use super::settings::{FanoutArguments, Plan};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::process::{Costs, Sampler};
use crate::progress::RunProgress;
use crate::target::RunningTarget;

/// The time within which all subscribers must be ready.
pub(crate) const READY_SECONDS: u64 = 120;
/// The time between the readiness of the publishers and the first message.
const LEAD: Nanoseconds = clock::SECOND / 5;

/// Performs one measurement.
pub(super) fn run(
    arguments: &FanoutArguments,
    plan: &Plan,
    target: &RunningTarget,
    progress: &RunProgress,
) -> Result<MeasuredRun, BenchError> {
    let stage = FanoutProgress::default();
    let workers = plan.threads();
    thread::scope(|scope| {
        let receiving: Vec<_> = (0..workers)
            .map(|worker| {
                let stage = &stage;
                scope.spawn(move || Receivers::run(plan, stage, worker, workers))
            })
            .collect();
        let conducted = conduct(arguments, target, plan, &stage, progress);
        stage.stop();
        let mut received = ReceiveTotals::default();
        for worker in receiving {
            match worker.join() {
                Ok(Ok(of_worker)) => received.merge(of_worker),
                // If the conductor failed too, its error is more specific.
                Ok(Err(error)) if conducted.is_ok() => return Err(error),
                Ok(Err(_)) => {}
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let conducted = conducted?;
        Ok(MeasuredRun {
            tally: received.tally(&conducted.published.sent),
            received,
            unacknowledged: conducted.published.unacknowledged(),
            given_up: conducted.published.given_up,
            acknowledgements: conducted.published.acknowledgements().clone(),
            slip: conducted.published.slip,
            seconds: conducted.seconds,
            server_cpu_seconds: conducted.server_cpu_seconds,
            costs: conducted.costs,
            interrupted: conducted.interrupted,
            latency_withheld: None,
        })
    })
}

/// The conductor's observations of a run.
struct FanoutObservations<'plan> {
    published: PublishedRun<'plan>,
    seconds: f64,
    server_cpu_seconds: Option<f64>,
    costs: Costs,
    interrupted: bool,
}

fn conduct<'plan>(
    arguments: &FanoutArguments,
    target: &RunningTarget,
    plan: &'plan Plan,
    stage: &FanoutProgress,
    progress: &RunProgress,
) -> Result<FanoutObservations<'plan>, BenchError> {
    wait_until_ready(plan.subscribers, target, stage, progress)?;
    let publishers = Publishers::connect(plan)?;
    let begin = clock::now() + LEAD;
    let measure = begin + clock::from_seconds(arguments.warm_up);
    let end = measure + clock::from_seconds(arguments.seconds);
    stage.measure_between(measure, end);
    let cpu = || target.usage().map(|usage| usage.cpu_seconds());
    let (published, costs, measured_until, cpu_before) = thread::scope(|scope| {
        let playing = scope.spawn(|| publishers.play(begin, measure, end, || false));
        clock::sleep_until(measure);
        let cpu_before = cpu();
        let sampler = Sampler::start(target.watched.clone());
        // The last message is due before the end; the measured time extends to the end.
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
    drain(arguments, plan, stage, &mut published);
    let server_cpu_seconds = cpu_before.zip(cpu()).map(|(before, after)| after - before);
    Ok(FanoutObservations {
        server_cpu_seconds,
        published,
        seconds: clock::seconds(measured_until.min(end) - measure),
        costs,
        interrupted: interrupted(),
    })
}

fn wait_until_ready(
    wanted: usize,
    target: &RunningTarget,
    stage: &FanoutProgress,
    progress: &RunProgress,
) -> Result<(), BenchError> {
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

/// Waits until everything has arrived and was acknowledged, or nothing has arrived for a while.
fn drain(
    arguments: &FanoutArguments,
    plan: &Plan,
    stage: &FanoutProgress,
    published: &mut PublishedRun<'_>,
) {
    let expected = published.expected_deliveries(plan);
    let patience = clock::from_seconds(arguments.drain);
    let (mut last_count, mut last_change) = (stage.received(), clock::now());
    while (last_count < expected || published.unacknowledged() > 0)
        && clock::now() - last_change < patience
    {
        thread::sleep(Duration::from_millis(5));
        published.collect_acknowledgements();
        let count = stage.received();
        if count != last_count {
            (last_count, last_change) = (count, clock::now());
        }
    }
}
