//! A chain of procedures, and the combination of its members' answers into one verdict.

use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, Message, Verdict, edit};

use crate::ProcedureArguments;
use crate::procedure::{
    Needs, PendingJudgement, Procedure, ProcedureAnswer, ProcedureCall, ProcedureFailure,
    ProcedureResult, Wake,
};
use crate::status::{ProcedureCounters, ProcedureStatistics};

/// One member of a chain: a procedure under its path, with its counters.
#[derive(Clone)]
pub(crate) struct ChainMember {
    pub(crate) path: Arc<str>,
    pub(crate) counters: Arc<ProcedureCounters>,
    pub(crate) procedure: Arc<dyn Procedure>,
    /// The arguments from the scope; a caller's arguments override these.
    pub(crate) arguments: ProcedureArguments,
}

impl ChainMember {
    /// Starts the procedure and counts the run.
    fn start(&self, call: &ProcedureCall<'_>, may_block: bool) -> ProcedureResult {
        if self.arguments.is_empty() {
            return self.start_with(call, may_block);
        }
        let arguments = self.arguments.overridden_by(call.arguments);
        let call = ProcedureCall {
            arguments: &arguments,
            ..*call
        };
        self.start_with(&call, may_block)
    }

    fn start_with(&self, call: &ProcedureCall<'_>, may_block: bool) -> ProcedureResult {
        let measured = self.counters.measure(self.procedure.is_cheap());
        let judgement = if may_block {
            ProcedureResult::Done(self.procedure.judge(call))
        } else {
            self.procedure.start(call)
        };
        measured.finish();
        judgement
    }

    fn resume(&self, pending: Box<dyn PendingJudgement>) -> ProcedureResult {
        let measured = self.counters.measure_again();
        let judgement = pending.resume();
        measured.finish();
        judgement
    }

    /// Counts the verdict, and turns a failure into its verdict.
    fn answer(
        &self,
        call: &ProcedureCall<'_>,
        result: Result<ProcedureAnswer, ProcedureFailure>,
    ) -> ProcedureAnswer {
        match result {
            Ok(answer) => {
                self.counters.count(answer.verdict.action);
                answer
            }
            Err(failure) => self.failed(call, self.procedure.on_failure(), &failure),
        }
    }

    fn failed(
        &self,
        call: &ProcedureCall<'_>,
        action: Action,
        failure: &ProcedureFailure,
    ) -> ProcedureAnswer {
        tracing::warn!(
            target: "procedures",
            message = %call.message.id,
            procedure = &*self.path,
            verdict = action.name(),
            "the procedure failed: {failure}"
        );
        self.counters.count_error(action);
        // The peer receives the name of the failed procedure, not details of a user's code.
        Verdict::new(
            action,
            format!("{} failed; see the server's log", self.path),
        )
        .into()
    }
}

/// The members in order.
#[derive(Clone)]
pub(crate) struct ProcedureChain(pub(crate) Arc<[ChainMember]>);

/// A chain that judges one message. It moves between threads as a whole.
pub(crate) struct ChainRun {
    chain: ProcedureChain,
    next: usize,
    /// The combined answer of the members that have run.
    sum: ProcedureAnswer,
    /// The instant at which the caller stops waiting.
    deadline: Option<Instant>,
    /// The message as the members so far have changed it.
    changed: Option<Arc<Message>>,
    /// The current member, if it waits for an external response.
    pending: Option<Box<dyn PendingJudgement>>,
}

/// The thread on which a chain runs, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPlace {
    /// On a thread that serves other connections: cheap members only.
    Anywhere,
    /// On a judge thread, which members release while they wait.
    Judge,
    /// On a thread that may wait.
    Blocking,
}

/// The progress of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainProgress {
    Ended,
    /// The next member belongs on a judge thread.
    NeedsJudge,
    /// The current member waits for an external response; see [`ChainRun::notifier`].
    Waiting,
}

impl ProcedureChain {
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.0.iter().map(|step| step.procedure.needs());
        needs.max().unwrap_or(Needs::Size)
    }

    pub(crate) fn start(&self) -> ChainRun {
        ChainRun {
            chain: self.clone(),
            next: 0,
            sum: Verdict::accept().into(),
            deadline: None,
            changed: None,
            pending: None,
        }
    }
}

impl ChainRun {
    /// Sets the `deadline` until which the caller waits.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Runs members until the chain ends, or the next member is not permitted in `place`.
    pub(crate) fn advance(
        &mut self,
        message: &Arc<Message>,
        arguments: &ProcedureArguments,
        statistics: &ProcedureStatistics,
        place: RunPlace,
    ) -> ChainProgress {
        // The fields are borrowed separately, so that the members' reference count is not
        // incremented.
        let Self {
            chain: ProcedureChain(members),
            next,
            sum,
            deadline,
            changed,
            pending: waiting,
        } = self;
        while let Some(member) = members.get(*next) {
            if place == RunPlace::Anywhere && !member.procedure.is_cheap() {
                return ChainProgress::NeedsJudge;
            }
            let call = ProcedureCall {
                message: changed.as_ref().unwrap_or(message),
                arguments,
                so_far: &sum.verdict,
                statistics,
                time_max: deadline
                    .map(|deadline| deadline.saturating_duration_since(Instant::now())),
            };
            let may_block = place == RunPlace::Blocking;
            let judgement = match waiting.take() {
                Some(pending) if may_block => ProcedureResult::Pending(pending),
                Some(pending) => member.resume(pending),
                None => member.start(&call, may_block),
            };
            let result = match judgement {
                ProcedureResult::Done(result) => result,
                pending if may_block => pending.wait(),
                ProcedureResult::Pending(pending) => {
                    *waiting = Some(pending);
                    return ChainProgress::Waiting;
                }
            };
            let answer = member.answer(&call, result);
            if let Some(report) = &answer.report {
                statistics.count_given_up(report);
            }
            *next += 1;
            if !answer.verdict.edits.is_empty() && *next < members.len() {
                let before = changed.as_ref().unwrap_or(message);
                *changed = Some(Arc::new(edit::applied(before, &answer.verdict.edits)));
            }
            if *next == 1 {
                *sum = alone(&member.path, answer);
            } else {
                add(sum, &member.path, answer);
            }
            if !sum.verdict.action.delivers() {
                break;
            }
        }
        ChainProgress::Ended
    }

    /// Registers a function that is called when a waiting chain can continue.
    pub(crate) fn notifier(&self) -> Option<Box<dyn FnOnce(Wake) + Send>> {
        self.pending.as_ref().map(|pending| pending.notifier())
    }

    /// The memory in bytes that a waiting chain holds in addition to the message.
    pub(crate) fn waiting_memory_bytes(&self) -> usize {
        let pending = self.pending.as_ref();
        pending.map_or(0, |pending| pending.memory_bytes())
    }

    /// The combined answer of the members that have run.
    pub(crate) fn finish(self) -> ProcedureAnswer {
        self.sum
    }
}

/// The sum of one answer is that answer; most chains have one member.
fn alone(path: &str, mut answer: ProcedureAnswer) -> ProcedureAnswer {
    answer.verdict.procedure.clear();
    if answer.verdict.action > Action::Accept {
        answer.verdict.procedure.push_str(path);
    }
    answer
}

/// Adds one member's answer: tags and hits accumulate, the more severe action holds with its reason
/// and its procedure, a later score replaces an earlier one.
fn add(answers: &mut ProcedureAnswer, path: &str, answer: ProcedureAnswer) {
    let (sum, mut one) = (&mut answers.verdict, answer.verdict);
    if one.action > sum.action {
        sum.action = one.action;
        path.clone_into(&mut sum.procedure);
        sum.reason = one.reason;
    } else if sum.reason.is_empty() {
        sum.reason = one.reason;
    }
    sum.score = one.score.or(sum.score);
    sum.hits.append(&mut one.hits);
    sum.tags.append(&mut one.tags);
    sum.authentication.append(&mut one.authentication);
    sum.edits.append(&mut one.edits);
    answers.cost.steps += answer.cost.steps;
    answers.cost.memory_bytes = answers.cost.memory_bytes.max(answer.cost.memory_bytes);
    answers.report = answer.report.or(answers.report.take());
    answers.text.push_str(&answer.text);
    if let Some(reply) = answer.reply {
        answers.reply.get_or_insert_default().merge(*reply);
    }
}
