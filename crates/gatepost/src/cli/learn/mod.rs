//! `gatepost learn`: trains Bayes with spam and wanted mail, and exchanges learned data with
//! SpamAssassin.

mod messages;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gatepost_learning::Learning;
use gatepost_learning::bayes::BayesBackupError;
use gatepost_learning::reputation::SenderChange;
use gatepost_mail::mailbox;
use gatepost_operations::learner::{self, Learner, LearningError};
use gatepost_store::{Store, StoreError};

use self::messages::Requests;
use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::{EXIT_INTERRUPTED, EXIT_UNAVAILABLE};

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
    /// Forget what was learned from the messages
    #[arg(long, group = "what")]
    forget: bool,
    /// Write all learned data in the format of `sa-learn --backup`; `-` is standard output
    #[arg(long, value_name = "FILE", group = "what")]
    export: Option<PathBuf>,
    /// Replace all learned data by a file from `sa-learn --backup` or `--export`
    #[arg(long, value_name = "FILE", group = "what")]
    import: Option<PathBuf>,
    /// Lower the scores of this address's messages, if AWL or TxRep is enabled
    #[arg(long, value_name = "ADDRESS", group = "what")]
    welcome_sender: Option<String>,
    /// Raise the scores of this address's messages
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
    /// Whether the command may change learned data.
    fn changes(&self) -> bool {
        self.export.is_none() && !self.status
    }

    /// The address to change, and the average that it gets; no average if the address is to be
    /// forgotten.
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
    #[error("the gateway is running with this data folder: stop it to {0}")]
    Serving(&'static str),
    #[error("a cluster learns only from a gateway that is running: start it, or use another node")]
    NotServing,
    #[error("this server belongs to a cluster, which decides what is learned: see docs/cluster.md")]
    OfCluster,
    /// The gateway's reason.
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {cause}")]
    Backup {
        path: String,
        cause: BayesBackupError,
    },
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
            Self::NoAction | Self::NoPath | Self::OfCluster => EXIT_USAGE,
            Self::Backup { .. } => EXIT_DATA,
            Self::Serving(_) | Self::NotServing => EXIT_TEMPORARY,
            Self::Refused(_) | Self::Store(_) | Self::Database(_) | Self::Learning(_) => {
                EXIT_UNAVAILABLE
            }
        }
    }
}

/// The outcome of learning the messages.
enum LearnOutcome {
    /// All of them.
    Complete,
    /// All but those that could not be read.
    Unread,
    /// Until the user interrupted it.
    Interrupted,
}

pub(super) fn run(arguments: &LearnArguments) -> ExitCode {
    let config = match arguments.source.load() {
        Ok((config, _)) => config,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    match learn(arguments, &config) {
        Ok(LearnOutcome::Complete) => ExitCode::SUCCESS,
        Ok(LearnOutcome::Unread) => ExitCode::FAILURE,
        Ok(LearnOutcome::Interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Executes the command.
fn learn(arguments: &LearnArguments, config: &Config) -> Result<LearnOutcome, LearnError> {
    super::database::announce(config, arguments.changes() && !arguments.quiet)?;
    let store = Store::open_secondary(&config.data, &config.store)?;
    let learner = Learner::open(&config.data, &store, &config.rules)?;
    let learner_for = |what| learner.as_ref().ok_or(LearnError::Serving(what));
    // Reading is possible while the gateway is running.
    let known = || match &learner {
        Some(learner) => learner.learning().cloned(),
        None => learner::copy(&store, &config.rules),
    };
    let complete = |()| LearnOutcome::Complete;
    let done = if let Some(path) = &arguments.export {
        export(&known()?, path).map(complete)
    } else if let Some(path) = &arguments.import {
        if config.backbone.is_set() {
            return Err(LearnError::OfCluster);
        }
        import(learner_for("import")?, path, arguments.quiet).map(complete)
    } else if let Some((name, points)) = arguments.senders() {
        let summary = change_sender(config, &store, learner.as_ref(), (name, points))?;
        if !arguments.quiet {
            println!("{name}: {summary}");
        }
        Ok(LearnOutcome::Complete)
    } else if arguments.status {
        println!("{}", status(&known()?));
        Ok(LearnOutcome::Complete)
    } else {
        let is_of_cluster = config.backbone.is_set() || learner::is_of_cluster(&store)?;
        match &learner {
            Some(_) if is_of_cluster => Err(LearnError::NotServing),
            learner => messages::learn(arguments, config, &store, learner.as_ref(), is_of_cluster),
        }
    };
    store.close();
    done
}

fn status(learning: &Learning) -> String {
    let statistics = learning.bayes.statistics();
    format!(
        "learned in all: {} spam, {} ham, {} tokens",
        statistics.totals.spam, statistics.totals.ham, statistics.tokens
    )
}

fn export(learning: &Learning, path: &Path) -> Result<(), LearnError> {
    let write = || -> Result<(), BayesBackupError> {
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

/// Sets or forgets the average of an address: in the database, or by the running gateway, which
/// asks its cluster. Returns what was done.
fn change_sender(
    config: &Config,
    store: &Store,
    learner: Option<&Learner>,
    (name, points): (&str, Option<f64>),
) -> Result<String, LearnError> {
    let change = SenderChange::of_person(name, points);
    let is_of_cluster = config.backbone.is_set() || learner::is_of_cluster(store)?;
    let Some(learner) = learner else {
        let mut requests = Requests::new(config, store, is_of_cluster);
        requests.add_sender(change);
        requests.submit()?;
        return Ok(match (points, is_of_cluster) {
            (Some(points), true) => format!("its average is now {points} in the cluster"),
            (None, true) => "forgotten in the cluster".to_owned(),
            (Some(points), false) => format!("the gateway makes its average {points}"),
            (None, false) => "the gateway forgets it".to_owned(),
        });
    };
    if is_of_cluster {
        return Err(LearnError::NotServing);
    }
    let learning = learner.learning()?;
    let before = learning.reputation.len();
    learning
        .change_senders(&[change])
        .map_err(LearningError::from)?;
    learner.keep()?;
    learner.settle()?;
    Ok(match points {
        Some(points) => format!("its average is now {points}"),
        None if learning.reputation.len() < before => "forgotten".to_owned(),
        None => "nothing was known".to_owned(),
    })
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == mailbox::STANDARD_INPUT
}

fn backup_error(path: &Path, cause: BayesBackupError) -> LearnError {
    let path = path.display().to_string();
    LearnError::Backup { path, cause }
}
