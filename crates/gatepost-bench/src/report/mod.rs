//! The report of a series of runs.

mod chart;
mod csv;
mod digits;
mod forms;
mod html;
mod markdown;
mod table;
mod tiles;
mod upgrade;
mod view;
mod winner;

pub use digits::number;
pub use forms::{ReportArguments, convert, write_forms};
pub(crate) use markdown::percentile_names;
pub use markdown::{Columns, markdown_table};
pub use table::{print_report, print_run};

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::BenchError;
use crate::outcome::{Headline, RunOutcome};
use crate::process::Machine;
use crate::scenario::FloorOf;

/// A series of runs, as stored in JSON; `schema/report-2.json` describes it.
///
/// The version in `schema` increases when the meaning of a field changes or a field is removed;
/// fields may be added without a new version. All earlier versions stay readable (`upgrade`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Name and version of the format.
    pub schema: String,
    /// Version of the program that wrote it.
    pub bench_version: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its settings.
    pub settings: serde_json::Value,
    /// The time at which it began.
    pub started_unix_seconds: u64,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The processors to which servers and bench were restricted; absent if not restricted.
    #[serde(default)]
    pub pinning: Option<String>,
    /// The uptime of the machine.
    pub uptime_seconds: f64,
    /// The commit of the working copy in which it was recorded.
    #[serde(default)]
    pub commit: Option<String>,
    /// The published figures of the original benchmark.
    pub headlines: Vec<Headline>,
    /// The costs of this machine's operations, at the start.
    #[serde(default)]
    pub floor: Vec<FloorFigure>,
    /// The operations that each figure cannot avoid.
    #[serde(default)]
    pub floors: Vec<FigureFloor>,
    /// The results of each target, in the given order.
    pub targets: Vec<TargetReport>,
    /// Whether the user stopped it early.
    pub interrupted: bool,
}

/// The minimum cost of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FloorFigure {
    /// The operation.
    pub operation: String,
    /// The time of one operation in nanoseconds.
    pub nanoseconds: f64,
}

/// A figure, and the operations that it cannot avoid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureFloor {
    /// The figure, a time in microseconds.
    pub figure: String,
    /// The operations, each repeated as often as it is needed.
    pub operations: Vec<String>,
}

impl From<FloorOf> for FigureFloor {
    fn from(floor: FloorOf) -> Self {
        Self {
            figure: floor.figure,
            operations: floor.operations.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// All runs against one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// A peer's name or the target as given.
    pub name: String,
    /// The version that the program reports.
    pub version: Option<String>,
    /// The URL or command, with the placeholders of a peer definition.
    pub offer: String,
    /// The configuration of a peer: its command, and its files by name.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// The runs in chronological order.
    pub runs: Vec<RunOutcome>,
}

impl TargetReport {
    /// The values of one figure over all runs.
    pub fn values(&self, figure: &str) -> Vec<f64> {
        self.runs
            .iter()
            .filter_map(|run| run.value(figure))
            .collect()
    }
}

impl BenchReport {
    /// The format that this program writes.
    pub const SCHEMA: &'static str = "gatepost-bench/2";

    /// An empty report of this machine, begun now.
    pub fn begin(scenario: &str, settings: serde_json::Value) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema: Self::SCHEMA.to_owned(),
            bench_version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            settings,
            started_unix_seconds: since.map_or(0, |since| since.as_secs()),
            machine: Machine::current(),
            pinning: None,
            uptime_seconds: clock::seconds(clock::now()),
            commit: None,
            headlines: Vec::new(),
            floor: Vec::new(),
            floors: Vec::new(),
            targets: Vec::new(),
            interrupted: false,
        }
    }

    /// The lower bound of a figure on this machine in microseconds, if known.
    pub fn floor_us(&self, figure: &str) -> Option<f64> {
        let floor = self.floors.iter().find(|floor| floor.figure == figure)?;
        let cost = |name: &String| {
            let found = self.floor.iter().find(|one| one.operation == *name);
            found.map(|one| one.nanoseconds / 1_000.0)
        };
        floor.operations.iter().map(cost).sum()
    }

    /// The same without the published figures of the original system, unless they are wanted.
    #[must_use]
    pub fn for_display(&self, with_originals: bool) -> Self {
        let mut shown = self.clone();
        if !with_originals {
            shown.headlines.clear();
        }
        shown
    }

    /// Writes the report as JSON.
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| BenchError::Data {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        write_file(path, &(text + "\n"))
    }

    /// Reads a report of this version or an earlier one.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let text = fs::read_to_string(path).map_err(|error| BenchError::File {
            path: path.to_owned(),
            error,
        })?;
        upgrade::parse(&text).map_err(|reason| BenchError::Data {
            path: path.to_owned(),
            reason,
        })
    }
}

/// Writes a file, and creates its parent folders if necessary.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), BenchError> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    write().map_err(|error| BenchError::File {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_report_reads_back() {
        let mut run = RunOutcome::default();
        run.higher("rate", 12.5, "/s");
        run.warn("noisy");
        let report = BenchReport {
            headlines: vec![Headline::new("rate", 1.0, "someone")],
            targets: vec![TargetReport {
                name: "a".into(),
                offer: "http://a".into(),
                runs: vec![run],
                ..TargetReport::default()
            }],
            ..BenchReport::begin("web", serde_json::json!({"clients": 5}))
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("report.json");
        report.write(&path).expect("written");
        assert_eq!(BenchReport::read(&path).expect("read"), report);
        assert_eq!(report.targets[0].values("rate"), [12.5]);
        fs::write(&path, "{}").expect("written");
        assert!(BenchReport::read(&path).is_err());
    }

    #[test]
    fn a_floor_is_the_sum_of_its_operations() {
        let figure = |operation: &str, nanoseconds| FloorFigure {
            operation: operation.into(),
            nanoseconds,
        };
        let of = |figure: &str, operations: &[&str]| FigureFloor {
            figure: figure.into(),
            operations: operations.iter().map(|&name| name.to_owned()).collect(),
        };
        let report = BenchReport {
            floor: vec![figure("send", 1_000.0), figure("wake", 500.0)],
            floors: vec![
                of("cost", &["send", "send", "wake"]),
                of("other", &["unknown"]),
            ],
            ..BenchReport::begin("web", serde_json::Value::Null)
        };
        assert_eq!(report.floor_us("cost"), Some(2.5));
        assert_eq!(report.floor_us("other"), None);
        assert_eq!(report.floor_us("rate"), None);
    }
}
