//! The bench: runs the five scenarios of the older systems that Gatepost takes the place of,
//! against Gatepost or any other server of the same kind, and says which is better and how
//! surely.
//!
//! How it is arranged: a [`scenario::Scenario`] measures one [`target::Target`] once and gives an
//! [`outcome::Outcome`]; [`series`] runs it against all targets in turn, starting the
//! [`peer`]s that it is asked to; [`report`] shows and keeps the result. The generators are built
//! on [`load`], an epoll loop of its own, because a generator must cost far less than the server.
//!
//! Invariants: nothing here knows any part of Gatepost but the public protocols, so every server
//! is measured alike; a latency counts from the moment at which the message *should* have been
//! sent; what was lost, doubled or reordered is counted from numbers inside the payloads.

pub mod arguments;
pub mod clock;
pub mod compare;
pub mod error;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod outcome;
pub mod peer;
pub mod process;
pub mod progress;
pub mod pubsub;
pub mod report;
pub mod scenario;
pub mod series;
pub mod statistics;
pub mod target;

pub use arguments::BenchArguments;

use arguments::{BenchCommand, SeriesArguments};
use error::BenchError;
use report::{Report, TargetReport};
use scenario::Scenario;
use std::path::Path;
use std::process::ExitCode;

/// Exit code where something could not be measured.
const FAILED: u8 = 1;
/// Exit code where the user stopped it (128 + SIGINT); what was measured was kept.
const INTERRUPTED: u8 = 130;

/// Runs what the command line asks for.
pub fn run(arguments: BenchArguments) -> ExitCode {
    interrupt::install();
    load::raise_descriptor_limit();
    match dispatch(arguments.command) {
        Ok(()) if interrupt::interrupted() => INTERRUPTED.into(),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost-bench: {error}");
            FAILED.into()
        }
    }
}

fn dispatch(command: BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Call { scenario, series } => {
            run_series(&scenario::call::Call::new(scenario)?, &series)
        }
        BenchCommand::Scan { scenario, series } => {
            run_series(&scenario::scan::Scan::new(scenario)?, &series)
        }
        BenchCommand::Fanout { scenario, series } => {
            run_series(&scenario::fanout::Fanout::new(scenario)?, &series)
        }
        BenchCommand::Subscribe { scenario, series } => run_series(
            &scenario::subscribe::SubscribeBurst::new(scenario)?,
            &series,
        ),
        BenchCommand::Web { scenario, series } => {
            run_series(&scenario::web::Web::new(scenario), &series)
        }
        BenchCommand::All {
            peer,
            peers,
            runs,
            results,
            quick,
            quiet,
        } => {
            let series = SeriesArguments {
                peer,
                peers,
                runs,
                quiet,
                ..SeriesArguments::default()
            };
            run_all(quick, &series, results.as_deref())
        }
        BenchCommand::Smtp { scenario, series } => {
            run_series(&scenario::smtp::Smtp::new(scenario)?, &series)
        }
        BenchCommand::Idle { scenario, series } => {
            run_series(&scenario::idle::Idle::new(scenario)?, &series)
        }
        BenchCommand::Compare(arguments) => {
            print!("{}", compare::compare(&arguments)?);
            Ok(())
        }
        BenchCommand::Floor { json } => run_floor(json.as_deref()),
        BenchCommand::Peers { peers } => list_peers(peers.as_deref()),
    }
}

fn run_series(scenario: &dyn Scenario, arguments: &SeriesArguments) -> Result<(), BenchError> {
    let report = series::run(scenario, arguments)?;
    report::print_report(&report);
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

/// Each scenario with those of the peers that offer it.
fn run_all(
    quick: bool,
    arguments: &SeriesArguments,
    results: Option<&Path>,
) -> Result<(), BenchError> {
    let definitions = peer::Definitions::load(arguments.peers.as_deref())?;
    for (file, scenario) in scenario::all::five(quick)? {
        if interrupt::interrupted() {
            return Ok(());
        }
        let offers = |name: &String, definition: &peer::Definition| {
            let wanted = if arguments.peer.is_empty() {
                definition.find_programs(name).is_ok()
            } else {
                arguments.peer.contains(name)
            };
            wanted && definition.offers.contains_key(scenario.name())
        };
        let mut peer: Vec<String> = definitions
            .iter()
            .filter(|(name, definition)| offers(name, definition))
            .map(|(name, _)| name.clone())
            .collect();
        // Ours last, so that ratios read "ours to theirs".
        peer.sort_by_key(|name| name == "gatepost");
        if peer.is_empty() {
            println!("{}: no peer offers it", scenario.name());
            continue;
        }
        let json = results.map(|folder| folder.join(format!("{file}.json")));
        run_series(
            scenario.as_ref(),
            &SeriesArguments {
                peer,
                json,
                ..arguments.clone()
            },
        )?;
    }
    Ok(())
}

fn run_floor(json: Option<&Path>) -> Result<(), BenchError> {
    let outcome = scenario::floor::measure()?;
    let report = Report::of_machine("floor", outcome);
    report::print_report(&report);
    json.map_or(Ok(()), |path| report.write(path))
}

fn list_peers(folder: Option<&Path>) -> Result<(), BenchError> {
    for (name, definition) in peer::Definitions::load(folder)?.iter() {
        let state = match definition.find_programs(name) {
            Ok(_) => "installed",
            Err(_) => "-",
        };
        let offers: Vec<&str> = definition.offers.keys().map(String::as_str).collect();
        println!(
            "{name:<15}{state:<11}{:<22}{}",
            offers.join(" "),
            definition.about
        );
    }
    Ok(())
}

impl Report {
    /// What was measured of the machine itself.
    fn of_machine(scenario: &str, outcome: outcome::Outcome) -> Self {
        Self {
            targets: vec![TargetReport {
                name: "this machine".into(),
                version: None,
                offer: String::new(),
                runs: vec![outcome],
            }],
            ..Self::begin(scenario, serde_json::Value::Null)
        }
    }
}
