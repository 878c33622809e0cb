//! What is kept and shown of a series of runs.

mod table;

pub use table::{print_report, print_run};

use crate::clock;
use crate::error::BenchError;
use crate::outcome::{Headline, Outcome};
use crate::process::Machine;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A series of runs, as stored in JSON; `schema/report-1.json` describes it.
///
/// The version in `schema` rises when a field changes its meaning or goes; fields may be added
/// without it. Every version ever written stays readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name and version of the format.
    pub schema: String,
    /// Version of the program that wrote it.
    pub bench_version: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its settings.
    pub settings: serde_json::Value,
    /// When it began.
    pub started_unix_seconds: u64,
    /// Where it was measured.
    pub machine: Machine,
    /// Which processors servers and bench were held to; free where absent.
    #[serde(default)]
    pub pinning: Option<String>,
    /// How long the machine had been up.
    pub uptime_seconds: f64,
    /// What the original benchmark published.
    pub headlines: Vec<Headline>,
    /// What was measured, in the order given.
    pub targets: Vec<TargetReport>,
    /// Whether the user stopped it before its time.
    pub interrupted: bool,
}

/// All runs against one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// A peer's name or the target as given.
    pub name: String,
    /// What its program says of itself.
    pub version: Option<String>,
    /// The URL or command, with the words of a peer definition unreplaced.
    pub offer: String,
    /// In the order of time.
    pub runs: Vec<Outcome>,
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

impl Report {
    /// The format that this program writes.
    pub const SCHEMA: &'static str = "gatepost-bench/1";

    /// An empty report of this machine, begun now.
    pub fn begin(scenario: &str, settings: serde_json::Value) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema: Self::SCHEMA.to_owned(),
            bench_version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            settings,
            started_unix_seconds: since.map_or(0, |since| since.as_secs()),
            machine: Machine::this(),
            pinning: None,
            uptime_seconds: clock::seconds(clock::now()),
            headlines: Vec::new(),
            targets: Vec::new(),
            interrupted: false,
        }
    }

    /// Writes it as JSON.
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| BenchError::Data {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        fs::write(path, text + "\n").map_err(|error| BenchError::File {
            path: path.to_owned(),
            error,
        })
    }

    /// Reads one that was written by this version or an earlier one.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let text = fs::read_to_string(path).map_err(|error| BenchError::File {
            path: path.to_owned(),
            error,
        })?;
        Self::parse(&text).map_err(|reason| BenchError::Data {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.schema != Self::SCHEMA {
            return Err(format!(
                "its schema is {}, not {}",
                report.schema,
                Self::SCHEMA
            ));
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let mut run = Outcome::default();
        run.higher("rate", 12.5, "/s");
        run.warnings.push("noisy".into());
        let report = Report {
            headlines: vec![Headline::new("rate", 1.0, "someone")],
            targets: vec![TargetReport {
                name: "a".into(),
                version: None,
                offer: "http://a".into(),
                runs: vec![run],
            }],
            ..Report::begin("web", serde_json::json!({"clients": 5}))
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        report.write(&path).expect("written");
        assert_eq!(Report::read(&path).expect("read"), report);
        assert_eq!(report.targets[0].values("rate"), [12.5]);
        fs::write(&path, "{}").expect("written");
        assert!(Report::read(&path).is_err());
    }
}
