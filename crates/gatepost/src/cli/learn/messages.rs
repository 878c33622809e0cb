//! Learning from messages: directly in the database if no gateway is running with it, otherwise
//! through the queue of the running gateway. A gateway of a cluster answers each request, since
//! only the cluster learns.
//!
//! Ctrl-C ends learning after the current message; earlier messages remain learned.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use gatepost_bench::interrupt;
use gatepost_learning::Learning;
use gatepost_learning::bayes::{BayesSample, Class, Learned, Relearn};
use gatepost_learning::reputation::SenderChange;
use gatepost_mail::Mail;
use gatepost_mail::mailbox::{self, MailboxSettings};
use gatepost_operations::learner::queue::{self, LearnRequest};
use gatepost_operations::learner::{Learner, wait};
use gatepost_rules::RuleSet;
use gatepost_store::{Store, StoreChange};
use indicatif::{ProgressBar, ProgressStyle};

use super::{LearnArguments, LearnError, LearnOutcome, is_standard, status};
use crate::config::Config;

/// The number of messages after which the learned data is stored.
const KEEP_EVERY: usize = 500;
/// The interval at which the gateway's answer is looked for.
const ANSWER_READ_EVERY: Duration = Duration::from_millis(100);

/// Learns or forgets the messages of the paths, in steps that are stored one by one.
pub(super) fn learn(
    arguments: &LearnArguments,
    config: &Config,
    store: &Store,
    learner: Option<&Learner>,
    is_of_cluster: bool,
) -> Result<LearnOutcome, LearnError> {
    let request = request(arguments).ok_or(LearnError::NoAction)?;
    if arguments.paths.is_empty() {
        return Err(LearnError::NoPath);
    }
    let (rules, _) = RuleSet::load(&config.rules.paths, &config.rules);
    let learning = learner.map(Learner::learning).transpose()?;
    let progress = progress(&arguments.paths, arguments.quiet);
    let mut tally = LearnCounts::default();
    let mut requests = Requests::new(config, store, is_of_cluster);
    if !arguments.paths.iter().any(|path| is_standard(path)) {
        // A read of the terminal does not end at the signal.
        interrupt::install();
    }
    for found in mailbox::open(&arguments.paths, &MailboxSettings::default()) {
        if interrupt::is_signalled() {
            break;
        }
        let found = match found {
            Ok(found) => found,
            Err(problem) => {
                tally.unread += 1;
                progress.suspend(|| eprintln!("gatepost: {problem}"));
                continue;
            }
        };
        let mail = Mail::parse_with(&found.bytes, &rules.configuration().views);
        let sample = BayesSample::of(&mail, &rules.learning_settings().bayes);
        match learning {
            Some(learning) => tally.learn(learning, request, &sample, &rules),
            None => requests.add(request, &sample),
        }
        tally.messages += 1;
        progress.inc(found.source_bytes);
        progress.set_message(format!("{} messages", tally.messages));
        if tally.messages % KEEP_EVERY == 0 {
            keep(learner, &mut requests)?;
        }
    }
    keep(learner, &mut requests)?;
    progress.finish_and_clear();
    if interrupt::is_signalled() {
        eprintln!("interrupted: the messages learned so far are kept");
    }
    if !arguments.quiet {
        let summary = tally.summary(request, learner.is_some(), is_of_cluster);
        println!("{summary}");
        if let Some(learning) = learning {
            println!("{}", status(learning));
        }
    }
    Ok(match tally.unread {
        _ if interrupt::is_signalled() => LearnOutcome::Interrupted,
        0 => LearnOutcome::Complete,
        _ => LearnOutcome::Unread,
    })
}

const fn request(arguments: &LearnArguments) -> Option<LearnRequest> {
    match (arguments.spam, arguments.ham, arguments.forget) {
        (true, ..) => Some(LearnRequest::Learn(Class::Spam)),
        (_, true, _) => Some(LearnRequest::Learn(Class::Ham)),
        (.., true) => Some(LearnRequest::Forget),
        _ => None,
    }
}

/// Stores what has been learned, or submitted to the running gateway, so far.
fn keep(learner: Option<&Learner>, requests: &mut Requests<'_>) -> Result<(), LearnError> {
    match learner {
        Some(learner) => Ok(learner.keep().and_then(|()| learner.settle())?),
        None => requests.submit(),
    }
}

/// Requests to the running gateway that were not submitted yet.
pub(super) struct Requests<'a> {
    config: &'a Config,
    store: &'a Store,
    is_of_cluster: bool,
    keys: Vec<Bytes>,
    changes: Vec<StoreChange>,
}

impl<'a> Requests<'a> {
    pub(super) const fn new(config: &'a Config, store: &'a Store, is_of_cluster: bool) -> Self {
        Self {
            config,
            store,
            is_of_cluster,
            keys: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Requests a change of a sender's average.
    pub(super) fn add_sender(&mut self, change: SenderChange) {
        let (key, change) = queue::add_sender(change);
        self.keys.push(key);
        self.changes.push(change);
    }

    fn add(&mut self, request: LearnRequest, sample: &BayesSample) {
        let (key, change) = queue::add(request, sample);
        self.keys.push(key);
        self.changes.push(change);
    }

    /// Submits the requests; in a cluster, waits until each was carried out.
    pub(super) fn submit(&mut self) -> Result<(), LearnError> {
        let keys = std::mem::take(&mut self.keys);
        let submitted = self.store.submit(std::mem::take(&mut self.changes))?;
        wait(&submitted)?;
        if !self.is_of_cluster {
            return Ok(());
        }
        let refused = keys.iter().find_map(|key| self.answer(key).err());
        let withdrawn = self.store.submit(keys.iter().flat_map(queue::withdraw))?;
        wait(&withdrawn)?;
        refused.map_or(Ok(()), Err)
    }

    fn answer(&self, key: &Bytes) -> Result<(), LearnError> {
        loop {
            match queue::outcome(self.store, key)? {
                Some(outcome) => return outcome.map_err(LearnError::Refused),
                None if !Store::is_served(&self.config.data) => {
                    return Err(LearnError::Refused("the gateway has ended".to_owned()));
                }
                None => std::thread::sleep(ANSWER_READ_EVERY),
            }
        }
    }
}

/// The results of the messages.
#[derive(Debug, Default)]
struct LearnCounts {
    messages: usize,
    learned: usize,
    changed: usize,
    before: usize,
    forgotten: usize,
    off: usize,
    unread: usize,
}

impl LearnCounts {
    fn learn(
        &mut self,
        learning: &Learning,
        request: LearnRequest,
        sample: &BayesSample,
        rules: &RuleSet,
    ) {
        let settings = &rules.learning_settings().bayes;
        let bayes = &learning.bayes;
        match request {
            LearnRequest::Learn(class) => {
                match bayes.learn(sample, class, Relearn::Change, settings) {
                    Learned::New => self.learned += 1,
                    Learned::Changed => self.changed += 1,
                    Learned::Before => self.before += 1,
                    Learned::Off => self.off += 1,
                }
            }
            LearnRequest::Forget => {
                self.forgotten += usize::from(bayes.forget(sample, settings));
            }
        }
    }

    fn summary(&self, request: LearnRequest, is_learner: bool, is_of_cluster: bool) -> String {
        if !is_learner && is_of_cluster {
            let count = self.messages;
            return match request {
                LearnRequest::Forget => format!("{count} messages forgotten in the cluster"),
                LearnRequest::Learn(_) => format!("{count} messages learned in the cluster"),
            };
        }
        if !is_learner {
            let count = self.messages;
            return format!("{count} messages submitted to the running gateway");
        }
        if self.off > 0 {
            return "Bayes is switched off (use_bayes 0): nothing was learned".to_owned();
        }
        let examined = self.messages;
        match request {
            LearnRequest::Forget => format!("{} of {examined} messages forgotten", self.forgotten),
            LearnRequest::Learn(_) => format!(
                "{} of {examined} messages learned, {} of them again; {} had been learned before",
                self.learned + self.changed,
                self.changed,
                self.before
            ),
        }
    }
}

fn progress(paths: &[PathBuf], quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(mailbox::total_bytes(paths));
    let template = "{bar:30} {percent:>3} %  {msg}  {bytes_per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
