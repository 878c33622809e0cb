//! Runs of a scenario: each target once in turn, then again, so that changes in the machine's speed
//! affect all of them alike. If settings are swept, each turn covers all their values.

use std::fmt::Write as _;

use crate::arguments::SeriesArguments;
use crate::error::BenchError;
use crate::interrupt::interrupted;
use crate::outcome::RunOutcome;
use crate::peer::{PeerDefinition, PeerDefinitions, Running, version};
use crate::process::{WatchedServer, count_system_calls, listener_of_port};
use crate::progress::RunProgress;
use crate::report::{BenchReport, FloorFigure, TargetReport, print_run};
use crate::scenario::{Scenario, floor};
use crate::sweep::Point;
use crate::target::{Endpoint, RunningTarget};

/// A scenario with the values of its swept settings.
pub(crate) type SweepPoints = Vec<(Point, Box<dyn Scenario>)>;

/// A target before its run: given, or a peer that is started for each run.
enum Candidate {
    Given(RunningTarget),
    Peer(PeerTarget),
}

struct PeerTarget {
    name: String,
    definition: Box<PeerDefinition>,
    /// The selected offer.
    key: String,
}

impl PeerTarget {
    fn offer(&self) -> &str {
        self.definition
            .offers
            .get(&self.key)
            .map_or("", String::as_str)
    }
}

impl Candidate {
    fn name(&self) -> &str {
        match self {
            Self::Given(target) => &target.name,
            Self::Peer(peer) => &peer.name,
        }
    }
}

/// Runs the scenario against all targets. All measurements before an interruption or a failure are
/// kept; a failure is returned beside them.
pub(crate) fn run(
    points: &SweepPoints,
    arguments: &SeriesArguments,
) -> Result<(BenchReport, Option<BenchError>), BenchError> {
    let Some((_, first)) = points.first() else {
        return Err(BenchError::NoTarget);
    };
    let definitions = PeerDefinitions::load(arguments.peers.as_deref())?;
    let candidates = candidates(first.as_ref(), arguments, &definitions)?;
    if arguments.system_calls {
        count_system_calls();
    }
    let progress = RunProgress::new(arguments.quiet);
    let mut report = new_report(
        points,
        first.as_ref(),
        &candidates,
        arguments.over.as_deref(),
    )?;
    if let Some(pinning) = &arguments.pin {
        pinning.bench.apply()?;
        report.pinning = Some(pinning.to_string());
    }
    let runs = arguments.runs.unwrap_or_else(|| first.usual_runs());
    let mut failure = None;
    'series: for run in 0..runs {
        for (point, scenario) in points {
            for (at, candidate) in candidates.iter().enumerate() {
                if interrupted() {
                    report.interrupted = true;
                    break;
                }
                progress.begin(label(scenario.as_ref(), candidate, point, run, runs));
                match run_once(scenario.as_ref(), candidate, arguments, &progress) {
                    Ok(mut outcome) => {
                        outcome.parameters.clone_from(point);
                        report.interrupted |= outcome.interrupted;
                        print_run(&progress, scenario.name(), candidate.name(), run, &outcome);
                        report.targets[at].runs.push(outcome);
                    }
                    Err(_) if interrupted() => report.interrupted = true,
                    Err(error) => {
                        failure = Some(error);
                        break 'series;
                    }
                }
            }
        }
    }
    progress.end();
    if report.targets.iter().all(|target| target.runs.is_empty()) {
        return Err(failure.unwrap_or(BenchError::Interrupted));
    }
    report.interrupted |= failure.is_some();
    Ok((report, failure))
}

fn label(
    scenario: &dyn Scenario,
    candidate: &Candidate,
    point: &Point,
    run: usize,
    runs: usize,
) -> String {
    let mut label = format!(
        "{} {} {}/{runs}",
        scenario.name(),
        candidate.name(),
        run + 1
    );
    for (name, value) in point {
        // Writing to a String cannot fail.
        let _ = write!(label, " {name}={value}");
    }
    label
}

fn candidates(
    scenario: &dyn Scenario,
    arguments: &SeriesArguments,
    definitions: &PeerDefinitions,
) -> Result<Vec<Candidate>, BenchError> {
    let mut candidates = Vec::new();
    for text in &arguments.targets {
        let endpoint: Endpoint = text.parse()?;
        let watched = watched(&endpoint, arguments);
        candidates.push(Candidate::Given(RunningTarget {
            watched,
            ..RunningTarget::from_endpoint(endpoint)
        }));
    }
    let key = match &arguments.over {
        Some(way) => format!("{}-{way}", scenario.name()),
        None => scenario.name().to_owned(),
    };
    for name in &arguments.peer {
        let definition = definitions.get(name)?;
        let Some(offer) = definition.offers.get(&key) else {
            let offers: Vec<&str> = definition.offers.keys().map(String::as_str).collect();
            return Err(BenchError::NoOffer {
                peer: name.clone(),
                wanted: key,
                offers: offers.join(", "),
            });
        };
        definition.find_programs(name, offer)?;
        candidates.push(Candidate::Peer(PeerTarget {
            name: name.clone(),
            definition: Box::new(definition.clone()),
            key: key.clone(),
        }));
    }
    if candidates.is_empty() {
        return Err(BenchError::NoTarget);
    }
    Ok(candidates)
}

/// The server's processes: as given, or found by its port if it is on this machine.
fn watched(endpoint: &Endpoint, arguments: &SeriesArguments) -> Option<WatchedServer> {
    if let Some(folder) = &arguments.cgroup {
        return Some(WatchedServer::Group(folder.clone()));
    }
    let found = || match endpoint {
        Endpoint::Url(url)
            if url
                .address()
                .is_ok_and(|address| address.ip().is_loopback()) =>
        {
            listener_of_port(url.port)
        }
        _ => None,
    };
    arguments.pid.or_else(found).map(WatchedServer::Process)
}

fn run_once(
    scenario: &dyn Scenario,
    candidate: &Candidate,
    arguments: &SeriesArguments,
    progress: &RunProgress,
) -> Result<RunOutcome, BenchError> {
    match candidate {
        Candidate::Given(target) => scenario.run(target, progress),
        Candidate::Peer(peer) => {
            let definition = &peer.definition;
            let prepare = |folder: &std::path::Path| scenario.prepare_peer(definition, folder);
            let processors = arguments.pin.as_ref().map(|pinning| &pinning.server);
            let words = scenario.words();
            let running = Running::start(
                &peer.name,
                definition,
                peer.offer(),
                &words,
                processors,
                prepare,
            )?;
            let publish = definition.publish.get(&peer.key).map(String::as_str);
            scenario.run(&running.target(peer.offer(), publish)?, progress)
        }
    }
}

fn new_report(
    points: &SweepPoints,
    first: &dyn Scenario,
    candidates: &[Candidate],
    over: Option<&str>,
) -> Result<BenchReport, BenchError> {
    let target = |candidate: &Candidate| match candidate {
        Candidate::Given(target) => TargetReport {
            name: target.name.clone(),
            offer: target.endpoint.to_string(),
            ..TargetReport::default()
        },
        Candidate::Peer(peer) => TargetReport {
            name: peer.name.clone(),
            version: version(&peer.name, &peer.definition),
            offer: peer.offer().to_owned(),
            configuration: peer.definition.configuration(),
            runs: Vec::new(),
        },
    };
    let floor = floor::quick()?;
    let floor = floor
        .into_iter()
        .map(|(operation, nanoseconds)| FloorFigure {
            operation,
            nanoseconds,
        });
    let mut settings = first.settings();
    if let Some(over) = over {
        settings["over"] = over.into();
    }
    // A swept setting is stored with all its values, not the first run's.
    for name in points.iter().flat_map(|(point, _)| point.keys()) {
        let mut values: Vec<f64> = points
            .iter()
            .filter_map(|(point, _)| point.get(name))
            .copied()
            .collect();
        values.dedup();
        settings[name.as_str()] = values.into();
    }
    Ok(BenchReport {
        headlines: first.headlines(),
        floor: floor.collect(),
        floors: first.floors().into_iter().map(Into::into).collect(),
        targets: candidates.iter().map(target).collect(),
        ..BenchReport::begin(first.name(), settings)
    })
}
