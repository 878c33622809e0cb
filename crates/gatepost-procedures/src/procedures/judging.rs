//! The judgement of a message on the judge threads.
//!
//! A member of a chain that waits for the network releases its judge thread: the rest of the run
//! becomes a job that is queued again when the response has arrived. The number of such runs is
//! bounded ([`WaitingRuns`]), and so is the memory that they hold in addition to their messages;
//! beyond these bounds the judge thread itself waits, so that the queue fills and senders are
//! deferred. A run whose caller stops waiting ([`Caller`]) ends immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_message::Message;
use gatepost_rules::{Report, ScanProgress};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::ProceduresCore;
use crate::builtin::{start_scan, warn_of_limits};
use crate::chain::{ChainProgress, ChainRun, RunPlace};
use crate::deferred_rules::{DeferredRules, RULES_WAIT_MAX};
use crate::procedure::{ProcedureAnswer, Wake};
use crate::{ProcedureArguments, ProceduresSettings};

/// Counts the runs that wait for the network without a judge, and their memory.
pub(super) struct WaitingRuns {
    count: AtomicUsize,
    max: usize,
    memory_bytes: AtomicUsize,
    memory_bytes_max: usize,
}

impl WaitingRuns {
    pub(super) fn new(settings: &ProceduresSettings) -> Self {
        Self {
            count: AtomicUsize::new(0),
            max: settings.waiting_max,
            memory_bytes: AtomicUsize::new(0),
            memory_bytes_max: settings.waiting_memory_max.as_usize(),
        }
    }

    /// The number that wait now.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// A run that waits, counted as long as this lives.
struct WaitingRun {
    core: Arc<ProceduresCore>,
    memory_bytes: usize,
}

impl WaitingRun {
    /// Returns `None` if the maximum number of runs wait, or they hold the maximum memory.
    fn count(core: &Arc<ProceduresCore>, memory_bytes: usize) -> Option<Self> {
        let counted = Self {
            core: Arc::clone(core),
            memory_bytes,
        };
        let runs = &core.waiting;
        let before = runs.count.fetch_add(1, Ordering::Relaxed);
        let held = runs.memory_bytes.fetch_add(memory_bytes, Ordering::Relaxed);
        let has_room = before < runs.max && held + memory_bytes <= runs.memory_bytes_max;
        has_room.then_some(counted)
    }
}

impl Drop for WaitingRun {
    fn drop(&mut self) {
        let runs = &self.core.waiting;
        runs.count.fetch_sub(1, Ordering::Relaxed);
        runs.memory_bytes
            .fetch_sub(self.memory_bytes, Ordering::Relaxed);
    }
}

/// Queues a job when the external response has arrived.
fn continue_later(
    waiting: WaitingRun,
    notifier: impl FnOnce(Wake),
    job: impl FnOnce() + Send + 'static,
) {
    notifier(Box::new(move || {
        let core = Arc::clone(&waiting.core);
        drop(waiting);
        core.pool.resume(Box::new(job));
    }));
}

/// A waiting run with its count. The thread that takes it out continues or ends it.
type ParkedRun = Arc<Mutex<Option<(WaitingRun, ChainJob)>>>;

/// The caller of a run: when it is dropped, a waiting run ends.
pub(super) struct Caller(ParkedRun);

impl Drop for Caller {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Ends a waiting run. It is dropped outside the lock, since it refers to the lock itself.
fn end(parked: &ParkedRun) {
    let run = parked.lock().take();
    drop(run);
}

/// Continues a parked run when the answer has arrived, or ends it if there will be none. The value
/// is for one wait only: the continued run may be parked again before this is dropped.
struct Unpark(Option<ParkedRun>);

impl Unpark {
    fn continue_run(mut self) {
        let run = self.0.take().and_then(|parked| parked.lock().take());
        if let Some((waiting, job)) = run {
            let core = Arc::clone(&waiting.core);
            drop(waiting);
            core.pool.resume(Box::new(move || job.run()));
        }
    }
}

impl Drop for Unpark {
    fn drop(&mut self) {
        if let Some(parked) = &self.0 {
            end(parked);
        }
    }
}

/// A chain that judges a message on the judge threads.
pub(super) struct ChainJob {
    pub(super) core: Arc<ProceduresCore>,
    pub(super) run: ChainRun,
    pub(super) message: Arc<Message>,
    pub(super) arguments: ProcedureArguments,
    reply: oneshot::Sender<ProcedureAnswer>,
    parked: ParkedRun,
}

impl ChainJob {
    /// A run, its answer, and its caller, which must exist as long as the answer is awaited.
    pub(super) fn new(
        core: &Arc<ProceduresCore>,
        run: ChainRun,
        message: &Arc<Message>,
        arguments: ProcedureArguments,
    ) -> (Self, oneshot::Receiver<ProcedureAnswer>, Caller) {
        let (reply, answer) = oneshot::channel();
        let parked = ParkedRun::default();
        let job = Self {
            core: Arc::clone(core),
            run,
            message: Arc::clone(message),
            arguments,
            reply,
            parked: Arc::clone(&parked),
        };
        (job, answer, Caller(parked))
    }

    /// Runs the chain until it ends or waits.
    pub(super) fn run(mut self) {
        // The caller may have stopped waiting meanwhile.
        if self.reply.is_closed() {
            return;
        }
        let progress = self.advance(RunPlace::Judge);
        if progress == ChainProgress::Waiting {
            let waiting = WaitingRun::count(&self.core, self.run.waiting_memory_bytes());
            if let (Some(waiting), Some(notifier)) = (waiting, self.run.notifier()) {
                return self.park(waiting, notifier);
            }
            self.advance(RunPlace::Blocking);
        }
        // Fails if the caller no longer waits.
        let _ = self.reply.send(self.run.finish());
    }

    /// Waits without a thread.
    fn park(self, waiting: WaitingRun, notifier: impl FnOnce(Wake)) {
        let parked = Arc::clone(&self.parked);
        let unpark = Unpark(Some(Arc::clone(&parked)));
        *parked.lock() = Some((waiting, self));
        notifier(Box::new(move || unpark.continue_run()));
        // The caller may have stopped waiting before the run was parked.
        let run = parked.lock().take_if(|(_, job)| job.reply.is_closed());
        drop(run);
    }

    fn advance(&mut self, place: RunPlace) -> ChainProgress {
        let statistics = &self.core.statistics;
        self.run
            .advance(&self.message, &self.arguments, statistics, place)
    }
}

/// A job that runs only the rules on a message, for their full report.
pub(super) struct ScanJob<F> {
    pub(super) core: Arc<ProceduresCore>,
    pub(super) message: Arc<Message>,
    /// Receives the report, on a judge thread.
    pub(super) then: F,
}

impl<F: FnOnce(Report) + Send + 'static> ScanJob<F> {
    /// Starts when the rules are loaded. If loading fails, `then` is dropped.
    pub(super) fn start(self, rules: DeferredRules) {
        if rules.loaded().is_some() {
            return self.start_with(&rules);
        }
        let Some(waiting) = WaitingRun::count(&self.core, 0) else {
            rules.wait(RULES_WAIT_MAX);
            return self.start_with(&rules);
        };
        let loading = rules.clone();
        let job = move || self.start_with(&rules);
        continue_later(waiting, move |wake| loading.then(wake), job);
    }

    fn start_with(self, rules: &DeferredRules) {
        if let Some(rules) = rules.loaded() {
            let progress = start_scan(rules, &self.message);
            self.continue_run(progress);
        }
    }

    fn continue_run(self, mut progress: ScanProgress) {
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
            if let Some(waiting) = WaitingRun::count(&self.core, 0) {
                let job = move || self.continue_run(scan.resume());
                return continue_later(waiting, move |wake| answers.then(wake), job);
            }
            progress = scan.wait();
        }
    }
}
