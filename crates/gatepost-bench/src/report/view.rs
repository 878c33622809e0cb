//! Contents that all report formats share: figures with their spreads, growth curves, notes.

use std::fmt::Write as _;

use super::BenchReport;
use super::digits::{ColumnLatency, DIGITS, MICROSECONDS, ValueSpread, number, time};
use crate::latency::{COARSE_DIGITS, Latencies};
use crate::outcome::{Better, RunOutcome};
use crate::statistics::{Growth, growth};
use crate::sweep::Point;

/// With fewer runs, a comparison is not meaningful.
const RUNS_ENOUGH: usize = 5;
/// The minimum number of points of a growth curve.
const POINTS_MIN: usize = 3;

/// A figure's name, unit and direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureName {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) better: Better,
}

impl FigureName {
    /// The cell of a table with this spread.
    pub(super) fn cell(&self, spread: Option<&ValueSpread>) -> String {
        spread.map_or("-".to_owned(), |spread| spread.cell(&self.unit))
    }

    /// A value with its unit.
    pub(super) fn with_unit(&self, value: f64) -> String {
        match self.unit.as_str() {
            "" => number(value),
            MICROSECONDS => time(value),
            unit if unit.starts_with('/') => number(value) + unit,
            unit => format!("{} {unit}", number(value)),
        }
    }

    pub(super) fn label(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }
}

/// All figures, in the order of the first run that has them.
pub(super) fn figure_names(report: &BenchReport) -> Vec<FigureName> {
    let mut names: Vec<FigureName> = Vec::new();
    let runs = report.targets.iter().flat_map(|target| &target.runs);
    for figure in runs.flat_map(|run| &run.figures) {
        if !names.iter().any(|known| known.name == figure.name) {
            names.push(FigureName {
                name: figure.name.clone(),
                unit: figure.unit.clone(),
                better: figure.better,
            });
        }
    }
    names
}

/// The runs of one target with one value of each swept setting.
pub(super) struct Column<'report> {
    pub(super) target: usize,
    pub(super) name: &'report str,
    pub(super) point: Point,
    pub(super) runs: Vec<&'report RunOutcome>,
}

impl Column<'_> {
    pub(super) fn spread(&self, figure: &str) -> Option<ValueSpread> {
        ValueSpread::of(
            self.runs
                .iter()
                .filter_map(|run| run.value(figure))
                .collect(),
        )
    }

    /// The target, with the values if there are several.
    pub(super) fn label(&self) -> String {
        let mut label = self.name.to_owned();
        for (name, value) in &self.point {
            // Writing to a String cannot fail.
            let _ = write!(label, " {name}={}", number(*value));
        }
        label
    }

    /// All latencies of a name over its runs.
    pub(super) fn latencies(&self, name: &str) -> Latencies {
        let mut all = Latencies::default();
        for latency in self.runs.iter().flat_map(|run| &run.latencies) {
            if latency.name == name {
                all.add(&latency.buckets_ns);
            }
        }
        all
    }
}

impl Column<'_> {
    /// The figures of all latencies of a name over its runs. Of a single run they are those that it
    /// stored, since the histograms of records are rounded.
    pub(super) fn latency(&self, name: &str) -> ColumnLatency {
        let of_runs = self.runs.iter().flat_map(|run| &run.latencies);
        let of_runs: Vec<_> = of_runs.filter(|one| one.name == name).collect();
        if let [only] = of_runs[..] {
            return ColumnLatency {
                summary: only.summary,
                digits: DIGITS,
            };
        }
        let mut summary = self.latencies(name).summary();
        // The extremes need no histogram.
        let longest = of_runs.iter().map(|one| one.summary.maximum_us);
        summary.maximum_us = longest.fold(0.0, f64::max);
        let is_rounded = of_runs.iter().any(|one| one.buckets_ns.is_coarse());
        let digits = if is_rounded { COARSE_DIGITS } else { DIGITS };
        ColumnLatency { summary, digits }
    }
}

/// All columns: targets in their order, points in the order of their values.
pub(super) fn columns(report: &BenchReport) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for (target, of_target) in report.targets.iter().enumerate() {
        for run in &of_target.runs {
            let known = columns
                .iter_mut()
                .find(|column| column.target == target && column.point == run.parameters);
            match known {
                Some(column) => column.runs.push(run),
                None => columns.push(Column {
                    target,
                    name: &of_target.name,
                    point: run.parameters.clone(),
                    runs: vec![run],
                }),
            }
        }
    }
    columns
}

/// Names of the latencies, in the order of the first run that has them.
pub(super) fn latency_names(report: &BenchReport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let runs = report.targets.iter().flat_map(|target| &target.runs);
    for latency in runs.flat_map(|run| &run.latencies) {
        if !names.contains(&latency.name) {
            names.push(latency.name.clone());
        }
    }
    names
}

/// The growth of one figure of one target with the setting that was swept.
pub(super) struct Curve {
    pub(super) target: String,
    pub(super) parameter: String,
    pub(super) figure: FigureName,
    /// Setting and median, in order.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) growth: Option<Growth>,
}

/// The curves of all figures, if exactly one setting was swept over a sufficient number of values.
pub(super) fn curves(report: &BenchReport) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let columns = columns(report);
    for figure in figure_names(report) {
        let first = curves.len();
        for column in &columns {
            let mut parameters = column.point.iter();
            let (Some((parameter, &value)), None) = (parameters.next(), parameters.next()) else {
                continue;
            };
            let Some(spread) = column.spread(&figure.name) else {
                continue;
            };
            let known = curves[first..]
                .iter_mut()
                .find(|curve| curve.target == column.name);
            match known {
                Some(curve) => curve.points.push((value, spread.median)),
                None => curves.push(Curve {
                    target: column.name.to_owned(),
                    parameter: parameter.clone(),
                    figure: figure.clone(),
                    points: vec![(value, spread.median)],
                    growth: None,
                }),
            }
        }
    }
    curves.retain(|curve| curve.points.len() >= POINTS_MIN);
    for curve in &mut curves {
        curve.growth = growth(&curve.points);
    }
    curves
}

/// Growth in words.
pub(super) fn growth_words(curve: &Curve) -> Option<String> {
    let growth = curve.growth?;
    let error = if growth.error.is_finite() {
        format!(" ± {:.2}", growth.error)
    } else {
        String::new()
    };
    Some(format!(
        "{}: {} grows as {}^{:.2}{error} (R² {:.3})",
        curve.target, curve.figure.name, curve.parameter, growth.exponent, growth.r_squared
    ))
}

/// Notes for the reader: machine, versions, sources, reasons for caution.
pub(super) fn notes(report: &BenchReport) -> Vec<String> {
    let mut notes = Vec::new();
    let fewest = columns(report)
        .iter()
        .map(|column| column.runs.len())
        .min()
        .unwrap_or(0);
    if fewest > 1 {
        notes.push(format!(
            "Medians of {fewest} runs, interleaved, with the smallest and largest."
        ));
    }
    if report.targets.len() > 1 && fewest < RUNS_ENOUGH {
        notes.push(format!(
            "{fewest} {} of each cannot tell a small difference from chance: make at least \
             {RUNS_ENOUGH}, and ask 'compare'.",
            if fewest == 1 { "run" } else { "runs" }
        ));
    }
    for target in &report.targets {
        if let Some(version) = &target.version {
            notes.push(format!("{}: {version}", target.name));
        }
    }
    let machine = &report.machine;
    notes.push(format!(
        "{} × {}, Linux {}",
        machine.processors, machine.processor, machine.kernel
    ));
    if let Some(pinning) = &report.pinning {
        notes.push(format!("Held to processors {pinning}"));
    }
    if let Some(commit) = &report.commit {
        notes.push(format!("Commit {commit}"));
    }
    for headline in &report.headlines {
        let line = format!(
            "original: {} {} ({})",
            number(headline.value),
            headline.figure,
            headline.source
        );
        if !notes.contains(&line) && report.headlines.len() <= 3 {
            notes.push(line);
        }
    }
    if report.headlines.len() > 3 {
        notes.push(format!("original: {}", report.headlines[0].source));
    }
    if report.interrupted {
        notes.push("Interrupted: these are the figures up to then.".into());
    }
    notes
}

/// Each warning once, with the targets and the number of their runs that had it.
pub(super) fn warnings(report: &BenchReport) -> Vec<String> {
    let mut all: Vec<(String, String, usize)> = Vec::new();
    for target in &report.targets {
        for warning in target.runs.iter().flat_map(|run| &run.warnings) {
            let known = all
                .iter_mut()
                .find(|(name, text, _)| *name == target.name && text == warning);
            match known {
                Some((_, _, count)) => *count += 1,
                None => all.push((target.name.clone(), warning.clone(), 1)),
            }
        }
    }
    let line = |(name, text, count): (String, String, usize)| match count {
        1 => format!("{name}: {text}"),
        _ => format!("{name}: {text} ({count} runs)"),
    };
    all.into_iter().map(line).collect()
}

#[cfg(test)]
pub(super) use tests::swept as tests_swept;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TargetReport;

    #[test]
    fn percentiles_of_a_record_have_the_digits_of_its_histogram() {
        let mut latencies = Latencies::default();
        for span in 1..=1_000 {
            latencies.record(span * 12_345);
        }
        let mut run = RunOutcome::default();
        run.latency("delivery", &latencies);
        let mut report = swept();
        report.targets[0].runs = vec![run.clone(), run];
        let cells = |report: &BenchReport| {
            let latency = columns(report)[0].latency("delivery");
            ["p50", "p99", "max"].map(|name| latency.cell(name))
        };
        assert_eq!(cells(&report), ["6.173 ms", "12.22 ms", "12.35 ms"]);
        for run in &mut report.targets[0].runs {
            let buckets = &mut run.latencies[0].buckets_ns;
            *buckets = buckets.coarse();
        }
        assert_eq!(cells(&report), ["6.2 ms", "12 ms", "12.35 ms"]);
        // A single run has stored its percentiles as they were.
        report.targets[0].runs.truncate(1);
        assert_eq!(cells(&report), ["6.173 ms", "12.22 ms", "12.35 ms"]);
    }

    /// Memory that grows in proportion, at three values, two runs each.
    pub(in crate::report) fn swept() -> BenchReport {
        let mut runs = Vec::new();
        for _ in 0..2 {
            for users in [10.0, 100.0, 1_000.0] {
                let mut run = RunOutcome::default();
                run.lower("memory", 7.0 * users, "KB");
                run.parameters.insert("users".into(), users);
                run.warn("busy");
                runs.push(run);
            }
        }
        BenchReport {
            targets: vec![TargetReport {
                name: "a".into(),
                runs,
                ..TargetReport::default()
            }],
            ..BenchReport::begin("idle", serde_json::Value::Null)
        }
    }

    #[test]
    fn a_sweep_has_a_column_for_each_value_and_a_curve() {
        let report = swept();
        let columns = columns(&report);
        assert_eq!(columns.len(), 3);
        assert_eq!(
            (columns[1].label(), columns[1].runs.len()),
            ("a users=100".into(), 2)
        );
        let curves = curves(&report);
        assert_eq!(curves.len(), 1);
        let words = growth_words(&curves[0]).expect("a law");
        assert!(
            words.starts_with("a: memory grows as users^1.00"),
            "{words}"
        );
        assert_eq!(warnings(&report), ["a: busy (6 runs)"]);
    }
}
