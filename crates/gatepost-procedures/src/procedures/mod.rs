//! [`Procedures`]: the handle that listeners hold to judge messages and to call procedures.

mod candidate;
mod folder_watch;
mod judging;
mod rebuild;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use gatepost_learning::{LearnFailure, LearnInstruction};
use gatepost_message::{Listener, Message, Verdict};
use gatepost_rules::Report;
use tokio::sync::oneshot;

use crate::builtin::verdict;
use crate::chain::{ChainProgress, ChainRun, RunPlace};
use crate::deferred_rules::{DeferredRules, RULES_WAIT_MAX};
use crate::host::{KnownSenders, ProcedureHost};
use crate::luau::ProcedureFolder;
use crate::pool::JudgePool;
use crate::procedure::{Needs, ProcedureAnswer};
use crate::scope::ScopeId;
use crate::set::{ProcedureListing, ProcedureSet, usable};
use crate::status::{ProcedureStatistics, Status};
use crate::{
    ConfigurationProblem, ProcedureArguments, ProceduresConfiguration, ProceduresSettings,
};
use folder_watch::FolderWatch;
use judging::{ChainJob, ScanJob, WaitingRuns};

const BUSY: &str = "the judges are busy; try again later";
const BROKEN: &str = "the judgement failed; try again later";

/// All procedures and scopes. Cheap to clone; every clone sees a reload immediately.
#[derive(Clone)]
pub struct Procedures(Arc<ProceduresCore>);

pub(crate) struct ProceduresCore {
    set: ArcSwap<ProcedureSet>,
    /// Counts the sets, so that a cached [`ScopeId`] can be recognised as outdated.
    generation: AtomicU64,
    pool: JudgePool,
    waiting: WaitingRuns,
    pub(crate) statistics: ProcedureStatistics,
    pub(crate) host: ProcedureHost,
    /// One rebuild at a time: a reload of the config and a changed Luau file may coincide.
    rebuilding: parking_lot::Mutex<()>,
}

impl ProceduresCore {
    fn new(
        set: ProcedureSet,
        pool: JudgePool,
        settings: &ProceduresSettings,
        statistics: ProcedureStatistics,
        host: ProcedureHost,
    ) -> Self {
        Self {
            set: ArcSwap::from_pointee(set),
            generation: AtomicU64::new(0),
            pool,
            waiting: WaitingRuns::new(settings),
            statistics,
            host,
            rebuilding: parking_lot::Mutex::default(),
        }
    }
}

/// The reason why a call could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProcedureCallError {
    /// Neither a procedure nor a scope.
    #[error("there is no procedure of this name")]
    NoSuchProcedure,
    /// Too many messages wait for a judge.
    #[error("{BUSY}")]
    Busy,
}

impl Procedures {
    /// Compiles the configuration and starts the judge threads; the rules are loaded when they are
    /// first needed. The problems of a start that
    /// succeeds are warnings.
    pub fn start(
        configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
    ) -> Result<(Self, Vec<ConfigurationProblem>), Vec<ConfigurationProblem>> {
        Self::start_in(configuration, rules, ProcedureHost::detached())
    }

    /// As [`Procedures::start`], with the services that a server provides to its procedures.
    pub fn start_in(
        configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
        host: ProcedureHost,
    ) -> Result<(Self, Vec<ConfigurationProblem>), Vec<ConfigurationProblem>> {
        let statistics = ProcedureStatistics::new();
        let folder = ProcedureFolder::read(&configuration.procedures.path);
        let settings = configuration.procedures.clone();
        let (set, problems) = ProcedureSet::build(
            Arc::new(configuration),
            rules.into(),
            folder,
            &statistics,
            &host,
        );
        if !usable(&problems) {
            return Err(problems);
        }
        let pool = JudgePool::start(settings.judges, settings.queue_max);
        let inner = Arc::new(ProceduresCore::new(set, pool, &settings, statistics, host));
        FolderWatch::start(&inner, settings.recheck.duration());
        Ok((Self(inner), problems))
    }

    /// One procedure from any file, for a test: its path is the file's name. Scopes and the folder
    /// are ignored, and no periodic work is done.
    pub fn start_file(
        mut configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
        host: ProcedureHost,
        file: &Path,
    ) -> Result<(Self, String), Vec<ConfigurationProblem>> {
        configuration.scopes.clear();
        let (folder, path) = ProcedureFolder::of_file(file);
        let luau = configuration.table.luau.remove(&path);
        configuration.table.luau.clear();
        configuration
            .table
            .luau
            .extend(luau.map(|settings| (path.clone(), settings)));
        let statistics = ProcedureStatistics::new();
        let settings = configuration.procedures.clone();
        let configuration = Arc::new(configuration);
        let (set, problems) =
            ProcedureSet::build(configuration, rules.into(), folder, &statistics, &host);
        if !usable(&problems) {
            return Err(problems);
        }
        let inner = ProceduresCore::new(set, JudgePool::start(1, 1), &settings, statistics, host);
        Ok((Self(Arc::new(inner)), path))
    }

    /// Every procedure, with its file if it has one, and the scopes that run it.
    pub fn listing(&self) -> Vec<ProcedureListing> {
        self.0.set.load().listing()
    }

    /// The problems of a configuration, without starting anything.
    pub fn check(
        configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
    ) -> Vec<ConfigurationProblem> {
        let folder = ProcedureFolder::read(&configuration.procedures.path);
        let (statistics, host) = (ProcedureStatistics::new(), ProcedureHost::detached());
        ProcedureSet::build(
            Arc::new(configuration),
            rules.into(),
            folder,
            &statistics,
            &host,
        )
        .1
    }

    /// The rules that `/spamcheck` runs.
    pub fn rules(&self) -> DeferredRules {
        self.0.set.load().rules.clone()
    }

    /// The scope that judges messages of this listener, topic and recipients, if there is one.
    /// Takes no lock and waits for nothing.
    pub fn scope_for(
        &self,
        listener: Listener,
        topic: Option<&str>,
        recipients: &[String],
    ) -> Option<ScopeId> {
        self.0.set.load().scope_for(listener, topic, recipients)
    }

    /// A number that increases with each reload; a [`ScopeId`], or the knowledge that there is no
    /// scope, may be kept as long as this stays the same.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Has the matching scope judge the message; without one it is accepted.
    pub async fn judge(&self, message: &Arc<Message>) -> Verdict {
        self.judge_and_report(message).await.verdict
    }

    /// The same, with the report of the rules if the scope ran them.
    pub async fn judge_and_report(&self, message: &Arc<Message>) -> ProcedureAnswer {
        let set = self.0.set.load_full();
        let envelope = &message.envelope;
        let topic = message.topic.as_ref().map(gatepost_message::Topic::as_str);
        let scope = set.scope_for(envelope.listener, topic, &envelope.recipients);
        let Some(scope) = scope.and_then(|id| set.scope(id)) else {
            return Verdict::accept().into();
        };
        let run = scope.chain.start();
        let answer = self.run(run, message, ProcedureArguments::none()).await;
        if let Some(originals) = &self.0.host.originals {
            originals.keep(message);
        }
        answer
    }

    /// Has the procedure or scope at `path` judge the message.
    pub async fn call(
        &self,
        path: &str,
        message: Arc<Message>,
        arguments: ProcedureArguments,
    ) -> Result<ProcedureAnswer, ProcedureCallError> {
        let run = self.start_chain(path)?;
        Ok(self.run(run, &message, arguments).await)
    }

    /// As [`Procedures::call`], on the present thread, which must be one that may block. A
    /// procedure that has not ended by `deadline` counts as failed.
    pub fn call_here(
        &self,
        path: &str,
        message: &Arc<Message>,
        arguments: &ProcedureArguments,
        deadline: Instant,
    ) -> Result<ProcedureAnswer, ProcedureCallError> {
        let mut run = self.start_chain(path)?.until(deadline);
        run.advance(message, arguments, &self.0.statistics, RunPlace::Blocking);
        Ok(run.finish())
    }

    /// As [`Procedures::call`], if all members of the chain are cheap; otherwise returns the
    /// message for a call that waits.
    pub fn call_at_once(
        &self,
        path: &str,
        message: Arc<Message>,
        arguments: ProcedureArguments,
    ) -> Result<Result<ProcedureAnswer, CallForJudge>, ProcedureCallError> {
        let mut run = self.start_chain(path)?;
        let progress = run.advance(&message, &arguments, &self.0.statistics, RunPlace::Anywhere);
        if progress == ChainProgress::Ended {
            return Ok(Ok(run.finish()));
        }
        Ok(Err(CallForJudge {
            run,
            message,
            arguments,
        }))
    }

    fn start_chain(&self, path: &str) -> Result<ChainRun, ProcedureCallError> {
        let set = self.0.set.load();
        let chain = set.chain(path).ok_or(ProcedureCallError::NoSuchProcedure)?;
        Ok(chain.start())
    }

    /// Completes on the judge threads a call that [`Procedures::call_at_once`] began.
    pub async fn resume(&self, unready: CallForJudge) -> ProcedureAnswer {
        self.run(unready.run, &unready.message, unready.arguments)
            .await
    }

    /// The part of a message that a caller must pass to the procedure or scope at `path`; `None`
    /// without one.
    pub fn needs(&self, path: &str) -> Option<Needs> {
        Some(self.0.set.load().chain(path)?.needs())
    }

    /// Runs only the rules, for their full report.
    pub async fn scan(&self, message: Arc<Message>) -> Result<Report, ProcedureCallError> {
        let (reply, answer) = oneshot::channel();
        let rules = self.rules();
        let core = Arc::clone(&self.0);
        let job = Box::new(move || {
            if reply.is_closed() {
                return;
            }
            // Fails if the caller no longer waits.
            let then = move |report| drop(reply.send(report));
            let job = ScanJob {
                core,
                message,
                then,
            };
            job.start(rules);
        });
        self.0
            .pool
            .submit(job)
            .map_err(|_| ProcedureCallError::Busy)?;
        answer.await.map_err(|_| ProcedureCallError::Busy)
    }

    /// Runs the rules alone and calls `then` with the report on the judge thread, which saves
    /// waking another thread. If the queue is full, `then` is called immediately on this thread
    /// with an error.
    pub fn scan_then(
        &self,
        message: Arc<Message>,
        then: impl FnOnce(Result<Report, ProcedureCallError>) + Send + 'static,
    ) {
        let rules = self.rules();
        let then = Unanswered(Some(then));
        let job = ScanJob {
            core: Arc::clone(&self.0),
            message,
            then: move |report| then.answer(Ok(report)),
        };
        let job = Box::new(move || job.start(rules));
        // A refused job is dropped, and dropping `then` reports the error.
        let _ = self.0.pool.submit(job);
    }

    /// Makes the rules learn or forget a message; returns true if that changed anything, once it is
    /// on disk.
    pub async fn learn(
        &self,
        message: Arc<Message>,
        instruction: LearnInstruction,
    ) -> Result<Result<bool, LearnFailure>, ProcedureCallError> {
        let (reply, answer) = oneshot::channel();
        let rules = self.rules();
        let runtime = tokio::runtime::Handle::current();
        let job = Box::new(move || {
            // Done even if the caller no longer waits: the change was requested. Without rules,
            // dropping the reply channel reports that it was not done.
            let Some(rules) = rules.wait(RULES_WAIT_MAX) else {
                return;
            };
            let is_of_cluster = rules.learning().is_some_and(|one| one.cluster.is_some());
            let learn = move || {
                let _ = reply.send(rules.learn(&message.body, instruction));
            };
            if is_of_cluster {
                // A cluster may let it wait, and scans need this thread.
                runtime.spawn_blocking(learn);
            } else {
                learn();
            }
        });
        self.0
            .pool
            .submit(job)
            .map_err(|_| ProcedureCallError::Busy)?;
        answer.await.map_err(|_| ProcedureCallError::Busy)
    }

    /// The verdict of `/spamcheck` for a report that [`Procedures::scan`] made, without the
    /// report's fields.
    pub fn verdict_of(&self, report: &Report) -> Verdict {
        verdict(&self.0.set.load().configuration.table.spamcheck, report)
    }

    /// Statistics of all procedures since the start.
    pub fn status(&self) -> Status {
        let rules = self.rules();
        let silent = rules.loaded().map(|rules| rules.silent_lists());
        let silent = silent.into_iter().flatten();
        Status {
            waiting_for_network: self.0.waiting.count(),
            silent_lists: silent.map(|list| (list.list, list.skipped)).collect(),
            greylist: self.0.host.memory.greylist.by_name(),
            ..self.0.statistics.status()
        }
    }

    /// Provides the list of allowed senders to the procedures; only the first one counts.
    pub fn provide_allowed_senders(&self, senders: Box<dyn KnownSenders>) {
        // Fails if there is a list already.
        let _ = self.0.host.memory.allowed_senders.set(senders);
    }

    /// The paths of all procedures, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.0.set.load().paths().map(str::to_owned).collect()
    }

    /// Runs the cheap beginning of a chain here and the rest on a judge thread.
    async fn run(
        &self,
        mut run: ChainRun,
        message: &Arc<Message>,
        arguments: ProcedureArguments,
    ) -> ProcedureAnswer {
        let progress = run.advance(message, &arguments, &self.0.statistics, RunPlace::Anywhere);
        if progress == ChainProgress::Ended {
            return run.finish();
        }
        let (job, answer, _caller) = ChainJob::new(&self.0, run, message, arguments);
        let job = Box::new(move || job.run());
        let failed = |reason: &str| {
            ProcedureAnswer::from(Verdict::new(gatepost_message::Action::Defer, reason))
        };
        if self.0.pool.submit(job).is_err() {
            return failed(BUSY);
        }
        answer.await.unwrap_or_else(|_| failed(BROKEN))
    }
}

/// The continuation of a scan. If it is dropped without an answer, because the queue is full or a
/// judge panicked, it receives `Busy`.
struct Unanswered<F: FnOnce(Result<Report, ProcedureCallError>)>(Option<F>);

impl<F: FnOnce(Result<Report, ProcedureCallError>)> Unanswered<F> {
    fn answer(mut self, report: Result<Report, ProcedureCallError>) {
        if let Some(then) = self.0.take() {
            then(report);
        }
    }
}

impl<F: FnOnce(Result<Report, ProcedureCallError>)> Drop for Unanswered<F> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(ProcedureCallError::Busy));
        }
    }
}

/// A call whose chain has reached a member that must run on a judge thread.
pub struct CallForJudge {
    run: ChainRun,
    message: Arc<Message>,
    arguments: ProcedureArguments,
}
