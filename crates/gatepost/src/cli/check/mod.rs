//! `gatepost check`: checks that the config can be served, without serving it.

mod connect;
mod deploy;
mod replay;
mod rules;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use gatepost_procedures::Procedures;
use gatepost_rules::{RuleProblem, RuleSet, Severity};

use crate::config::{Config, ConfigSource, Layers, print_mistakes};
use crate::exit::{EXIT_CONFIG, EXIT_UNAVAILABLE};
use crate::security_report;
use crate::unjudged_mail;

/// The number of errors of the rule folders that are shown by default.
const ERRORS_SHOWN: usize = 10;

/// Check the configuration and all files that it names, without starting the gateway
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    source: ConfigSource,
    /// List rules that cannot run, by cause, and test the rules' own examples
    #[arg(long)]
    rules: bool,
    /// With --rules: show the file and line of each, and every line without effect
    #[arg(long, requires = "rules")]
    verbose: bool,
    /// Show open addresses, the rights of their clients, disabled limits and file modes; exit code
    /// 1 if there is a warning
    #[arg(long)]
    security: bool,
    /// Connect to the destination of each sink, without sending a message
    #[arg(long)]
    connect: bool,
    /// Check this machine: ports, folders, space, certificates, limits, memory, clock; exit code 1
    /// if there is a warning
    #[arg(long)]
    deploy: bool,
    /// With --deploy: check in DNS that the MX of the mail domains point to this machine, and that
    /// its address has a name
    #[arg(long, requires = "deploy")]
    dns: bool,
    /// Judge the last N stored messages with this configuration, and show changed verdicts
    #[arg(long, value_name = "N")]
    replay: Option<usize>,
}

pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    let (config, layers) = match arguments.source.load_or_rest() {
        Ok(loaded) => loaded,
        Err(faulty) => {
            if let Some(rest) = &faulty.rest {
                let (config, layers) = &**rest;
                // The problems of procedures do not depend on the rules, so the embedded ones do.
                let embedded = RuleSet::load(&[], &config.rules).0;
                print_procedure_errors(config, layers, Arc::new(embedded));
            }
            return print_mistakes(&faulty.mistakes);
        }
    };
    if arguments.deploy {
        return deploy::print(&config, arguments.dns);
    }
    if let Err(error) = crate::serve::Encryption::open(&config) {
        eprintln!("gatepost: {error}");
        return ExitCode::from(EXIT_CONFIG);
    }
    if arguments.security {
        return print_security(&config);
    }
    if arguments.connect {
        return connect::run(&config);
    }
    let (rules, mut problems) = RuleSet::load(&config.rules.paths, &config.rules);
    problems.extend(rules.user_problems());
    let statistics = rules.statistics();
    if arguments.rules {
        let examples = rules.self_tests();
        let every_line = arguments.verbose;
        let overview = rules::Overview::of(&problems, &examples, statistics, every_line);
        // A reader that closes the pipe needs no more output.
        if writeln!(std::io::stdout(), "{overview}").is_err() {
            return ExitCode::SUCCESS;
        }
    } else {
        print_errors(&problems);
        println!(
            "rules: {} run, {} cannot run here, from {} files (--rules lists them)",
            statistics.rules, statistics.not_running, statistics.files
        );
    }
    let rules = if arguments.replay.is_some() {
        match replay::learned(&config) {
            Ok(learning) => rules.with_learning(learning),
            Err(error) => {
                eprintln!("gatepost: {error}");
                return ExitCode::from(EXIT_UNAVAILABLE);
            }
        }
    } else {
        rules
    };
    let rules = Arc::new(rules);
    let errors = print_procedure_errors(&config, &layers, Arc::clone(&rules));
    if errors + print_page_errors(&config) > 0 {
        return ExitCode::from(EXIT_CONFIG);
    }
    print_result(&config, &problems);
    match arguments.replay {
        Some(count) => replay::run(&config, &layers, rules, count),
        None => ExitCode::SUCCESS,
    }
}

/// Prints the result for a config that can be served.
fn print_result(config: &Config, problems: &[RuleProblem]) {
    if let Some(note) = unjudged_mail::note(config) {
        println!("note: {note}");
    }
    match errors_of(problems).count() {
        0 => println!("gatepost: no mistake found"),
        1 => println!("gatepost: can be served, without the 1 wrong line of the rules"),
        wrong => println!("gatepost: can be served, without the {wrong} wrong lines of the rules"),
    }
}

/// Prints the problems of procedures and scopes; returns the number of errors.
fn print_procedure_errors(config: &Config, layers: &Layers, rules: Arc<RuleSet>) -> usize {
    let problems = Procedures::check(config.procedures(), rules);
    for mistake in crate::config::located(layers, &problems) {
        eprintln!("gatepost: {mistake}");
    }
    let is_error = |problem: &&gatepost_procedures::ConfigurationProblem| {
        problem.severity == gatepost_procedures::ProblemSeverity::Error
    };
    problems.iter().filter(is_error).count()
}

/// Prints the errors of pages; returns their number.
fn print_page_errors(config: &Config) -> usize {
    let errors = gatepost_pages::errors_of_pages(&config.pages);
    for error in &errors {
        eprintln!("gatepost: {error}");
    }
    errors.len()
}

fn print_security(config: &Config) -> ExitCode {
    let findings = security_report::report(config, None);
    for finding in &findings {
        println!("{finding}");
    }
    let warnings = findings.iter().filter(|finding| finding.is_warning).count();
    println!("gatepost: {warnings} warnings");
    ExitCode::from(u8::from(warnings > 0))
}

fn errors_of(problems: &[RuleProblem]) -> impl Iterator<Item = &RuleProblem> {
    let is_error = |problem: &&RuleProblem| problem.severity == Severity::Error;
    problems.iter().filter(is_error)
}

/// The first errors of the rule folders; a folder made for another version may have thousands.
fn print_errors(problems: &[RuleProblem]) {
    for problem in errors_of(problems).take(ERRORS_SHOWN) {
        eprintln!("gatepost: {problem}");
    }
    let more = errors_of(problems).count().saturating_sub(ERRORS_SHOWN);
    if more > 0 {
        eprintln!("gatepost: and {more} more; --rules lists all");
    }
}
