//! An agent's share of a FANOUT run: threads that receive and publish, and their reports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gatepost_message::Qos;

use super::message::{AgentReport, FanoutParameters, ReceivedReport};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::Assignment;
use crate::latency::Latencies;
use crate::process::{Costs, Sampler, WatchedServer, listener_of_port};
use crate::pubsub::{BrokerEndpoint, TrackerCounts};
use crate::scenario::fanout::{FanoutProgress, Plan, Publishers, ReceiveTotals, Receivers};
use crate::target::{Endpoint, Url};

/// Interval of progress reports.
const PROGRESS_EVERY: Nanoseconds = clock::SECOND / 5;
/// The times of a run, by this host's clock.
#[derive(Debug, Clone, Copy)]
struct Times {
    begin: Nanoseconds,
    measure: Nanoseconds,
    end: Nanoseconds,
}

/// A run in progress.
pub(super) struct FanoutRun {
    plan: Arc<Plan>,
    stage: Arc<FanoutProgress>,
    receiving: Vec<ReceiverThread>,
    publishing: Option<PublisherThread>,
    server: Option<u16>,
    reported_ready: bool,
    next_progress: Nanoseconds,
    times: Option<Times>,
    sampler: Option<Sampler>,
    costs: Option<Costs>,
}

/// A thread with a part of the subscribers.
type ReceiverThread = JoinHandle<Result<ReceiveTotals, BenchError>>;

/// The thread of the publishers.
struct PublisherThread {
    ready: Arc<AtomicBool>,
    go: Sender<Times>,
    done: Receiver<Result<AgentReport, BenchError>>,
}

impl FanoutRun {
    /// Connects this host's share.
    pub(super) fn prepare(
        orders: &FanoutParameters,
        assignment: Assignment,
        clock_shift_ns: Vec<i64>,
    ) -> Result<Self, BenchError> {
        let plan = Arc::new(plan(orders, &assignment, clock_shift_ns)?);
        let stage = Arc::new(FanoutProgress::default());
        let receiving = start_receivers(&plan, &stage)?;
        let patience = clock::from_seconds(orders.seconds.drain);
        let publishing = (!plan.publisher_share.is_empty())
            .then(|| PublisherThread::start(&plan, &stage, patience));
        Ok(Self {
            plan,
            stage,
            receiving,
            publishing,
            server: assignment.server,
            reported_ready: false,
            next_progress: 0,
            times: None,
            sampler: None,
            costs: None,
        })
    }

    /// Starts at these times.
    pub(super) fn start(&mut self, begin: Nanoseconds, measure: Nanoseconds, end: Nanoseconds) {
        let times = Times {
            begin,
            measure,
            end,
        };
        self.stage.measure_between(measure, end);
        if let Some(publishing) = &self.publishing {
            // The thread is gone only if it failed, and it reports that.
            let _ = publishing.go.send(times);
        }
        self.times = Some(times);
    }

    /// The reports that are due.
    pub(super) fn due_reports(&mut self, now: Nanoseconds) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        if let Some(reason) = self.stage.failure() {
            reports.push(AgentReport::Failed { reason });
            return reports;
        }
        let publishing_ready = self
            .publishing
            .as_ref()
            .is_none_or(PublisherThread::is_ready);
        let receiving_ready = self.stage.ready() >= self.plan.subscriber_share.len();
        if !self.reported_ready && publishing_ready && receiving_ready {
            self.reported_ready = true;
            reports.push(AgentReport::Ready);
        }
        if let Some(report) = self.publishing.as_ref().and_then(PublisherThread::done) {
            reports.push(report);
        }
        self.sample(now);
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS_EVERY;
            reports.push(AgentReport::Progress {
                received: self.stage.received(),
                missing: self.stage.missing(),
            });
        }
        reports
    }

    /// Costs are measured from the first measured message to the end.
    fn sample(&mut self, now: Nanoseconds) {
        let Some(times) = self.times else { return };
        if self.sampler.is_none() && self.costs.is_none() && now >= times.measure {
            let server = self.server.and_then(listener_of_port);
            self.sampler = Some(Sampler::start(server.map(WatchedServer::Process)));
        }
        if now >= times.end {
            self.costs = self
                .costs
                .take()
                .or_else(|| self.sampler.take().map(Sampler::finish));
        }
    }

    /// Ends the run and returns what was received.
    pub(super) fn finish(mut self, sent: &[Option<u32>]) -> Result<AgentReport, BenchError> {
        self.stage.stop();
        let mut received = ReceiveTotals::default();
        for thread in self.receiving.drain(..) {
            match thread.join() {
                Ok(of_thread) => received.merge(of_thread?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let costs = self
            .costs
            .take()
            .or_else(|| self.sampler.take().map(Sampler::finish));
        let costs = costs.unwrap_or_default();
        Ok(AgentReport::Done {
            report: Box::new(received_report(received, sent)),
            generator: Box::new(costs.generator),
            server: costs.server.map(Box::new),
        })
    }
}

impl Drop for FanoutRun {
    /// Ends the threads of an aborted run: receivers notice the flag, publishers the flag or their
    /// closed channel.
    fn drop(&mut self) {
        self.stage.stop();
    }
}

/// Starts the threads that connect this host's subscribers and receive.
fn start_receivers(
    plan: &Arc<Plan>,
    stage: &Arc<FanoutProgress>,
) -> Result<Vec<ReceiverThread>, BenchError> {
    if plan.subscriber_share.is_empty() {
        return Ok(Vec::new());
    }
    let workers = plan.threads();
    let start = |worker| {
        let (plan, stage) = (Arc::clone(plan), Arc::clone(stage));
        let thread = thread::Builder::new().name(format!("receiver {worker}"));
        thread.spawn(move || Receivers::run(&plan, &stage, worker, workers))
    };
    let started: io::Result<_> = (0..workers).map(start).collect();
    // Otherwise those that were started would never end.
    started.inspect_err(|_| stage.stop()).map_err(Into::into)
}

impl PublisherThread {
    /// Acknowledgements are awaited for as long as `patience` after the last message was sent.
    fn start(plan: &Arc<Plan>, stage: &Arc<FanoutProgress>, patience: Nanoseconds) -> Self {
        let (plan, ready) = (Arc::clone(plan), Arc::new(AtomicBool::new(false)));
        let stage = Arc::clone(stage);
        let (go, begin) = mpsc::channel();
        let (result, done) = mpsc::channel();
        let is_ready = Arc::clone(&ready);
        thread::spawn(move || {
            // If the run was aborted, the receiver is gone and the result is not needed.
            let published = publish(&plan, &stage, patience, &is_ready, &begin);
            let _ = result.send(published);
        });
        Self { ready, go, done }
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    fn done(&self) -> Option<AgentReport> {
        match self.done.try_recv() {
            Ok(Ok(report)) => Some(report),
            Ok(Err(error)) => Some(AgentReport::Failed {
                reason: error.to_string(),
            }),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

fn publish(
    plan: &Plan,
    stage: &FanoutProgress,
    patience: Nanoseconds,
    ready: &AtomicBool,
    go: &Receiver<Times>,
) -> Result<AgentReport, BenchError> {
    let publishers = Publishers::connect(plan)?;
    ready.store(true, Ordering::Release);
    let times = go.recv().map_err(|_| BenchError::Interrupted)?;
    let Times {
        begin,
        measure,
        end,
    } = times;
    // Those of an abandoned run would go on into the next one.
    let mut published = publishers.play(begin, measure, end, || stage.is_stopped())?;
    let deadline = clock::now() + patience;
    while published.unacknowledged() > 0 && clock::now() < deadline && !stage.is_stopped() {
        published.collect_acknowledgements();
        thread::sleep(Duration::from_millis(1));
    }
    Ok(AgentReport::Sent {
        slip: published.slip.buckets(),
        unacknowledged: published.unacknowledged(),
        given_up: published.given_up,
        acknowledgements: published.acknowledgements().buckets(),
        sent: published.sent,
    })
}

fn received_report(received: ReceiveTotals, sent: &[Option<u32>]) -> ReceivedReport {
    let mut tally = TrackerCounts::default();
    for (publisher, tracker) in &received.trackers {
        let sent = sent.get(usize::from(*publisher)).copied().flatten();
        // If a publisher's count is unknown, messages missing at the end cannot be counted.
        tally.add(tracker.tally(sent.unwrap_or(0)));
    }
    ReceivedReport {
        latencies: received.latencies.buckets(),
        in_time: received.in_time,
        by_second: received.by_second,
        by_part: received.by_part,
        tally,
        foreign: received.foreign,
        early: received.early,
        disconnected: received.disconnected,
    }
}

/// A report of another host in the form of a local result.
pub(super) fn received(report: ReceivedReport) -> ReceiveTotals {
    let mut latencies = Latencies::default();
    latencies.add(&report.latencies);
    ReceiveTotals {
        latencies,
        in_time: report.in_time,
        by_second: report.by_second,
        by_part: report.by_part,
        trackers: Vec::new(),
        foreign: report.foreign,
        early: report.early,
        disconnected: report.disconnected,
    }
}

fn plan(
    orders: &FanoutParameters,
    assignment: &Assignment,
    clock_shift_ns: Vec<i64>,
) -> Result<Plan, BenchError> {
    let plan = Plan {
        subscribe_at: broker(&orders.url)?,
        publish_at: broker(&orders.publish_url)?,
        qos: Qos::from_level(orders.qos).unwrap_or_default(),
        publishers: orders.publishers,
        subscribers: orders.subscribers,
        rate: orders.rate,
        size: orders.size,
        workers: orders.workers,
        run: orders.run,
        subscriber_share: assignment.subscribers.clone(),
        publisher_share: assignment.publishers.clone(),
        clock_shift_ns,
    };
    plan.check()?;
    Ok(plan)
}

fn broker(text: &str) -> Result<BrokerEndpoint, BenchError> {
    let malformed = || BenchError::Url(text.to_owned());
    match text.parse::<Endpoint>()? {
        Endpoint::Url(url @ Url { .. }) => BrokerEndpoint::of(&url)?.ok_or_else(malformed),
        Endpoint::Command(_) => Err(malformed()),
    }
}
