//! A message on its way over the judge threads.
//!
//! A member of a chain that waits for the network gives its judge back: the rest of the run becomes a job
//! that is queued again when there is something to go on with. The number of such runs is bounded
//! ([`WaitingRuns`]); beyond, a judge waits along, which lets the queue fill and senders be deferred.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::Message;
use gatepost_rules::{Report, RuleSet, ScanProgress};
use tokio::sync::oneshot;

use super::ProceduresCore;
use crate::Arguments;
use crate::builtin::{start_scan, warn_of_limits};
use crate::chain::{ChainProgress, ChainRun, RunPlace};
use crate::procedure::{ProcedureAnswer, Wake};

/// Counts the runs that wait for the network without a judge.
pub(super) struct WaitingRuns {
    count: AtomicUsize,
    max: usize,
}

impl WaitingRuns {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            max,
        }
    }

    /// How many wait now.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// A run that waits, counted as long as this lives.
struct Waiting(Arc<ProceduresCore>);

impl Waiting {
    /// `None` if as many wait as may.
    fn count(core: &Arc<ProceduresCore>) -> Option<Self> {
        let counted = Self(Arc::clone(core));
        let before = core.waiting.count.fetch_add(1, Ordering::Relaxed);
        (before < core.waiting.max).then_some(counted)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Queues a job when the external response has arrived.
fn go_on_later(waiting: Waiting, notifier: impl FnOnce(Wake), job: impl FnOnce() + Send + 'static) {
    notifier(Box::new(move || {
        let core = Arc::clone(&waiting.0);
        drop(waiting);
        core.pool.resume(Box::new(job));
    }));
}

/// A chain that judges a message on the judge threads.
pub(super) struct ChainJob {
    pub(super) core: Arc<ProceduresCore>,
    pub(super) run: ChainRun,
    pub(super) message: Arc<Message>,
    pub(super) arguments: Arguments,
    pub(super) reply: oneshot::Sender<ProcedureAnswer>,
}

impl ChainJob {
    /// Runs the chain until it ends or waits.
    pub(super) fn run(mut self) {
        // The caller may have given up while this waited.
        if self.reply.is_closed() {
            return;
        }
        let progress = self.advance(RunPlace::Judge);
        if progress == ChainProgress::Waiting {
            let waiting = Waiting::count(&self.core);
            if let (Some(waiting), Some(notifier)) = (waiting, self.run.notifier()) {
                go_on_later(waiting, notifier, move || self.run());
                return;
            }
            self.advance(RunPlace::Blocking);
        }
        // Fails if the caller no longer waits.
        let _ = self.reply.send(self.run.finish());
    }

    fn advance(&mut self, place: RunPlace) -> ChainProgress {
        let statistics = &self.core.statistics;
        self.run
            .advance(&self.message, &self.arguments, statistics, place)
    }
}

/// The rules alone over a message, for a report of all that they found.
pub(super) struct ScanJob<F> {
    pub(super) core: Arc<ProceduresCore>,
    pub(super) message: Arc<Message>,
    /// Gets the report, on a judge thread.
    pub(super) then: F,
}

impl<F: FnOnce(Report) + Send + 'static> ScanJob<F> {
    pub(super) fn start(self, rules: &Arc<RuleSet>) {
        let progress = start_scan(rules, &self.message);
        self.go_on(progress);
    }

    fn go_on(self, mut progress: ScanProgress) {
        loop {
            let scan = match progress {
                ScanProgress::Done(report) => {
                    warn_of_limits(&report, &self.message);
                    self.core.statistics.count_given_up(&report);
                    return (self.then)(report);
                }
                ScanProgress::Waiting(scan) => scan,
            };
            let answers = scan.progress();
            if let Some(waiting) = Waiting::count(&self.core) {
                let job = move || self.go_on(scan.resume());
                return go_on_later(waiting, move |wake| answers.then(wake), job);
            }
            progress = scan.wait();
        }
    }
}
