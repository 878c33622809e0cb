//! The interface of every procedure, built in or an operator's own.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{Message, PageReply, Verdict};
use gatepost_rules::Report;

use crate::ProcedureArguments;
use crate::status::ProcedureStatistics;

/// The part of a message that a procedure must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Needs {
    /// Envelope and size only: a caller may keep the body.
    Size,
    /// The body as well.
    Whole,
}

/// The verdict of a procedure, and its text for a caller who wants one (a page's `call()`).
#[derive(Debug, Clone, Default)]
pub struct ProcedureAnswer {
    /// The verdict on the message.
    pub verdict: Verdict,
    /// The text; empty for a procedure that only judges.
    pub text: String,
    /// The reply to a page's visitor besides the text.
    pub reply: Option<Box<PageReply>>,
    /// The costs of the Luau members; zero for the built-in ones.
    pub cost: Cost,
    /// The report of the rules, if they ran.
    pub report: Option<Arc<Report>>,
}

/// Resources that Luau code used, other than time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Loops and calls.
    pub steps: u64,
    /// Memory in bytes that it held at its end, beyond what it holds when idle.
    pub memory_bytes: u64,
}

impl ProcedureAnswer {
    /// Accepted, with a text for the caller.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

impl From<Verdict> for ProcedureAnswer {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            ..Self::default()
        }
    }
}

/// The reason why a procedure gave no answer. Becomes the verdict that its settings name for this
/// case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ProcedureFailure(pub(crate) String);

/// One call of a procedure.
#[derive(Clone, Copy)]
pub(crate) struct ProcedureCall<'a> {
    /// The message, shared: a Luau view of it may not borrow.
    pub(crate) message: &'a Arc<Message>,
    pub(crate) arguments: &'a ProcedureArguments,
    /// The verdict so far of the chain that this call is part of.
    pub(crate) so_far: &'a Verdict,
    /// Statistics of all procedures since the start.
    pub(crate) statistics: &'a ProcedureStatistics,
    /// The time for which the caller waits at most, whatever the procedure's own limit.
    pub(crate) time_max: Option<Duration>,
}

/// The immediate result of a procedure, or that it waits for an external response.
#[allow(clippy::large_enum_variant)] // moved once, and never stored
pub(crate) enum ProcedureResult {
    Done(Result<ProcedureAnswer, ProcedureFailure>),
    Pending(Box<dyn PendingJudgement>),
}

impl ProcedureResult {
    /// Waits on this thread until the procedure has ended.
    pub(crate) fn wait(mut self) -> Result<ProcedureAnswer, ProcedureFailure> {
        loop {
            match self {
                Self::Done(result) => return result,
                Self::Pending(pending) => {
                    let (ready, wait) = std::sync::mpsc::channel();
                    pending.notifier()(Box::new(move || {
                        // Fails if the caller no longer waits.
                        let _ = ready.send(());
                    }));
                    // Closed only if no outcome will come.
                    let _ = wait.recv();
                    self = pending.resume();
                }
            }
        }
    }
}

/// A function that is called on any thread when a judgement can continue. It must not wait.
pub(crate) type Wake = Box<dyn FnOnce() + Send>;

/// A call of a procedure that waits for an external response without a thread.
pub(crate) trait PendingJudgement: Send {
    /// Registers a function that is called once, when the judgement can continue. The notifier does
    /// not refer to the judgement, so that the function may own it.
    fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send>;

    /// The memory in bytes that it holds in addition to the message.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Continues as far as possible without waiting, after the notifier's call.
    fn resume(self: Box<Self>) -> ProcedureResult;
}

/// A named judge. Shared by all threads, so its state is atomic or per thread.
pub(crate) trait Procedure: Send + Sync {
    /// The part of the message that it examines.
    fn needs(&self) -> Needs;

    /// Whether it takes well under a microsecond, so that passing it to another thread would cost
    /// more than running it.
    fn is_cheap(&self) -> bool {
        false
    }

    /// Judges one message. A procedure has this or [`Procedure::start`].
    fn judge(&self, call: &ProcedureCall<'_>) -> Result<ProcedureAnswer, ProcedureFailure> {
        self.start(call).wait()
    }

    /// Judges one message as far as possible without waiting for others.
    fn start(&self, call: &ProcedureCall<'_>) -> ProcedureResult {
        ProcedureResult::Done(self.judge(call))
    }

    /// The action for the message after a failure.
    fn on_failure(&self) -> gatepost_message::Action {
        gatepost_message::Action::Defer
    }
}
