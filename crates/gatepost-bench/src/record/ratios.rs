//! `trend --ratios`: the ratio of our figures to each peer's, now and in the record before.
//!
//! A figure alone changes with the machine and with what else runs on it. Its ratio to a peer's,
//! measured in the same series, changes far less, so it can decide about a release.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::folder::{label, recorded};
use crate::error::BenchError;
use crate::outcome::{Better, Figure};
use crate::report::{BenchReport, TargetReport, number};
use crate::statistics::SortedSample;
use crate::sweep::Point;

/// Figures that are compared besides a scenario's first, by the beginning of their names.
const COMPARED: [&str; 2] = ["server CPU per ", "server memory"];
/// Settings that a report has only if they are set.
const ABSENT_IF_UNSET: [&str; 7] = [
    "over",
    "rate",
    "header",
    "storms",
    "connect_rate",
    "max_latency",
    "max_memory",
];
/// Figures that count what went wrong, by the end of their names.
const FAULTS: [&str; 10] = [
    "lost",
    "lost after storms",
    "duplicates",
    "out of order",
    "unacknowledged",
    "unanswered",
    "failed",
    "refused",
    "broken connections",
    "errors per second",
];

/// The options of a comparison.
pub(super) struct RatioArguments<'a> {
    /// The newest results: a folder, or one file.
    pub(super) results: &'a Path,
    /// The earlier ones, if they are elsewhere.
    pub(super) since: Option<&'a Path>,
    pub(super) scenario: Option<&'a str>,
    pub(super) figure: Option<&'a str>,
    /// The target whose ratios to all others are compared.
    pub(super) ours: &'a str,
    /// The permitted fall in percent.
    pub(super) fall: f64,
}

/// The comparison as text, and the number of ratios that fell too far and of faults that increased.
pub(super) fn ratios(arguments: &RatioArguments<'_>) -> Result<(String, usize), BenchError> {
    let newer = recorded(arguments.results)?;
    let older = match arguments.since {
        Some(path) => recorded(path)?,
        None => newer.clone(),
    };
    let (mut text, mut compared, mut fallen, mut faulty) = (String::new(), 0, 0, 0);
    for report in newest(&newer, arguments) {
        let before = older.iter().rfind(|before| {
            before.started_unix_seconds < report.started_unix_seconds && is_same(before, report)
        });
        let Some(before) = before else { continue };
        let changes = changes(before, report, arguments);
        if changes.is_empty() {
            continue;
        }
        let faults = new_faults(before, report, arguments);
        let scenario = report.scenario.to_uppercase();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{scenario}: {} to {}", label(before), label(report));
        if report.machine.processor != before.machine.processor {
            let _ = writeln!(text, "  on another processor: {}", report.machine.processor);
        }
        for change in &changes {
            let fell = change.percent() < -arguments.fall;
            fallen += usize::from(fell);
            let _ = writeln!(text, "{}{change}", if fell { "! " } else { "  " });
        }
        for fault in &faults {
            let _ = writeln!(text, "! {fault}");
        }
        compared += changes.len();
        faulty += faults.len();
    }
    if compared == 0 {
        return Err(BenchError::Data {
            path: arguments.results.to_owned(),
            reason: format!(
                "no two results of one scenario and setting there have {} and a peer",
                arguments.ours
            ),
        });
    }
    let _ = writeln!(
        text,
        "{compared} ratios compared; {fallen} fell by over {} %, {faulty} faults are new or more.",
        number(arguments.fall)
    );
    Ok((text, fallen + faulty))
}

/// The newest report of each scenario and setting that has both sides.
fn newest<'a>(reports: &'a [BenchReport], arguments: &RatioArguments<'_>) -> Vec<&'a BenchReport> {
    let mut found: Vec<&BenchReport> = Vec::new();
    let has_both = |report: &BenchReport| {
        let ours = |target: &TargetReport| target.name == arguments.ours;
        report.targets.len() > 1 && report.targets.iter().any(ours)
    };
    for report in reports.iter().rev() {
        let wanted = arguments.scenario.is_none_or(|one| one == report.scenario);
        if wanted && has_both(report) && !found.iter().any(|known| is_same(known, report)) {
            found.push(report);
        }
    }
    found.reverse();
    found
}

/// Whether two reports are of one scenario and setting, on the same processors of their machine. A
/// setting that only one version of the program has does not count.
fn is_same(one: &BenchReport, other: &BenchReport) -> bool {
    let settings = one.settings.as_object().zip(other.settings.as_object());
    one.scenario == other.scenario
        && one.pinning == other.pinning
        && settings.is_some_and(|(one, other)| {
            if ABSENT_IF_UNSET
                .iter()
                .any(|name| one.get(*name) != other.get(*name))
            {
                return false;
            }
            let mut both = one
                .iter()
                .filter_map(|(key, value)| Some((value, other.get(key)?)));
            both.all(|(value, others)| value == others)
        })
}

/// One ratio then and now. Above 1, ours is the better one.
struct RatioChange {
    figure: String,
    point: String,
    peer: String,
    before: f64,
    now: f64,
}

impl RatioChange {
    fn percent(&self) -> f64 {
        (self.now / self.before - 1.0) * 100.0
    }
}

impl std::fmt::Display for RatioChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            figure,
            point,
            peer,
            before,
            now,
        } = self;
        let percent = self.percent();
        write!(
            formatter,
            "{figure}{point}: {before:.3} to {now:.3} times as good as {peer} ({percent:+.1} %)"
        )
    }
}

fn changes(
    before: &BenchReport,
    now: &BenchReport,
    arguments: &RatioArguments<'_>,
) -> Vec<RatioChange> {
    let (then, today) = (advantages(before, arguments), advantages(now, arguments));
    let both = today
        .into_iter()
        .filter_map(|((figure, point, peer), now)| {
            let before = *then.get(&(figure.clone(), point.clone(), peer.clone()))?;
            Some(RatioChange {
                figure,
                point,
                peer,
                before,
                now,
            })
        });
    both.collect()
}

/// The faults of our target that the report before did not have, or that increased by more than
/// ratios may fall. The worst run counts, since a lost message is never due to chance alone.
fn new_faults(
    before: &BenchReport,
    now: &BenchReport,
    arguments: &RatioArguments<'_>,
) -> Vec<String> {
    let (then, today) = (faults(before, arguments), faults(now, arguments));
    let permitted = 1.0 + arguments.fall / 100.0;
    let increased = today.into_iter().filter_map(|((figure, point), now)| {
        let before = *then.get(&(figure.clone(), point.clone()))?;
        let line = || format!("{figure}{point}: {} to {}", number(before), number(now));
        (now > before * permitted).then(line)
    });
    increased.collect()
}

/// The largest value of each fault of our target, by figure and values of swept settings.
fn faults(report: &BenchReport, arguments: &RatioArguments<'_>) -> BTreeMap<(String, String), f64> {
    let mut worst: BTreeMap<(String, String), f64> = BTreeMap::new();
    let ours = report.targets.iter().find(|one| one.name == arguments.ours);
    for run in ours.into_iter().flat_map(|ours| &ours.runs) {
        let is_fault = |figure: &&Figure| {
            figure.better == Better::Lower
                && arguments.figure.is_none_or(|name| name == figure.name)
                && FAULTS.iter().any(|end| figure.name.ends_with(end))
        };
        for figure in run.figures.iter().filter(is_fault) {
            let key = (figure.name.clone(), described(&run.parameters));
            let value = worst.entry(key).or_default();
            *value = value.max(figure.value);
        }
    }
    worst
}

/// The factor by which our result is better than each peer's, by figure, values of swept settings,
/// and peer.
fn advantages(
    report: &BenchReport,
    arguments: &RatioArguments<'_>,
) -> BTreeMap<(String, String, String), f64> {
    let mut found = BTreeMap::new();
    let Some(ours) = report.targets.iter().find(|one| one.name == arguments.ours) else {
        return found;
    };
    for run in &ours.runs {
        let first = run.figures.iter().find(|one| one.better != Better::Neither);
        let is_compared = |figure: &Figure| match arguments.figure {
            Some(name) => figure.name == name,
            None => {
                first.is_some_and(|first| first.name == figure.name)
                    || COMPARED.iter().any(|begin| figure.name.starts_with(begin))
            }
        };
        for figure in run.figures.iter().filter(|figure| is_compared(figure)) {
            let Some(of_ours) = median(ours, &figure.name, &run.parameters) else {
                continue;
            };
            for peer in report
                .targets
                .iter()
                .filter(|one| one.name != arguments.ours)
            {
                let Some(of_peer) = median(peer, &figure.name, &run.parameters) else {
                    continue;
                };
                let advantage = match figure.better {
                    Better::Higher => of_ours / of_peer,
                    Better::Lower => of_peer / of_ours,
                    Better::Neither => continue,
                };
                found.insert(
                    (
                        figure.name.clone(),
                        described(&run.parameters),
                        peer.name.clone(),
                    ),
                    advantage,
                );
            }
        }
    }
    found
}

/// The median over the runs with these values of swept settings; none of a figure that is 0, which
/// has no ratio.
fn median(target: &TargetReport, figure: &str, point: &Point) -> Option<f64> {
    let runs = target.runs.iter().filter(|run| run.parameters == *point);
    let sample = SortedSample::new(runs.filter_map(|run| run.value(figure)).collect())?;
    Some(sample.median()).filter(|median| *median > 0.0)
}

pub(super) fn described(point: &Point) -> String {
    let mut text = String::new();
    for (name, value) in point {
        // Writing to a String cannot fail.
        let _ = write!(text, " {name}={}", number(*value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::keep;
    use super::*;
    use crate::outcome::RunOutcome;

    /// A record of `ours` and a peer, with their rates and CPU times.
    fn recorded_with(folder: &Path, at: u64, ours: (f64, f64), peer: (f64, f64)) {
        let target = |name: &str, (rate, cpu): (f64, f64)| {
            let mut run = RunOutcome::default();
            run.higher("rate", rate, "/s");
            run.lower("server CPU per page", cpu, "µs");
            run.lower("lost", 0.0, "");
            TargetReport {
                name: name.into(),
                runs: vec![run],
                ..TargetReport::default()
            }
        };
        let report = BenchReport {
            started_unix_seconds: at,
            commit: Some(format!("{at}")),
            targets: vec![target("other", peer), target("gatepost", ours)],
            ..BenchReport::begin("web", serde_json::json!({"clients": 5}))
        };
        keep(folder, report).expect("kept");
    }

    fn arguments(results: &Path) -> RatioArguments<'_> {
        RatioArguments {
            results,
            since: None,
            scenario: None,
            figure: None,
            ours: "gatepost",
            fall: 10.0,
        }
    }

    #[test]
    fn a_ratio_that_fell_too_far_is_counted_and_marked() {
        let folder = tempfile::tempdir().expect("a folder");
        recorded_with(folder.path(), 1, (50.0, 3.0), (50.0, 3.0));
        recorded_with(folder.path(), 2, (200.0, 5.0), (100.0, 10.0));
        // A machine half as fast: the rate's ratio stays, that of the CPU time falls by 12 %.
        recorded_with(folder.path(), 3, (100.0, 10.0), (50.0, 17.6));
        let (text, fallen) = ratios(&arguments(folder.path())).expect("compared");
        assert_eq!(fallen, 1, "{text}");
        assert!(
            text.contains("  rate: 2.000 to 2.000 times as good as other (+0.0 %)"),
            "{text}"
        );
        assert!(
            text.contains("! server CPU per page: 2.000 to 1.760 times as good as other (-12.0 %)"),
            "{text}"
        );
        assert!(!text.contains("lost"), "{text}");

        let lenient = RatioArguments {
            fall: 15.0,
            ..arguments(folder.path())
        };
        assert_eq!(ratios(&lenient).expect("compared").1, 0);
    }

    #[test]
    fn earlier_results_may_be_elsewhere() {
        let (old, new) = (tempfile::tempdir(), tempfile::tempdir());
        let (old, new) = (old.expect("a folder"), new.expect("a folder"));
        recorded_with(old.path(), 1, (200.0, 5.0), (100.0, 10.0));
        recorded_with(new.path(), 2, (100.0, 5.0), (100.0, 10.0));
        assert!(
            ratios(&arguments(new.path())).is_err(),
            "one record has none before it"
        );
        let since = RatioArguments {
            since: Some(old.path()),
            figure: Some("rate"),
            ..arguments(new.path())
        };
        let (text, fallen) = ratios(&since).expect("compared");
        assert_eq!(fallen, 1, "{text}");
        assert!(text.contains("1 ratios compared; 1 fell"), "{text}");
    }

    /// A record with these settings, in which ours lost messages.
    fn recorded_as(folder: &Path, at: u64, settings: serde_json::Value, rate: f64, lost: f64) {
        let target = |name: &str, rate: f64, lost: f64| {
            let mut run = RunOutcome::default();
            run.higher("rate", rate, "/s");
            run.lower("lost", lost, "");
            TargetReport {
                name: name.into(),
                runs: vec![run],
                ..TargetReport::default()
            }
        };
        let report = BenchReport {
            started_unix_seconds: at,
            commit: Some(format!("{at}")),
            targets: vec![target("other", 100.0, 0.0), target("gatepost", rate, lost)],
            ..BenchReport::begin("fanout", settings)
        };
        keep(folder, report).expect("kept");
    }

    #[test]
    fn another_protocol_is_another_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mqtt, ws) = (
            serde_json::json!({"qos": 0}),
            serde_json::json!({"qos": 0, "over": "ws"}),
        );
        recorded_as(folder.path(), 1, mqtt.clone(), 200.0, 0.0);
        recorded_as(folder.path(), 2, ws.clone(), 50.0, 0.0);
        recorded_as(folder.path(), 3, mqtt, 150.0, 0.0);
        recorded_as(folder.path(), 4, ws, 51.0, 0.0);
        let (text, fallen) = ratios(&arguments(folder.path())).expect("compared");
        assert!(text.contains("! rate: 2.000 to 1.500"), "{text}");
        assert!(text.contains("  rate: 0.500 to 0.510"), "{text}");
        assert_eq!(fallen, 1, "{text}");
    }

    #[test]
    fn messages_that_were_not_lost_before_are_a_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = serde_json::json!({"qos": 0});
        recorded_as(folder.path(), 1, settings.clone(), 200.0, 0.0);
        recorded_as(folder.path(), 2, settings.clone(), 200.0, 7.0);
        let (text, fallen) = ratios(&arguments(folder.path())).expect("compared");
        assert!(text.contains("! lost: 0 to 7"), "{text}");
        assert_eq!(fallen, 1, "{text}");
        recorded_as(folder.path(), 3, settings, 200.0, 0.0);
        assert_eq!(ratios(&arguments(folder.path())).expect("compared").1, 0);
    }
}
