//! A chain of procedures, and how the answers of its members become one verdict.

use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Action, Message, Reply, Verdict, edit};
use gatepost_rules::Report;

use crate::Arguments;
use crate::procedure::{Answer, Call, Cost, Failure, Needs, Procedure};
use crate::status::{Counters, Statistics};

/// One member of a chain: a procedure under its path, with its counters.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) path: Arc<str>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) procedure: Arc<dyn Procedure>,
    /// What the scope hands to it; a caller's arguments stand over these.
    pub(crate) arguments: Arguments,
}

impl Step {
    /// Runs the procedure, counts the run, and turns a failure into its verdict.
    fn run(&self, call: &Call<'_>) -> Answer {
        if self.arguments.is_empty() {
            return self.run_with(call);
        }
        let arguments = self.arguments.under(call.arguments);
        self.run_with(&Call {
            arguments: &arguments,
            ..*call
        })
    }

    fn run_with(&self, call: &Call<'_>) -> Answer {
        let measured = self.counters.measure(self.procedure.is_cheap());
        let result = self.procedure.judge(call);
        measured.finish();
        match result {
            Ok(answer) => {
                self.counters.count(answer.verdict.action);
                answer
            }
            Err(failure) => self.failed(call, self.procedure.on_failure(), &failure),
        }
    }

    fn failed(&self, call: &Call<'_>, action: Action, failure: &Failure) -> Answer {
        tracing::warn!(
            target: "procedures",
            message = %call.message.id,
            procedure = &*self.path,
            verdict = action.name(),
            "the procedure failed: {failure}"
        );
        self.counters.count_error(action);
        // The peer learns which procedure failed, not the inside of a user's code.
        Verdict::new(
            action,
            format!("{} failed; see the server's log", self.path),
        )
        .into()
    }
}

/// The members in order.
#[derive(Clone)]
pub(crate) struct Chain(pub(crate) Arc<[Step]>);

/// A chain on its way through one message. Moves between threads whole.
pub(crate) struct Run {
    chain: Chain,
    next: usize,
    verdict: Verdict,
    text: String,
    reply: Option<Box<Reply>>,
    cost: Cost,
    report: Option<Arc<Report>>,
    /// When the caller gives up.
    deadline: Option<Instant>,
    /// The message as the members so far have changed it.
    changed: Option<Arc<Message>>,
}

impl Chain {
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.0.iter().map(|step| step.procedure.needs());
        needs.max().unwrap_or(Needs::Size)
    }

    pub(crate) fn start(self) -> Run {
        Run {
            chain: self,
            next: 0,
            verdict: Verdict::accept(),
            text: String::new(),
            reply: None,
            cost: Cost::default(),
            report: None,
            deadline: None,
            changed: None,
        }
    }
}

impl Run {
    /// The caller waits no longer than until `deadline`.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Runs members until the chain ends or, with `only_cheap`, one comes that belongs on a
    /// judge thread. Returns whether the chain has ended.
    pub(crate) fn advance(
        &mut self,
        message: &Arc<Message>,
        arguments: &Arguments,
        statistics: &Statistics,
        only_cheap: bool,
    ) -> bool {
        let chain = Arc::clone(&self.chain.0);
        while let Some(step) = chain.get(self.next) {
            if only_cheap && !step.procedure.is_cheap() {
                return false;
            }
            let answer = step.run(&Call {
                message: self.changed.as_ref().unwrap_or(message),
                arguments,
                so_far: &self.verdict,
                statistics,
                time_max: self
                    .deadline
                    .map(|deadline| deadline.saturating_duration_since(Instant::now())),
            });
            self.next += 1;
            if !answer.verdict.edits.is_empty() && self.next < chain.len() {
                let before = self.changed.as_ref().unwrap_or(message);
                self.changed = Some(Arc::new(edit::applied(before, &answer.verdict.edits)));
            }
            self.take(&step.path, answer);
            if !self.verdict.action.delivers() {
                break;
            }
        }
        true
    }

    /// The sum of what was said; whatever has not run is left out.
    pub(crate) fn finish(self) -> Answer {
        Answer {
            verdict: self.verdict,
            text: self.text,
            reply: self.reply,
            cost: self.cost,
            report: self.report,
        }
    }

    /// Adds one member's answer: tags and hits accumulate, the more severe action holds and
    /// brings its reason and its procedure along, a later score replaces an earlier one.
    fn take(&mut self, path: &str, answer: Answer) {
        let (sum, mut one) = (&mut self.verdict, answer.verdict);
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
        self.cost.steps += answer.cost.steps;
        self.cost.memory_bytes = self.cost.memory_bytes.max(answer.cost.memory_bytes);
        self.report = answer.report.or(self.report.take());
        self.text.push_str(&answer.text);
        if let Some(reply) = answer.reply {
            self.reply.get_or_insert_default().merge(*reply);
        }
    }
}
