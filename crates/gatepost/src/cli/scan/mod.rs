//! `gatepost scan`: judges messages of files, mbox files, Maildir folders and standard input.
//!
//! One thread reads, as many as asked for judge, and results are printed in the order in which
//! messages were read. Exit code, as `spamassassin -e` has it: 0 if no message was spam, 5 if at
//! least one was; and 66 if something could not be read, 78 if the rules cannot be used. A mail
//! filter (`--format message`) ends with 0 for spam too: procmail discards what a program with
//! another code has written.

mod explain;
mod learned;
mod output;
mod profile;
mod work;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gatepost_mail::mailbox::{self, MailboxSettings, STANDARD_INPUT};
use gatepost_rules::{Problem, RuleSet, ScanProfile, Severity};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::EXIT_UNAVAILABLE;
use learned::Learned;
use work::ScanTask;

/// At least one message was spam.
const EXIT_SPAM: u8 = 5;
/// Something could not be read (BSD's `EX_NOINPUT`).
const EXIT_NO_INPUT: u8 = 66;
/// The rules cannot be used (BSD's `EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

/// Scan messages with the spam rules
#[derive(Debug, Args)]
pub(super) struct ScanArguments {
    /// Message files, mbox files, Maildirs or other folders; - or none for standard input
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A rule folder or file (repeatable) [default: the folders of the system, or the embedded
    /// rules]
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Preferences that override the rule folders
    #[arg(long, value_name = "FILE")]
    prefs: Option<PathBuf>,
    /// Number of threads; 0 for one per core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = ScanFormat::Table)]
    format: ScanFormat,
    /// Explain each hit with the matched text, and list rules that nearly hit
    #[arg(long)]
    why: bool,
    /// Say on standard error where the time went: by stage, by rule, and by what is computed on
    /// first use; scans one message at a time
    #[arg(long, conflicts_with_all = ["why", "unmark", "jobs"])]
    profile: bool,
    /// Warm up the rules before the first message, as a server does
    #[arg(long)]
    warm_up: bool,
    /// Score with what was learned in the data folder, and learn as the server does
    #[arg(long)]
    learned: bool,
    /// Instead of scanning, print each message without the header fields of a spam filter
    #[arg(long, conflicts_with_all = ["why", "learned", "format"])]
    unmark: bool,
    #[command(flatten)]
    source: ConfigSource,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScanFormat {
    /// One line per message
    Table,
    /// One JSON object per line: path, score, required, spam, hits
    Jsonl,
    /// The full report of each message
    Report,
    /// Each message as it is delivered: with header fields, spam wrapped as `report_safe` says
    Message,
    /// The same, followed by the full report
    MessageAndReport,
}

impl ScanFormat {
    const fn is_message(self) -> bool {
        matches!(self, Self::Message | Self::MessageAndReport)
    }
}

/// Judges everything and says with which code to exit.
pub(super) fn run(arguments: &ScanArguments) -> ExitCode {
    let mut config = match arguments.source.load() {
        Ok((config, _)) => config,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    let Some(rules) = load(arguments, &mut config) else {
        return ExitCode::from(EXIT_CONFIG);
    };
    if !arguments.learned {
        return scan(arguments, &rules);
    }
    let done = Learned::open(&config).and_then(|learned| {
        let code = scan(arguments, &rules.with_learning(learned.learning()?));
        learned.close().map(|()| code)
    });
    done.unwrap_or_else(|error| {
        eprintln!("gatepost: {error}");
        ExitCode::from(EXIT_UNAVAILABLE)
    })
}

fn scan(arguments: &ScanArguments, rules: &RuleSet) -> ExitCode {
    let paths = match arguments.paths.as_slice() {
        [] => vec![PathBuf::from(STANDARD_INPUT)],
        paths => paths.to_vec(),
    };
    let mut summary = Summary::default();
    let progress = progress_bar(&paths);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let messages = mailbox::open(&paths, &MailboxSettings::default());
    let task = ScanTask {
        explain: arguments.why,
        rewrite: arguments.format.is_message(),
        unmark: arguments.unmark,
    };
    // With learning, each message counts for the next, so they are judged one after another.
    let jobs = if arguments.learned || arguments.profile {
        1
    } else {
        jobs(arguments.jobs)
    };
    if arguments.warm_up {
        rules.warm_up();
    }
    let mut profile = arguments.profile.then(ScanProfile::default);
    let done = work::run(rules, messages, jobs, task, profile.as_mut(), |judged| {
        progress.inc(judged.source_bytes);
        summary.add(&judged);
        progress.set_message(summary.rate());
        match &judged.outcome {
            Ok(_) if arguments.unmark => out.write_all(&judged.message),
            Ok(_) if arguments.why => explain::print(&mut out, &judged),
            Ok(report) => output::print(&mut out, arguments.format, &judged, report),
            Err(problem) => {
                progress.suspend(|| eprintln!("gatepost: {problem}"));
                Ok(())
            }
        }
    });
    progress.finish_and_clear();
    if done.and_then(|()| out.flush()).is_err() {
        // The reader of our output has closed it, which is not an error.
        return ExitCode::from(EXIT_NO_INPUT);
    }
    let is_table = arguments.format == ScanFormat::Table && !arguments.why && !arguments.unmark;
    if is_table && summary.messages > 1 {
        eprintln!("{}", summary.line());
    }
    if let Some(profile) = &profile {
        // Without a reader, standard error may be closed.
        let _ = profile::print(&mut std::io::stderr().lock(), profile);
    }
    summary.exit_code(arguments.format.is_message() || arguments.unmark)
}

fn jobs(asked: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if asked == 0 { cores() } else { asked }
}

/// `None`, with its reason printed, if a folder that was asked for gives no rules.
fn load(arguments: &ScanArguments, config: &mut Config) -> Option<RuleSet> {
    for path in arguments.rules.iter().chain(&arguments.prefs) {
        if !path.exists() {
            eprintln!(
                "gatepost: {}: there is no such file or folder",
                path.display()
            );
            return None;
        }
    }
    let settings = &mut config.rules;
    if arguments.prefs.is_some() {
        settings.preferences.clone_from(&arguments.prefs);
    }
    if !arguments.rules.is_empty() {
        settings.paths.clone_from(&arguments.rules);
    }
    let (rules, problems) = RuleSet::load(&settings.paths, settings);
    report(&problems);
    Some(rules)
}

/// Errors are named; what merely does not run here is counted.
fn report(problems: &[Problem]) {
    const NAMED_MAX: usize = 20;
    let errors = || {
        problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    };
    for problem in errors().take(NAMED_MAX) {
        eprintln!("gatepost: {problem}");
    }
    let more = errors().count().saturating_sub(NAMED_MAX);
    if more > 0 {
        eprintln!("gatepost: and {more} more; see `gatepost check --rules`");
    }
}

fn progress_bar(paths: &[PathBuf]) -> ProgressBar {
    let has_size = paths.iter().all(|path| path.as_os_str() != STANDARD_INPUT);
    if !std::io::stderr().is_terminal() || std::io::stdout().is_terminal() || !has_size {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(
        "{bar:40} {percent:>3} %  {bytes}/{total_bytes}  {msg}  {eta} left",
    );
    ProgressBar::new(mailbox::total_bytes(paths))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The totals of all messages.
struct Summary {
    messages: u64,
    spam: u64,
    unreadable: u64,
    start: std::time::Instant,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            messages: 0,
            spam: 0,
            unreadable: 0,
            start: std::time::Instant::now(),
        }
    }
}

impl Summary {
    fn add(&mut self, judged: &work::ScannedMessage) {
        match &judged.outcome {
            Ok(report) => {
                self.messages += 1;
                self.spam += u64::from(report.is_spam());
            }
            Err(_) => self.unreadable += 1,
        }
    }

    fn rate(&self) -> String {
        let rate = self.messages as f64 / self.start.elapsed().as_secs_f64().max(1e-6);
        format!("{rate:.0} messages/s")
    }

    fn line(&self) -> String {
        let Self { messages, spam, .. } = self;
        format!("{messages} messages, {spam} spam, {}", self.rate())
    }

    fn exit_code(&self, is_filter: bool) -> ExitCode {
        match (self.unreadable, self.spam) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) if is_filter => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(EXIT_SPAM),
            _ => ExitCode::from(EXIT_NO_INPUT),
        }
    }
}
