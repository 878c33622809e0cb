//! All questions about one message, with one deadline.
//!
//! Questions are sent immediately, and their answers arrive while the caller does other work. The
//! caller then takes the answers that have arrived, asks the questions that follow from them, and
//! so on. A question without an answer at the deadline is treated as if it had not been sent.
//!
//! A caller need not block a thread while waiting: [`Lookup::progress`] takes a callback.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::resolver::{DnsError, Resolver};
use crate::wire::{Question, QuestionOutcome, Resolved};

/// Number of questions that one lookup may ask; further ones stay unanswered.
const QUESTIONS_MAX: usize = 400;

/// The tolerated delay of the resolver's thread on a busy machine.
const GRACE: Duration = Duration::from_secs(5);

/// The options of a question.
#[derive(Debug, Clone, Copy, Default)]
pub struct QuestionOptions<'a> {
    /// The zone of the list that is queried, so that a list that never answers is detected.
    pub list: Option<&'a str>,
    /// Whether the answer may lead to further questions, so that the caller needs it immediately.
    pub leads_further: bool,
}

/// A set of questions, and the answers that have arrived so far.
pub struct Lookup {
    resolver: Resolver,
    deadline: Instant,
    /// The questions of this lookup, each of which is sent once.
    sent: HashSet<Question>,
    inbox: Arc<Inbox>,
    answers: HashMap<Question, Resolved>,
}

/// A callback. It must not block, since it runs on the thread that handles all answers.
pub type LookupWake = Box<dyn FnOnce() + Send>;

/// A report of the resolver's thread.
#[derive(Default)]
struct Inbox(Mutex<Arrivals>);

#[derive(Default)]
struct Arrivals {
    /// Number of questions that have been sent and have not ended.
    open: usize,
    ended: Vec<(Question, Option<Resolved>)>,
    /// Whether an answer has arrived that may lead to further questions.
    leads_further: bool,
    wake: Option<LookupWake>,
}

impl Arrivals {
    const fn may_progress(&self) -> bool {
        self.open == 0 || self.leads_further
    }
}

/// The progress of a [`Lookup`]; by default that of a lookup without questions.
#[derive(Clone, Default)]
pub struct LookupProgress(Arc<Inbox>);

impl LookupProgress {
    /// Calls `wake` when the caller should look again: all questions have ended, or an answer has
    /// arrived that may lead to further questions. The call happens at the deadline at the latest,
    /// and immediately if the condition already holds.
    pub fn then(self, wake: LookupWake) {
        let mut arrivals = self.0.0.lock();
        if arrivals.may_progress() {
            drop(arrivals);
            wake();
        } else {
            arrivals.wake = Some(wake);
        }
    }
}

impl Resolver {
    /// A set of questions whose answers are awaited until `deadline`.
    pub fn lookup(&self, deadline: Instant) -> Lookup {
        Lookup::new(self.clone(), deadline)
    }

    /// Asks one question, whose answer is awaited until `deadline` at most.
    pub fn question(
        &self,
        question: Question,
        deadline: Instant,
    ) -> Result<PendingQuestion, DnsError> {
        self.check(&question)?;
        let mut lookup = self.lookup(deadline);
        lookup.query(&question, QuestionOptions::default());
        Ok(PendingQuestion { lookup, question })
    }

    /// Asks one question for a task, which waits for the answer until `deadline` at most. The
    /// answer may have no records; a failure is an error.
    pub async fn answer(
        &self,
        question: &Question,
        deadline: Instant,
    ) -> Result<Resolved, DnsError> {
        self.check(question)?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let done = move |_, resolved| {
            // Fails if the receiver is gone.
            let _ = sender.send(resolved);
        };
        self.put(question.clone(), None, deadline, done);
        // A question that could not be sent drops the sender.
        outcome(receiver.await.ok().flatten())
    }

    fn check(&self, question: &Question) -> Result<(), DnsError> {
        if !self.has_servers() {
            return Err(DnsError::NoServer);
        }
        if !question.is_valid() {
            return Err(DnsError::Name(question.name.clone()));
        }
        Ok(())
    }
}

/// The outcome of a single question.
fn outcome(resolved: Option<Resolved>) -> Result<Resolved, DnsError> {
    match resolved {
        None => Err(DnsError::Timeout),
        Some(Resolved {
            answer: QuestionOutcome::Failed(failure),
            ..
        }) => Err(DnsError::Failed(failure)),
        Some(resolved) => Ok(resolved),
    }
}

/// A single question that has been sent.
pub struct PendingQuestion {
    lookup: Lookup,
    question: Question,
}

impl PendingQuestion {
    /// Signals that the question has ended.
    pub fn progress(&self) -> LookupProgress {
        self.lookup.progress()
    }

    /// The question, and its answer if it has arrived. The answer may have no records; a failure is
    /// an error.
    pub fn end(mut self) -> (Question, Result<Resolved, DnsError>) {
        self.lookup.take_arrived();
        let answer = outcome(self.lookup.take(&self.question));
        (self.question, answer)
    }
}

impl Lookup {
    fn new(resolver: Resolver, deadline: Instant) -> Self {
        Self {
            resolver,
            deadline,
            sent: HashSet::new(),
            inbox: Arc::default(),
            answers: HashMap::new(),
        }
    }

    /// Asks a question, unless it was sent before or its name is invalid.
    pub fn query(&mut self, question: &Question, options: QuestionOptions<'_>) {
        if self.sent.contains(question) || self.sent.len() >= QUESTIONS_MAX || !question.is_valid()
        {
            return;
        }
        self.sent.insert(question.clone());
        self.inbox.0.lock().open += 1;
        let inbox = Arc::clone(&self.inbox);
        let leads_further = options.leads_further;
        let done = move |question, resolved: Option<Resolved>| {
            let mut arrivals = inbox.0.lock();
            arrivals.open -= 1;
            arrivals.leads_further |= leads_further && resolved.is_some();
            arrivals.ended.push((question, resolved));
            if arrivals.may_progress()
                && let Some(wake) = arrivals.wake.take()
            {
                drop(arrivals);
                wake();
            }
        };
        let put = self
            .resolver
            .put(question.clone(), options.list, self.deadline, done);
        if !put {
            self.inbox.0.lock().open -= 1;
        }
    }

    /// Takes the answers that have arrived, without waiting. Returns whether there was one.
    pub fn take_arrived(&mut self) -> bool {
        let ended = {
            let mut arrivals = self.inbox.0.lock();
            arrivals.leads_further = false;
            std::mem::take(&mut arrivals.ended)
        };
        let mut has_answers = false;
        for (question, resolved) in ended {
            if let Some(resolved) = resolved {
                self.answers.insert(question, resolved);
                has_answers = true;
            }
        }
        has_answers
    }

    /// Whether all questions have ended and all answers have been taken.
    pub fn is_complete(&self) -> bool {
        let arrivals = self.inbox.0.lock();
        arrivals.open == 0 && arrivals.ended.is_empty()
    }

    /// The handle that reports when there is an answer to take.
    pub fn progress(&self) -> LookupProgress {
        LookupProgress(Arc::clone(&self.inbox))
    }

    /// Blocks this thread until there is an answer to take.
    pub fn wait(&self) {
        let (arrived, wait) = std::sync::mpsc::channel();
        self.progress().then(Box::new(move || {
            // Fails if the wait has ended.
            let _ = arrived.send(());
        }));
        // Every question ends by the deadline.
        let left = self.deadline.saturating_duration_since(Instant::now());
        let _ = wait.recv_timeout(left + GRACE);
    }

    /// The answer to a question, if it has been taken.
    pub fn answer(&self, question: &Question) -> Option<&QuestionOutcome> {
        self.answers.get(question).map(|resolved| &resolved.answer)
    }

    /// The answer to a question, with its lifetime.
    fn take(&mut self, question: &Question) -> Option<Resolved> {
        self.answers.remove(question)
    }
}
