//! `gatepost check`: whether the config can be served, without serving it.

mod replay;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use gatepost_procedures::Procedures;
use gatepost_rules::{Problem, RuleSet, Severity};

use super::{ConfigSource, EXIT_CONFIG, EXIT_UNAVAILABLE, print_mistakes};

/// Errors of the rule folders that are shown without being asked for.
const ERRORS_SHOWN: usize = 10;

/// Check the config and all that it points to, without serving
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    source: ConfigSource,
    /// List every rule that cannot run here, by cause
    #[arg(long)]
    rules: bool,
    /// Judge the last N kept messages by this config, and show whose verdict would be another
    #[arg(long, value_name = "N")]
    replay: Option<usize>,
}

pub(super) use replay::{format_of, message_of};

pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    let (config, origins) = match arguments.source.load() {
        Ok(loaded) => loaded,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    if let Err(error) = crate::serve::Encryption::open(&config) {
        eprintln!("gatepost: {error}");
        return ExitCode::from(EXIT_CONFIG);
    }
    let (rules, mut problems) = RuleSet::load(&config.rules.paths, &config.rules);
    problems.extend(rules.user_problems());
    let statistics = rules.statistics();
    if arguments.rules {
        problems.extend(rules.self_tests());
        print_by_cause(&problems);
    }
    print_errors(&problems);
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
    let judged = Procedures::check(config.procedures(), Arc::clone(&rules));
    let is_error = |problem: &&gatepost_procedures::Problem| {
        problem.severity == gatepost_procedures::Severity::Error
    };
    let errors = judged.iter().filter(is_error).count();
    for mistake in crate::config::told(&origins, &judged) {
        eprintln!("gatepost: {mistake}");
    }
    println!(
        "rules: {} run, {} cannot run here, from {} files{}",
        statistics.rules,
        statistics.not_running,
        statistics.files,
        if arguments.rules {
            ""
        } else {
            " (--rules lists them)"
        }
    );
    if errors > 0 {
        return ExitCode::from(EXIT_CONFIG);
    }
    println!("gatepost: no mistake found");
    match arguments.replay {
        Some(count) => replay::run(&config, &origins, rules, count),
        None => ExitCode::SUCCESS,
    }
}

/// The first errors of the rule folders; a folder made for another version may have thousands.
fn print_errors(problems: &[Problem]) {
    let errors = || {
        problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    };
    for problem in errors().take(ERRORS_SHOWN) {
        eprintln!("gatepost: {problem}");
    }
    let more = errors().count().saturating_sub(ERRORS_SHOWN);
    if more > 0 {
        eprintln!("gatepost: and {more} more; --rules lists all");
    }
}

/// The causes with their number, each followed by its rules.
fn print_by_cause(problems: &[Problem]) {
    let mut by_cause: BTreeMap<(Severity, &str), Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        by_cause
            .entry((problem.severity, problem.cause))
            .or_default()
            .push(problem);
    }
    for ((severity, cause), problems) in by_cause.iter().rev() {
        println!("{} ({}, {})", cause, severity.name(), problems.len());
        for problem in problems {
            println!("  {problem}");
        }
    }
}
