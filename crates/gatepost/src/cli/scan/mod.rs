//! `gatepost scan`: judges messages of files, mbox files, Maildir folders and standard input.
//!
//! One thread reads, the requested number of threads judge, and results are printed in the order in
//! which messages were read. Exit codes are those of `spamassassin -e`: 0 if no message was spam, 5
//! if at least one was; and 66 if something could not be read, 74 if results could not be written,
//! 78 if the rules cannot be used. A mail filter (`--format message`) ends with 0 for spam too:
//! procmail discards the output of a program with another code.
//!
//! Ctrl-C ends the reading: messages read before are judged, printed, counted and learned.

mod explain;
mod learned;
mod output;
mod profile;
mod summary;
mod table;
mod work;

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gatepost_bench::interrupt;
use gatepost_mail::mailbox::{self, MailboxSettings, STANDARD_INPUT};
use gatepost_rules::{RuleProblem, RuleSet, ScanProfile, Severity};
use indicatif::{ProgressBar, ProgressStyle};

use crate::broken_pipe::EXIT_BROKEN_PIPE;
use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::EXIT_UNAVAILABLE;
use learned::LearnedState;
use summary::ScanSummary;
use table::TerminalStyle;
use work::{ScanTask, ScannedMessage};

/// The results cannot be written (BSD's `EX_IOERR`).
const EXIT_OUTPUT: u8 = 74;
/// The rules cannot be used (BSD's `EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

/// More threads than any machine has cores; each holds memory for the rules' matches.
const JOBS_MAX: i64 = 1_024;

/// Scan messages with the spam rules
#[derive(Debug, Args)]
pub(super) struct ScanCommandArguments {
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
    #[arg(
        short, long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u16).range(0..=JOBS_MAX),
    )]
    jobs: u16,
    /// Output format
    #[arg(long, value_enum, default_value_t = ScanFormat::Table)]
    format: ScanFormat,
    /// Explain each hit with the matched text, and list rules that nearly hit
    #[arg(long)]
    why: bool,
    /// Report on standard error where the time went: by stage, by rule, and by first-use
    /// computations; scans one message at a time
    #[arg(long, conflicts_with_all = ["why", "unmark", "jobs"])]
    profile: bool,
    /// Warm up the rules before the first message, as a server does
    #[arg(long)]
    warm_up: bool,
    /// Score with the learned data of the data folder, and learn as the server does
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
    /// One line per message; at a terminal, the rules are wrapped below it
    Table,
    /// One JSON object per line: path, score, required, spam, hits
    Jsonl,
    /// The full report of each message
    Report,
    /// Each message as it is delivered: with header fields, spam wrapped according to `report_safe`
    Message,
    /// The same, followed by the full report
    MessageAndReport,
}

impl ScanFormat {
    const fn is_message(self) -> bool {
        matches!(self, Self::Message | Self::MessageAndReport)
    }
}

/// Judges everything and returns the exit code.
pub(super) fn run(arguments: &ScanCommandArguments) -> ExitCode {
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
    let done = LearnedState::open(&config).and_then(|learned| {
        let code = scan(arguments, &rules.with_learning(learned.learning()?));
        learned.close().map(|()| code)
    });
    done.unwrap_or_else(|error| {
        eprintln!("gatepost: {error}");
        ExitCode::from(EXIT_UNAVAILABLE)
    })
}

fn scan(arguments: &ScanCommandArguments, rules: &RuleSet) -> ExitCode {
    let paths = match arguments.paths.as_slice() {
        [] => vec![PathBuf::from(STANDARD_INPUT)],
        paths => paths.to_vec(),
    };
    let reads_files = paths.iter().all(|path| path.as_os_str() != STANDARD_INPUT);
    if reads_files {
        // A read of the terminal does not end at the signal.
        interrupt::install();
    }
    let mut summary = ScanSummary::default();
    let progress = progress_bar(&paths, reads_files);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut messages = mailbox::open(&paths, &MailboxSettings::default());
    let messages = std::iter::from_fn(move || {
        let is_interrupted = interrupt::is_signalled();
        if is_interrupted {
            None
        } else {
            messages.next()
        }
    });
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
    let terminal = TerminalStyle::of_stdout();
    let mut profile = arguments.profile.then(ScanProfile::default);
    let done = work::run(rules, messages, jobs, task, profile.as_mut(), |judged| {
        progress.inc(judged.source_bytes);
        summary.add(&judged);
        progress.set_message(summary.rate());
        if terminal.is_none() {
            return print(arguments, terminal, &mut out, &judged);
        }
        // The bar is on the same terminal.
        progress.suspend(|| {
            print(arguments, terminal, &mut out, &judged)?;
            out.flush()
        })
    });
    progress.finish_and_clear();
    if let Err(error) = done.and_then(|()| out.flush()) {
        return output_error(&error);
    }
    let is_table = arguments.format == ScanFormat::Table && !arguments.why && !arguments.unmark;
    if interrupt::is_signalled() || is_table && summary.messages > 1 {
        eprintln!("{}", summary.line());
    }
    if let Some(profile) = &profile {
        // Standard error may be closed if nothing reads it.
        let _ = profile::print(&mut std::io::stderr().lock(), profile);
    }
    summary.exit_code(arguments.format.is_message() || arguments.unmark)
}

/// Prints the requested output for one message.
fn print(
    arguments: &ScanCommandArguments,
    terminal: Option<TerminalStyle>,
    out: &mut impl Write,
    judged: &ScannedMessage,
) -> std::io::Result<()> {
    match (&judged.outcome, terminal) {
        (Ok(_), _) if arguments.unmark => out.write_all(&judged.message),
        (Ok(_), _) if arguments.why => explain::print(out, judged),
        (Ok(report), Some(terminal)) if arguments.format == ScanFormat::Table => {
            terminal.print(out, &judged.name, report)
        }
        (Ok(report), _) => output::print(out, arguments.format, judged, report),
        (Err(problem), _) => {
            eprintln!("gatepost: {problem}");
            Ok(())
        }
    }
}

/// A reader that closes the pipe (`| head`) is not an error; a full disk is.
fn output_error(error: &std::io::Error) -> ExitCode {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return ExitCode::from(EXIT_BROKEN_PIPE);
    }
    eprintln!("gatepost: standard output: {error}");
    ExitCode::from(EXIT_OUTPUT)
}

fn jobs(requested: u16) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if requested == 0 {
        cores()
    } else {
        requested.into()
    }
}

/// `None`, with its reason printed, if a requested folder contains no rules.
fn load(arguments: &ScanCommandArguments, config: &mut Config) -> Option<RuleSet> {
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
        // These folders themselves are meant.
        settings.updates = PathBuf::new();
    }
    let (rules, problems) = RuleSet::load(&settings.paths, settings);
    report(&problems);
    Some(rules)
}

/// Errors are named; rules that merely cannot run here are counted.
fn report(problems: &[RuleProblem]) {
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

/// A bar on standard error, if that is a terminal.
fn progress_bar(paths: &[PathBuf], has_size: bool) -> ProgressBar {
    if !std::io::stderr().is_terminal() || !has_size {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(
        "{bar:40} {percent:>3} %  {bytes}/{total_bytes}  {msg}  {eta} left",
    );
    ProgressBar::new(mailbox::total_bytes(paths))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
