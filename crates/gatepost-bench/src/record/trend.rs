//! `trend`: the development of a figure over the records, and the first record that differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::folder::{label, recorded};
use super::ratios::{RatioArguments, described, ratios};
use crate::bounds;
use crate::error::BenchError;
use crate::outcome::Better;
use crate::report::{BenchReport, TargetReport, number};
use crate::statistics::{LevelChange, SortedSample, changes};

/// Columns of the plot.
const WIDTH: usize = 48;
/// The fall of a ratio to a peer that a release may have: the variation of a shared machine.
const FALL_PERCENT: f64 = 10.0;
/// The target whose ratios are compared, unless another one is named.
const OURS: &str = "gatepost";

/// Settings of `trend`.
#[derive(Debug, Clone, clap::Args)]
pub struct TrendArguments {
    /// The folder of results, or one of them
    #[arg(value_name = "PATH")]
    folder: PathBuf,
    /// Only this scenario
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Only this target; with --ratios, the one whose ratios to the others are compared [default
    /// then: gatepost]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// The figure [default: the scenario's first]
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Compare the ratios to the peers with those of the record before; fail if one fell by more
    /// than --fall
    #[arg(long)]
    ratios: bool,
    /// The earlier results, if they are elsewhere: a folder or one of them
    #[arg(long, value_name = "PATH", requires = "ratios")]
    since: Option<PathBuf>,
    /// The fall of a ratio in percent that is still permitted
    #[arg(
        long, value_name = "PERCENT", default_value_t = FALL_PERCENT, requires = "ratios",
        value_parser = bounds::percent,
    )]
    fall: f64,
    /// Confidence in percent with which a difference is shown
    #[arg(short, long, value_name = "PERCENT", default_value_t = 99.0)]
    confidence: f64,
}

/// The criterion for comparable results: the same scenario with the same settings, target and
/// processors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    scenario: String,
    target: String,
    settings: String,
    /// The values of swept settings.
    point: String,
    machine: String,
}

/// The values of one record.
struct TrendEntry {
    label: String,
    values: Vec<f64>,
}

/// Prints the trends, or the ratios then and now; an error if a ratio fell too far.
pub fn trend(arguments: &TrendArguments) -> Result<(), BenchError> {
    if !arguments.ratios {
        print!("{}", plots(arguments)?);
        return Ok(());
    }
    let (text, fallen) = ratios(&RatioArguments {
        results: &arguments.folder,
        since: arguments.since.as_deref(),
        scenario: arguments.scenario.as_deref(),
        figure: arguments.figure.as_deref(),
        ours: arguments.target.as_deref().unwrap_or(OURS),
        fall: arguments.fall,
    })?;
    print!("{text}");
    if fallen > 0 {
        return Err(BenchError::RatiosFell(fallen));
    }
    Ok(())
}

/// The trends as text and plots.
fn plots(arguments: &TrendArguments) -> Result<String, BenchError> {
    if !(50.0..100.0).contains(&arguments.confidence) {
        return Err(BenchError::Settings(
            "--confidence is from 50 to below 100".into(),
        ));
    }
    let mut groups: BTreeMap<Key, (String, Vec<TrendEntry>)> = BTreeMap::new();
    let wanted =
        |filter: &Option<String>, name: &str| filter.as_ref().is_none_or(|one| one == name);
    for report in recorded(&arguments.folder)? {
        if !wanted(&arguments.scenario, &report.scenario) {
            continue;
        }
        let Some(figure) = arguments.figure.clone().or_else(|| first_figure(&report)) else {
            continue;
        };
        for target in report
            .targets
            .iter()
            .filter(|one| wanted(&arguments.target, &one.name))
        {
            for (point, values) in values_by_point(target, &figure) {
                let group = groups.entry(key(&report, &target.name, point));
                let (_, entries) = group.or_insert_with(|| (figure.clone(), Vec::new()));
                entries.push(TrendEntry {
                    label: label(&report),
                    values,
                });
            }
        }
    }
    if groups.is_empty() {
        return Err(BenchError::Data {
            path: arguments.folder.clone(),
            reason: "nothing recorded there has that figure".into(),
        });
    }
    let mut text = String::new();
    for (key, (figure, entries)) in &groups {
        // Writing to a String cannot fail.
        let _ = write_group(key, figure, entries, arguments.confidence, &mut text);
    }
    Ok(text)
}

fn key(report: &BenchReport, target: &str, point: String) -> Key {
    let machine = &report.machine;
    let held = report.pinning.as_ref();
    let held = held.map_or(String::new(), |held| format!(", held to {held}"));
    Key {
        scenario: report.scenario.clone(),
        target: target.to_owned(),
        settings: report.settings.to_string(),
        point,
        machine: format!("{} × {}{held}", machine.processors, machine.processor),
    }
}

/// The values of a figure for each combination of swept settings, of which each is a series of its
/// own: together they would vary so much that no change is ever found.
fn values_by_point(target: &TargetReport, figure: &str) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in &target.runs {
        if let Some(value) = run.value(figure) {
            all.entry(described(&run.parameters))
                .or_default()
                .push(value);
        }
    }
    all
}

fn first_figure(report: &BenchReport) -> Option<String> {
    let runs = report.targets.iter().flat_map(|target| &target.runs);
    let mut figures = runs.flat_map(|run| &run.figures);
    let first = figures.find(|figure| figure.better != Better::Neither)?;
    Some(first.name.clone())
}

fn write_group(
    key: &Key,
    figure: &str,
    entries: &[TrendEntry],
    confidence: f64,
    text: &mut String,
) -> std::fmt::Result {
    writeln!(
        text,
        "{} {}{}: {figure}",
        key.scenario.to_uppercase(),
        key.target,
        key.point
    )?;
    writeln!(text, "{}", key.machine)?;
    let values = || {
        entries
            .iter()
            .flat_map(|entry| entry.values.iter().copied())
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let series: Vec<Vec<f64>> = entries.iter().map(|entry| entry.values.clone()).collect();
    let found = changes(&series, confidence / 100.0);
    for (at, entry) in entries.iter().enumerate() {
        let Some(sample) = SortedSample::new(entry.values.clone()) else {
            continue;
        };
        let mark = if found.iter().any(|change| change.at == at) {
            '>'
        } else {
            ' '
        };
        let median = number(sample.median());
        let runs = sample.count();
        let plot = strip(&sample, low, high);
        writeln!(
            text,
            "{mark} {:<22}{median:>12} {runs:>3} |{plot}|",
            entry.label
        )?;
    }
    match found.first() {
        None if entries.len() < 2 => writeln!(text, "Only one record so far.")?,
        None => writeln!(text, "No difference shown at {confidence} %.")?,
        Some(first) => {
            writeln!(text, "The first that differs: {}", changed(first, entries))?;
            for later in &found[1..] {
                writeln!(text, "Then: {}", changed(later, entries))?;
            }
        }
    }
    writeln!(text)
}

fn changed(change: &LevelChange, entries: &[TrendEntry]) -> String {
    let label = entries
        .get(change.at)
        .map_or("", |entry| entry.label.as_str());
    format!(
        "{label}, {:.3} times what was before (p = {:.2e})",
        change.ratio, change.probability
    )
}

/// The values of one record on the scale of all.
fn strip(sample: &SortedSample, low: f64, high: f64) -> String {
    let mut cells = vec![' '; WIDTH];
    let place = |value: f64| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        };
        ((share * (WIDTH - 1) as f64).round() as usize).min(WIDTH - 1)
    };
    for &value in sample.values() {
        cells[place(value)] = 'x';
    }
    cells[place(sample.median())] = 'M';
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::keep;
    use super::*;
    use crate::outcome::RunOutcome;

    fn recorded_with(folder: &std::path::Path, at: u64, mean: f64) {
        let run = |off: f64| {
            let mut run = RunOutcome::default();
            run.higher("rate", mean + off, "/s");
            run
        };
        let report = BenchReport {
            started_unix_seconds: 1_700_000_000 + at * 86_400,
            commit: Some(format!("{at}{at}{at}{at}")),
            targets: vec![TargetReport {
                name: "ours".into(),
                runs: [-1.0, -0.5, 0.0, 0.7, 1.1].map(run).to_vec(),
                ..TargetReport::default()
            }],
            ..BenchReport::begin("web", serde_json::json!({"clients": 5}))
        };
        keep(folder, report).expect("kept");
    }

    #[test]
    fn the_first_record_that_differs_is_pointed_at() {
        let folder = tempfile::tempdir().expect("a folder");
        for (at, mean) in [100.0, 100.3, 99.8, 80.0, 80.2].into_iter().enumerate() {
            recorded_with(folder.path(), at as u64, mean);
        }
        let arguments = TrendArguments {
            folder: folder.path().to_owned(),
            scenario: None,
            target: None,
            figure: None,
            ratios: false,
            since: None,
            fall: FALL_PERCENT,
            confidence: 99.0,
        };
        let text = plots(&arguments).expect("a trend");
        assert!(
            text.contains("The first that differs: 2023-11-17 3333, 0.80"),
            "{text}"
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with('>')).count(),
            1,
            "{text}"
        );
        let none = TrendArguments {
            figure: Some("no such".into()),
            ..arguments
        };
        assert!(plots(&none).is_err());
    }

    #[test]
    fn each_value_of_a_swept_setting_is_a_series() {
        let folder = tempfile::tempdir().expect("a folder");
        for (at, large) in [1_000.0, 1_001.0, 700.0].into_iter().enumerate() {
            let run = |clients: f64, value: f64| {
                let mut run = RunOutcome::default();
                run.higher("rate", value, "/s");
                run.parameters.insert("clients".into(), clients);
                run
            };
            let runs = [-1.0, -0.4, 0.3, 0.6, 1.2]
                .into_iter()
                .flat_map(|off| [run(1.0, 10.0 + off), run(50.0, large + off)]);
            let report = BenchReport {
                started_unix_seconds: 1_700_000_000 + at as u64 * 86_400,
                commit: Some(format!("{at}")),
                targets: vec![TargetReport {
                    name: "ours".into(),
                    runs: runs.collect(),
                    ..TargetReport::default()
                }],
                ..BenchReport::begin("web", serde_json::json!({"clients": [1, 50]}))
            };
            keep(folder.path(), report).expect("kept");
        }
        let text = plots(&TrendArguments {
            folder: folder.path().to_owned(),
            scenario: None,
            target: None,
            figure: None,
            ratios: false,
            since: None,
            fall: FALL_PERCENT,
            confidence: 99.0,
        });
        let text = text.expect("a trend");
        assert!(text.contains("WEB ours clients=1: rate"), "{text}");
        assert!(
            text.contains("The first that differs: 2023-11-16"),
            "{text}"
        );
        assert!(text.contains("No difference shown"), "{text}");
    }
}
