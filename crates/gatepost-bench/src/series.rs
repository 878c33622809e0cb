//! Runs of a scenario: each target once in turn, then again, so that what drifts on the machine
//! falls on all of them alike.

use crate::arguments::SeriesArguments;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::Outcome;
use crate::peer::{Definition, Definitions, Running, version};
use crate::process::listener_of_port;
use crate::progress::Progress;
use crate::report::{Report, TargetReport, print_run};
use crate::scenario::Scenario;
use crate::target::{Endpoint, Target};

/// What a target is before its run: given, or a peer that is started for each run.
enum Candidate {
    Given(Target),
    Peer(String, Box<Definition>, String),
}

impl Candidate {
    fn name(&self) -> &str {
        match self {
            Self::Given(target) => &target.name,
            Self::Peer(name, ..) => name,
        }
    }
}

/// Runs the scenario against all targets; whatever was measured before an interruption is kept.
pub fn run(scenario: &dyn Scenario, arguments: &SeriesArguments) -> Result<Report, BenchError> {
    let definitions = Definitions::load(arguments.peers.as_deref())?;
    let candidates = candidates(scenario, arguments, &definitions)?;
    let progress = Progress::new(arguments.quiet);
    let mut report = new_report(scenario, &candidates);
    if let Some(pinning) = &arguments.pin {
        pinning.bench.apply()?;
        report.pinning = Some(pinning.to_string());
    }
    let runs = arguments.runs;
    for run in 0..runs {
        for (at, candidate) in candidates.iter().enumerate() {
            if interrupted() {
                report.interrupted = true;
                break;
            }
            progress.begin(format!(
                "{} {} {}/{runs}",
                scenario.name(),
                candidate.name(),
                run + 1
            ));
            match run_once(scenario, candidate, arguments, &progress) {
                Ok(outcome) => {
                    report.interrupted |= outcome.interrupted;
                    print_run(&progress, scenario.name(), candidate.name(), run, &outcome);
                    report.targets[at].runs.push(outcome);
                }
                Err(_) if interrupted() => report.interrupted = true,
                Err(error) => {
                    progress.end();
                    return Err(error);
                }
            }
        }
    }
    progress.end();
    if report.targets.iter().all(|target| target.runs.is_empty()) {
        return Err(BenchError::Interrupted);
    }
    Ok(report)
}

fn candidates(
    scenario: &dyn Scenario,
    arguments: &SeriesArguments,
    definitions: &Definitions,
) -> Result<Vec<Candidate>, BenchError> {
    let mut candidates = Vec::new();
    for text in &arguments.targets {
        let endpoint: Endpoint = text.parse()?;
        let found = || match &endpoint {
            Endpoint::Url(url)
                if url
                    .address()
                    .is_ok_and(|address| address.ip().is_loopback()) =>
            {
                listener_of_port(url.port)
            }
            _ => None,
        };
        let process = arguments.pid.or_else(found);
        let name = endpoint.to_string();
        candidates.push(Candidate::Given(Target {
            name,
            endpoint,
            process,
            start_seconds: None,
        }));
    }
    for name in &arguments.peer {
        let definition = definitions.get(name)?;
        definition.find_programs(name)?;
        let offer = definition
            .offers
            .get(scenario.name())
            .ok_or_else(|| BenchError::Target {
                scenario: scenario.name(),
                target: name.clone(),
                takes: "a peer that offers it; 'peers' lists which do",
            })?;
        let definition = Box::new(definition.clone());
        candidates.push(Candidate::Peer(name.clone(), definition, offer.clone()));
    }
    if candidates.is_empty() {
        return Err(BenchError::NoTarget);
    }
    Ok(candidates)
}

fn run_once(
    scenario: &dyn Scenario,
    candidate: &Candidate,
    arguments: &SeriesArguments,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    match candidate {
        Candidate::Given(target) => scenario.run(target, progress),
        Candidate::Peer(name, definition, offer) => {
            let prepare = |folder: &std::path::Path| scenario.prepare_peer(definition, folder);
            let processors = arguments.pin.as_ref().map(|pinning| &pinning.server);
            let words = scenario.words();
            let running = Running::start(name, definition, &words, processors, prepare)?;
            scenario.run(&running.target(offer)?, progress)
        }
    }
}

fn new_report(scenario: &dyn Scenario, candidates: &[Candidate]) -> Report {
    let target = |candidate: &Candidate| match candidate {
        Candidate::Given(target) => TargetReport {
            name: target.name.clone(),
            version: None,
            offer: target.endpoint.to_string(),
            runs: Vec::new(),
        },
        Candidate::Peer(name, definition, offer) => TargetReport {
            name: name.clone(),
            version: version(name, definition),
            offer: offer.clone(),
            runs: Vec::new(),
        },
    };
    Report {
        headlines: scenario.headlines(),
        targets: candidates.iter().map(target).collect(),
        ..Report::begin(scenario.name(), scenario.settings())
    }
}
