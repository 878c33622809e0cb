//! `record`, and reading recorded results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BenchError;
use crate::report::BenchReport;

/// Settings of `record`.
#[derive(Debug, Clone, clap::Args)]
pub struct RecordArguments {
    /// The folder of results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Results to store (JSON)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The commit of the measurement [default: the one checked out here]
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
}

/// Adds stored results to the folder.
pub fn record(arguments: &RecordArguments) -> Result<(), BenchError> {
    for path in &arguments.files {
        let mut report = BenchReport::read(path)?;
        if report.interrupted {
            return Err(BenchError::Data {
                path: path.clone(),
                reason: "it was interrupted, and only complete results are recorded".into(),
            });
        }
        report.commit = arguments.commit.clone().or(report.commit);
        let kept = keep(&arguments.folder, report)?;
        println!("{}", kept.display());
    }
    Ok(())
}

/// Adds one report, with the commit that is checked out unless it has one; returns its path.
pub fn keep(folder: &Path, mut report: BenchReport) -> Result<PathBuf, BenchError> {
    report.commit = report.commit.or_else(checked_out);
    // The figures stay exact; the complete histograms would fill a repository.
    let runs = report
        .targets
        .iter_mut()
        .flat_map(|target| &mut target.runs);
    for latency in runs.flat_map(|run| &mut run.latencies) {
        latency.buckets_ns = latency.buckets_ns.coarse();
    }
    let commit = report.commit.as_deref().unwrap_or("unknown");
    let short: String = commit.chars().take(12).collect();
    let name = format!("{}-{short}", report.started_unix_seconds);
    let folder = folder.join(&report.scenario);
    let mut path = folder.join(format!("{name}.json"));
    // Another series of the scenario may have begun in the same second.
    for number in 2_u32.. {
        if !path.exists() {
            break;
        }
        if BenchReport::read(&path).is_ok_and(|known| known == report) {
            return Ok(path);
        }
        path = folder.join(format!("{name}-{number}.json"));
    }
    report.write(&path)?;
    Ok(path)
}

/// The commit of the current working copy; `+` is appended if files differ from it.
fn checked_out() -> Option<String> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(words).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() {
        commit
    } else {
        commit + "+"
    })
}

/// All complete reports below a folder, the oldest first, or the one of a file.
pub(super) fn recorded(path: &Path) -> Result<Vec<BenchReport>, BenchError> {
    let mut files = Vec::new();
    if path.is_file() {
        files.push(path.to_owned());
    } else {
        collect(path, &mut files)?;
    }
    files.sort();
    let mut reports: Vec<BenchReport> = files
        .iter()
        .map(|path| BenchReport::read(path))
        .collect::<Result<_, _>>()?;
    reports.retain(|report| !report.interrupted);
    reports.sort_by_key(|report| report.started_unix_seconds);
    Ok(reports)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), BenchError> {
    let entries = fs::read_dir(folder).map_err(|error| BenchError::File {
        path: folder.to_owned(),
        error,
    })?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Day and commit.
pub(super) fn label(report: &BenchReport) -> String {
    let commit = report.commit.as_deref().unwrap_or("unknown");
    let short: String = commit.chars().take(9).collect();
    format!("{} {short}", day(report.started_unix_seconds))
}

/// The date of a time, in the Gregorian calendar (Hinnant's civil_from_days).
fn day(unix_seconds: u64) -> String {
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_reports_are_found_in_order_of_time() {
        let folder = tempfile::tempdir().expect("a folder");
        for started in [200, 100] {
            let report = BenchReport {
                started_unix_seconds: started,
                commit: Some(format!("{started}abcdef")),
                ..BenchReport::begin("web", serde_json::Value::Null)
            };
            let path = keep(folder.path(), report).expect("kept");
            assert!(path.starts_with(folder.path().join("web")), "{path:?}");
        }
        let found = recorded(folder.path()).expect("read");
        let times: Vec<u64> = found
            .iter()
            .map(|report| report.started_unix_seconds)
            .collect();
        assert_eq!(times, [100, 200]);
        assert!(recorded(&folder.path().join("nothing")).is_err());
    }

    #[test]
    fn two_series_of_one_second_are_two_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = |clients: u32| BenchReport {
            started_unix_seconds: 100,
            commit: Some("abcdef".into()),
            ..BenchReport::begin("web", serde_json::json!({ "clients": clients }))
        };
        let (one, other) = (report(1), report(2));
        let first = keep(folder.path(), one.clone()).expect("kept");
        let second = keep(folder.path(), other).expect("kept");
        assert_ne!(first, second);
        // The same report again is the same record.
        assert_eq!(keep(folder.path(), one).expect("kept"), first);
        assert_eq!(recorded(folder.path()).expect("read").len(), 2);
    }

    #[test]
    fn an_interrupted_result_is_not_recorded_and_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = BenchReport {
            interrupted: true,
            ..BenchReport::begin("web", serde_json::Value::Null)
        };
        let file = folder.path().join("result.json");
        report.write(&file).expect("written");
        let arguments = RecordArguments {
            folder: folder.path().join("kept"),
            files: vec![file.clone()],
            commit: None,
        };
        assert!(record(&arguments).is_err());
        assert!(!arguments.folder.exists());
        assert_eq!(recorded(&file).expect("read"), []);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_700_000_000, "2023-11-14"),
            (4_102_444_799, "2099-12-31"),
        ] {
            assert_eq!(day(seconds), date);
        }
    }
}
