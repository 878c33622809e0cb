//! Executes the subcommand of the command line.

use std::path::Path;
use std::process::ExitCode;

use crate::arguments::{AllArguments, BenchArguments, BenchSubcommand, SeriesArguments};
use crate::error::BenchError;
use crate::outcome::RunOutcome;
use crate::report::{BenchReport, TargetReport};
use crate::scenario::call::Call;
use crate::scenario::calls::Calls;
use crate::scenario::fanout::Fanout;
use crate::scenario::idle::Idle;
use crate::scenario::scan::Scan;
use crate::scenario::smtp::Smtp;
use crate::scenario::subscribe::SubscribeBurst;
use crate::scenario::web::Web;
use crate::scenario::{self, Scenario};
use crate::series::SweepPoints;
use crate::sweep::{self, Point, Sweepable};
use crate::{agent, compare, hosts, interrupt, load, peer, record, report, series};

/// Exit code after a failed measurement.
const FAILED: u8 = 1;
/// Exit code after an interruption by the user (128 + SIGINT); completed measurements were kept.
const INTERRUPTED: u8 = 130;

/// Executes the subcommand.
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

fn dispatch(command: BenchSubcommand) -> Result<(), BenchError> {
    match command {
        BenchSubcommand::Call {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, Call::new)),
        BenchSubcommand::Scan { scenario, series } => {
            swept(&scenario, &series, local_scenario(Scan::new))
        }
        BenchSubcommand::Fanout { scenario, series } => {
            if scenario.hosts.uses_agents() {
                let new = |arguments| Fanout::executed_by(arguments, agent::conduct);
                return swept(&*scenario, &series, local_scenario(new));
            }
            swept(&*scenario, &series, local_scenario(Fanout::new))
        }
        BenchSubcommand::Subscribe {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, SubscribeBurst::new)),
        BenchSubcommand::Web {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, Web::new)),
        BenchSubcommand::Smtp {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, Smtp::new)),
        BenchSubcommand::Calls {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, Calls::new)),
        BenchSubcommand::Idle {
            scenario,
            hosts,
            series,
        } => swept(&scenario, &series, placed(&hosts, Idle::new)),
        BenchSubcommand::All(arguments) => run_all(&arguments),
        BenchSubcommand::Floor { json, record } => run_floor(json.as_deref(), record.as_deref()),
        BenchSubcommand::Compare(arguments) => {
            print!("{}", compare::compare(&arguments)?);
            Ok(())
        }
        BenchSubcommand::Report(arguments) => report::convert(&arguments),
        BenchSubcommand::Record(arguments) => record::record(&arguments),
        BenchSubcommand::Trend(arguments) => record::trend(&arguments),
        BenchSubcommand::Tables(arguments) => record::renew_tables(&arguments),
        BenchSubcommand::Agent(arguments) => agent::run(&arguments),
        BenchSubcommand::Peers { peers, show } => list_peers(peers.as_deref(), show.as_deref()),
    }
}

/// Creates a scenario from its settings.
fn local_scenario<A, S: Scenario + 'static>(
    new: impl Fn(A) -> Result<S, BenchError>,
) -> impl Fn(A) -> Result<Box<dyn Scenario>, BenchError> {
    move |arguments| Ok(Box::new(new(arguments)?))
}

/// The same, or a scenario whose clients are on other hosts.
fn placed<A: Into<agent::Workload>, S: Scenario + 'static>(
    hosts: &hosts::HostArguments,
    new: impl Fn(A) -> Result<S, BenchError>,
) -> impl Fn(A) -> Result<Box<dyn Scenario>, BenchError> {
    move |arguments| {
        if hosts.uses_agents() {
            let workload = arguments.into();
            return Ok(Box::new(agent::DistributedScenario::new(
                hosts.clone(),
                workload,
            )?));
        }
        Ok(Box::new(new(arguments)?))
    }
}

/// Runs a scenario with each combination of the given values of its settings.
fn swept<A: Sweepable>(
    arguments: &A,
    series: &SeriesArguments,
    scenario: impl Fn(A) -> Result<Box<dyn Scenario>, BenchError>,
) -> Result<(), BenchError> {
    let points: Result<SweepPoints, BenchError> = sweep::points(arguments, series.steps)?
        .into_iter()
        .map(|(point, arguments)| Ok((point, scenario(arguments)?)))
        .collect();
    run_series(&points?, series)
}

fn run_series(points: &SweepPoints, arguments: &SeriesArguments) -> Result<(), BenchError> {
    let (report, failure) = series::run(points, arguments)?;
    let shown = report.for_display(arguments.originals);
    report::print_report(&shown);
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    report::write_forms(
        std::slice::from_ref(&shown),
        arguments.markdown.as_deref(),
        arguments.csv.as_deref(),
        arguments.html.as_deref(),
    )?;
    // An incomplete result is printed and written to requested files, but never recorded.
    match (failure, &arguments.record) {
        (Some(failure), _) => Err(failure),
        (None, Some(folder)) => keep(folder, report),
        (None, None) => Ok(()),
    }
}

/// Records a complete result. An interrupted one has fewer runs or shorter ones, so it cannot be
/// compared with others.
fn keep(folder: &Path, report: BenchReport) -> Result<(), BenchError> {
    if report.interrupted {
        let folder = folder.display();
        eprintln!("gatepost-bench: interrupted, so nothing is recorded in {folder}");
        return Ok(());
    }
    record::keep(folder, report).map(drop)
}

/// Runs each scenario with those of the peers that offer it.
fn run_all(arguments: &AllArguments) -> Result<(), BenchError> {
    let definitions = peer::PeerDefinitions::load(arguments.peers.as_deref())?;
    for (file, scenario) in scenario::all::original_scenarios(arguments.quick)? {
        if interrupt::interrupted() {
            return Ok(());
        }
        let offers = |name: &String, definition: &peer::PeerDefinition| {
            let Some(offer) = definition.offers.get(scenario.name()) else {
                return false;
            };
            if arguments.peer.is_empty() {
                definition.find_programs(name, offer).is_ok()
            } else {
                arguments.peer.contains(name)
            }
        };
        let mut peer: Vec<String> = definitions
            .iter()
            .filter(|(name, definition)| offers(name, definition))
            .map(|(name, _)| name.clone())
            .collect();
        // Gatepost is last, so that ratios read "Gatepost to the others".
        peer.sort_by_key(|name| name == "gatepost");
        if peer.is_empty() {
            println!("{}: no peer offers it", scenario.name());
            continue;
        }
        let results = arguments.results.as_deref();
        let series = SeriesArguments {
            peer,
            peers: arguments.peers.clone(),
            runs: Some(arguments.runs),
            originals: true,
            quiet: arguments.quiet,
            json: results.map(|folder| folder.join(format!("{file}.json"))),
            ..SeriesArguments::default()
        };
        run_series(&vec![(Point::new(), scenario)], &series)?;
    }
    Ok(())
}

fn run_floor(json: Option<&Path>, folder: Option<&Path>) -> Result<(), BenchError> {
    let outcome = scenario::floor::measure()?;
    let report = of_machine("floor", outcome);
    report::print_report(&report);
    if let Some(path) = json {
        report.write(path)?;
    }
    folder.map_or(Ok(()), |folder| keep(folder, report))
}

fn list_peers(folder: Option<&Path>, show: Option<&str>) -> Result<(), BenchError> {
    let definitions = peer::PeerDefinitions::load(folder)?;
    if let Some(name) = show {
        print!("{}", definitions.get(name)?.text);
        return Ok(());
    }
    let longest = definitions.iter().map(|(name, _)| name.len()).max();
    let names = longest.unwrap_or_default() + 2;
    let about = names + "installed".len() + 2;
    for (name, definition) in definitions.iter() {
        let state = match definition.find_program(name) {
            Ok(_) => "installed",
            Err(_) => "-",
        };
        let offers: Vec<&str> = definition.offers.keys().map(String::as_str).collect();
        println!("{name:<names$}{state:<11}{}", definition.about);
        println!("{:about$}{}", "", offers.join(" "));
        if let (Err(_), Some(install)) = (definition.find_program(name), &definition.install) {
            println!("{:about$}to install: {install}", "");
        }
    }
    Ok(())
}

/// A report on the machine itself.
fn of_machine(scenario: &str, outcome: RunOutcome) -> BenchReport {
    BenchReport {
        interrupted: outcome.interrupted,
        targets: vec![TargetReport {
            name: "this machine".into(),
            runs: vec![outcome],
            ..TargetReport::default()
        }],
        ..BenchReport::begin(scenario, serde_json::Value::Null)
    }
}
