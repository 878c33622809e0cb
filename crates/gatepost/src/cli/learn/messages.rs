//! Learning from messages: directly in the database if no gateway is running with it, otherwise
//! through the queue of the running gateway.
//!
//! Ctrl-C ends learning after the current message; earlier messages remain learned.

use std::path::PathBuf;

use gatepost_bench::interrupt;
use gatepost_learning::Learning;
use gatepost_learning::bayes::{BayesSample, Class, Learned, Relearn};
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

/// Learns or forgets the messages of the paths, in steps that are stored one by one.
pub(super) fn learn(
    arguments: &LearnArguments,
    config: &Config,
    store: &Store,
    learner: Option<&Learner>,
) -> Result<LearnOutcome, LearnError> {
    let request = match (arguments.spam, arguments.ham, arguments.forget) {
        (true, ..) => LearnRequest::Learn(Class::Spam),
        (_, true, _) => LearnRequest::Learn(Class::Ham),
        (.., true) => LearnRequest::Forget,
        _ => return Err(LearnError::NoAction),
    };
    if arguments.paths.is_empty() {
        return Err(LearnError::NoPath);
    }
    let (rules, _) = RuleSet::load(&config.rules.paths, &config.rules);
    let learning = learner.map(Learner::learning).transpose()?;
    let progress = progress(&arguments.paths, arguments.quiet);
    let mut tally = LearnCounts::default();
    let mut waiting: Vec<StoreChange> = Vec::new();
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
            None => waiting.push(queue::add(request, &sample)),
        }
        tally.messages += 1;
        progress.inc(found.source_bytes);
        progress.set_message(format!("{} messages", tally.messages));
        if tally.messages % KEEP_EVERY == 0 {
            keep(store, learner, &mut waiting)?;
        }
    }
    keep(store, learner, &mut waiting)?;
    progress.finish_and_clear();
    if interrupt::is_signalled() {
        eprintln!("interrupted: the messages learned so far are kept");
    }
    if !arguments.quiet {
        println!("{}", tally.summary(request, learner.is_some()));
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

/// Stores what has been learned, or submitted to the running gateway, so far.
fn keep(
    store: &Store,
    learner: Option<&Learner>,
    waiting: &mut Vec<StoreChange>,
) -> Result<(), LearnError> {
    if let Some(learner) = learner {
        let kept = learner.keep().and_then(|()| learner.settle());
        return Ok(kept?);
    }
    let ticket = store.submit(std::mem::take(waiting))?;
    Ok(wait(&ticket)?)
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

    fn summary(&self, request: LearnRequest, is_learner: bool) -> String {
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
