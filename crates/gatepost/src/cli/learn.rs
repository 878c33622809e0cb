//! `gatepost learn`: teaches Bayes what is spam and what is not.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gatepost_learning::Learning;
use gatepost_learning::bayes::{BackupError, BayesSample, Class, Learned, Relearn};
use gatepost_mail::Mail;
use gatepost_mail::mailbox::{self, MailboxSettings};
use gatepost_operations::learner::queue::{self, LearnRequest};
use gatepost_operations::learner::{self, Learner, LearningError, wait};
use gatepost_rules::RuleSet;
use gatepost_store::{Store, StoreChange, StoreError};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::EXIT_UNAVAILABLE;

/// The number of messages after which the learned data is stored.
const KEEP_EVERY: usize = 500;

/// The average that an address gets by hand, as in SpamAssassin.
const SENDER_POINTS: f64 = 100.0;

/// Train the Bayes filter with spam and wanted mail
///
/// PATHs are messages, mbox files, Maildirs or other folders; `-` is standard input. A message is
/// learned once, however often it is given; given as the opposite kind, it is relearned.
#[derive(Debug, Args)]
pub(super) struct LearnArguments {
    /// The messages are spam
    #[arg(long, group = "what")]
    spam: bool,
    /// The messages are wanted
    #[arg(long, group = "what")]
    ham: bool,
    /// Remove what was learned from the messages
    #[arg(long, group = "what")]
    forget: bool,
    /// Write all learned data in the format of `sa-learn --backup`; `-` is standard output
    #[arg(long, value_name = "FILE", group = "what")]
    export: Option<PathBuf>,
    /// Replace all learned data by a file from `sa-learn --backup` or `--export`
    #[arg(long, value_name = "FILE", group = "what")]
    import: Option<PathBuf>,
    /// Draw the scores of this address's messages down, where AWL or TxRep is enabled
    #[arg(long, value_name = "ADDRESS", group = "what")]
    welcome_sender: Option<String>,
    /// Draw the scores of this address's messages up
    #[arg(long, value_name = "ADDRESS", group = "what")]
    block_sender: Option<String>,
    /// Remove what was learned about this address
    #[arg(long, value_name = "ADDRESS", group = "what")]
    forget_sender: Option<String>,
    /// Show how much was learned, without learning
    #[arg(long, group = "what")]
    status: bool,
    /// Show no progress and no summary
    #[arg(short, long)]
    quiet: bool,
    /// Messages or folders of messages
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    source: ConfigSource,
}

impl LearnArguments {
    /// The address to change, and the average that it gets; none if it is to be forgotten.
    fn senders(&self) -> Option<(&str, Option<f64>)> {
        let welcome = self
            .welcome_sender
            .as_deref()
            .map(|name| (name, Some(-SENDER_POINTS)));
        let block = self
            .block_sender
            .as_deref()
            .map(|name| (name, Some(SENDER_POINTS)));
        let forget = self.forget_sender.as_deref().map(|name| (name, None));
        welcome.or(block).or(forget)
    }
}

/// The reason why learning ended early.
#[derive(Debug, thiserror::Error)]
enum LearnError {
    #[error("missing class: use --spam, --ham or --forget")]
    NoAction,
    #[error("missing messages: give files, mbox files, folders, or - for standard input")]
    NoPath,
    #[error("the gateway is serving from this data folder: stop it to {0}")]
    Serving(&'static str),
    #[error("{path}: {cause}")]
    Backup { path: String, cause: BackupError },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Database(#[from] super::database::NoDatabase),
    #[error(transparent)]
    Learning(#[from] LearningError),
}

impl LearnError {
    const fn exit_code(&self) -> u8 {
        /// BSD's `EX_USAGE`, `EX_DATAERR` and `EX_TEMPFAIL`.
        const EXIT_USAGE: u8 = 64;
        const EXIT_DATA: u8 = 65;
        const EXIT_TEMPORARY: u8 = 75;
        match self {
            Self::NoAction | Self::NoPath => EXIT_USAGE,
            Self::Backup { .. } => EXIT_DATA,
            Self::Serving(_) => EXIT_TEMPORARY,
            Self::Store(_) | Self::Database(_) | Self::Learning(_) => EXIT_UNAVAILABLE,
        }
    }
}

pub(super) fn run(arguments: &LearnArguments) -> ExitCode {
    let config = match arguments.source.load() {
        Ok((config, _)) => config,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    match learn(arguments, &config) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Does what the arguments say; gives how many messages could not be read.
fn learn(arguments: &LearnArguments, config: &Config) -> Result<usize, LearnError> {
    super::database::announce(config, false)?;
    let store = Store::open_secondary(&config.data, &config.store)?;
    let learner = Learner::open(&config.data, &store, &config.rules)?;
    let learner_for = |what| learner.as_ref().ok_or(LearnError::Serving(what));
    // Reading does not need to wait until the gateway ends.
    let known = || match &learner {
        Some(learner) => learner.learning().cloned(),
        None => learner::copy(&store, &config.rules),
    };
    let done = if let Some(path) = &arguments.export {
        export(&known()?, path).map(|()| 0)
    } else if let Some(path) = &arguments.import {
        import(learner_for("import")?, path, arguments.quiet).map(|()| 0)
    } else if let Some(senders) = arguments.senders() {
        change_sender(learner_for("change a sender")?, senders, arguments.quiet).map(|()| 0)
    } else if arguments.status {
        println!("{}", status(&known()?));
        Ok(0)
    } else {
        learn_paths(arguments, config, &store, learner.as_ref())
    };
    store.close();
    done
}

fn learn_paths(
    arguments: &LearnArguments,
    config: &Config,
    store: &Store,
    learner: Option<&Learner>,
) -> Result<usize, LearnError> {
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
    for found in mailbox::open(&arguments.paths, &MailboxSettings::default()) {
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
    if !arguments.quiet {
        println!("{}", tally.summary(request, learner.is_some()));
        if let Some(learning) = learning {
            println!("{}", status(learning));
        }
    }
    Ok(tally.unread)
}

/// Makes safe what was learned, or handed to the serving gateway, so far.
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
            return format!("{count} messages handed to the serving gateway");
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

fn status(learning: &Learning) -> String {
    let statistics = learning.bayes.statistics();
    format!(
        "learned in all: {} spam, {} ham, {} tokens",
        statistics.totals.spam, statistics.totals.ham, statistics.tokens
    )
}

fn export(learning: &Learning, path: &Path) -> Result<(), LearnError> {
    let write = || -> Result<(), BackupError> {
        let out: Box<dyn Write> = if is_standard(path) {
            Box::new(std::io::stdout().lock())
        } else {
            Box::new(File::create(path)?)
        };
        let mut out = BufWriter::new(out);
        learning.bayes.export(&mut out)?;
        Ok(out.flush()?)
    };
    write().map_err(|cause| backup_error(path, cause))
}

fn import(learner: &Learner, path: &Path, quiet: bool) -> Result<(), LearnError> {
    let bayes = &learner.learning()?.bayes;
    let read = || {
        if is_standard(path) {
            bayes.import(std::io::stdin().lock())
        } else {
            bayes.import(BufReader::new(File::open(path)?))
        }
    };
    let summary = read().map_err(|cause| backup_error(path, cause))?;
    if !quiet {
        println!(
            "imported: {} spam, {} ham, {} tokens",
            summary.totals.spam, summary.totals.ham, summary.tokens
        );
    }
    Ok(())
}

/// Sets or forgets the average of an address.
fn change_sender(
    learner: &Learner,
    (name, points): (&str, Option<f64>),
    quiet: bool,
) -> Result<(), LearnError> {
    let book = &learner.learning()?.book;
    let changed = match points {
        Some(points) => {
            book.set_sender(name, points);
            true
        }
        None => book.forget_sender(name),
    };
    learner.keep()?;
    learner.settle()?;
    if !quiet {
        match (points, changed) {
            (Some(points), _) => println!("{name}: its average is now {points}"),
            (None, true) => println!("{name}: forgotten"),
            (None, false) => println!("{name}: nothing was known"),
        }
    }
    Ok(())
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == mailbox::STANDARD_INPUT
}

fn backup_error(path: &Path, cause: BackupError) -> LearnError {
    let path = path.display().to_string();
    LearnError::Backup { path, cause }
}
