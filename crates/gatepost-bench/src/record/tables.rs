//! `tables`: documents with tables made from recorded results.
//!
//! A table is between `<!-- bench: SCENARIO … -->` and `<!-- bench end -->`; everything else is the
//! author's. The marker's words select the record and the figures: `<!-- bench: fanout setting=2
//! figures="deliveries per second,lost" latencies=p50,p99 -->`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::folder::recorded;
use crate::error::BenchError;
use crate::outcome::RunOutcome;
use crate::report::{BenchReport, Columns, markdown_table, number, percentile_names};

const BEGIN: &str = "<!-- bench: ";
const END: &str = "<!-- bench end -->";

/// Settings of `tables`.
#[derive(Debug, Clone, clap::Args)]
pub struct TablesArguments {
    /// The document: Markdown with `<!-- bench: SCENARIO -->` … `<!-- bench end -->`
    #[arg(value_name = "FILE")]
    document: PathBuf,
    /// The folder of results
    #[arg(long, value_name = "DIR", default_value = "benchmarks")]
    results: PathBuf,
    /// Write nothing; fail if the document is not current
    #[arg(long)]
    check: bool,
}

/// Updates all tables of the document.
pub fn renew_tables(arguments: &TablesArguments) -> Result<(), BenchError> {
    let path = &arguments.document;
    let failed = |error| BenchError::File {
        path: path.clone(),
        error,
    };
    let text = fs::read_to_string(path).map_err(failed)?;
    let reports = recorded(&arguments.results)?;
    let renewed = renewed(&text, &reports).map_err(|reason| BenchError::Data {
        path: path.clone(),
        reason,
    })?;
    if renewed == text {
        return Ok(());
    }
    if arguments.check {
        return Err(BenchError::Data {
            path: path.clone(),
            reason: "its tables are not those of the results; 'tables' renews them".into(),
        });
    }
    fs::write(path, renewed).map_err(failed)
}

/// The document with the newest matching results in its tables.
fn renewed(text: &str, reports: &[BenchReport]) -> Result<String, String> {
    let (mut rest, mut whole) = (text, String::new());
    while let Some(at) = rest.find(BEGIN) {
        let close = rest[at..].find("-->").ok_or("a marker is not closed")? + at;
        let marker = &rest[at + BEGIN.len()..close];
        let end = rest[close..]
            .find(END)
            .ok_or_else(|| format!("no end for '{marker}'"))?
            + close;
        whole.push_str(&rest[..close + 3]);
        whole.push_str("\n\n");
        whole.push_str(&block(&Marker::parse(marker)?, reports)?);
        whole.push('\n');
        rest = &rest[end..];
        // The end marker is kept.
        whole.push_str(END);
        rest = &rest[END.len()..];
    }
    whole.push_str(rest);
    Ok(whole)
}

/// The table that a marker describes.
#[derive(Debug, Default, PartialEq)]
struct Marker {
    scenario: String,
    /// The settings that the record must have.
    settings: Vec<(String, String)>,
    figures: Vec<String>,
    /// The percentiles of latencies.
    percentiles: Vec<String>,
}

impl Marker {
    fn parse(text: &str) -> Result<Self, String> {
        let mut marker = Self::default();
        for word in words(text) {
            match word.split_once('=') {
                Some(("figures", names)) => marker.figures = list(names),
                Some(("latencies", names)) => marker.percentiles = percentiles(names)?,
                Some((name, value)) => marker.settings.push((name.to_owned(), value.to_owned())),
                None if marker.scenario.is_empty() => marker.scenario = word,
                None => return Err(format!("'{word}' in a marker means nothing")),
            }
        }
        Ok(marker)
    }

    fn fits(&self, report: &BenchReport) -> bool {
        let has = |(name, value): &(String, String)| {
            let stored = &report.settings[name.as_str()];
            let text = stored
                .as_str()
                .map_or_else(|| stored.to_string(), str::to_owned);
            text == *value
        };
        // A report has "over" only if it is set, so a marker without it would fit any protocol.
        let names_over = self.settings.iter().any(|(name, _)| name == "over");
        report.scenario == self.scenario
            && (names_over || report.settings["over"].is_null())
            && self.settings.iter().all(has)
    }
}

fn list(names: &str) -> Vec<String> {
    let names = names.split(',').map(|name| name.trim().to_owned());
    names.collect()
}

fn percentiles(names: &str) -> Result<Vec<String>, String> {
    let wanted = list(names);
    let unknown = |name: &&String| percentile_names().all(|known| known != name.as_str());
    if let Some(name) = wanted.iter().find(unknown) {
        let known: Vec<_> = percentile_names().collect();
        return Err(format!("latencies={name}: there are {}", known.join(", ")));
    }
    Ok(wanted)
}

/// Words separated by spaces, with quotes around those that contain spaces.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn block(marker: &Marker, reports: &[BenchReport]) -> Result<String, String> {
    let mut fitting = reports.iter().filter(|report| marker.fits(report));
    let report = fitting
        .next_back()
        .ok_or_else(|| format!("no result of {} {:?}", marker.scenario, marker.settings))?;
    let shown = Columns {
        figures: marker.figures.clone(),
        percentiles: marker.percentiles.clone(),
    };
    let mut text = markdown_table(report, &shown);
    // Writing to a String cannot fail.
    let _ = write!(text, "\n*{}", provenance(report));
    let warnings = report.targets.iter().flat_map(|target| &target.runs);
    let doubtful = warnings
        .clone()
        .filter(|run| !run.warnings.is_empty())
        .count();
    if doubtful > 0 {
        let _ = write!(
            text,
            " {doubtful} of {} runs with warnings.",
            warnings.count()
        );
    }
    text.push_str("*\n");
    Ok(text)
}

fn provenance(report: &BenchReport) -> String {
    let machine = &report.machine;
    let runs = report
        .targets
        .iter()
        .map(|target| {
            // In a sweep each value has the same number.
            let same = |run: &&RunOutcome| run.parameters == target.runs[0].parameters;
            target.runs.iter().filter(same).count()
        })
        .max()
        .unwrap_or(0);
    let versions = report
        .targets
        .iter()
        .filter_map(|target| Some(format!(" {}.", target.version.as_ref()?)));
    let spread = match runs {
        1 => "One run.".to_owned(),
        _ => format!("Medians of {runs}, smallest and largest in brackets."),
    };
    let commit = report.commit.as_deref().unwrap_or("unknown");
    let load = report.targets.iter().flat_map(|target| &target.runs);
    let load = load.map(|run| run.noise.load_average).fold(0.0, f64::max);
    format!(
        "{spread}{} {} × {}, load average up to {}. Commit {}.",
        versions.collect::<String>(),
        machine.processors,
        machine.processor,
        number(load),
        commit.chars().take(12).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TargetReport;

    fn report(setting: u64, rate: f64) -> BenchReport {
        let mut run = RunOutcome::default();
        run.higher("rate", rate, "/s");
        run.lower("lost", 0.0, "");
        BenchReport {
            targets: vec![TargetReport {
                name: "ours".into(),
                runs: vec![run],
                ..TargetReport::default()
            }],
            ..BenchReport::begin("fanout", serde_json::json!({ "setting": setting }))
        }
    }

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let text = "Why.\n\n<!-- bench: fanout setting=2 figures=\"rate\" -->\nold\n\
            <!-- bench end -->\n\nMore.\n";
        let reports = [report(2, 10.0), report(2, 25.5), report(1, 99.0)];
        let new = renewed(text, &reports).expect("renewed");
        assert!(
            new.starts_with("Why.\n\n<!-- bench: fanout setting=2"),
            "{new}"
        );
        assert!(new.ends_with("<!-- bench end -->\n\nMore.\n"), "{new}");
        assert!(new.contains("| rate, /s | 25.50 |"), "{new}");
        assert!(!new.contains("old") && !new.contains("lost"), "{new}");
        assert_eq!(renewed(&new, &reports).expect("renewed"), new);
    }

    #[test]
    fn a_marker_without_a_protocol_takes_the_usual_one() {
        let mut over_ws = report(2, 77.0);
        over_ws.settings["over"] = "ws".into();
        let reports = [report(2, 25.5), over_ws];
        let rate = |marker: &str| {
            let text = format!("<!-- bench: fanout {marker} -->\n<!-- bench end -->\n");
            renewed(&text, &reports).expect("renewed")
        };
        assert!(rate("setting=2").contains("| rate, /s | 25.50 |"));
        assert!(rate("setting=2 over=ws").contains("| rate, /s | 77 |"));
    }

    #[test]
    fn mistakes_in_markers_are_reported() {
        for (text, part) in [
            ("<!-- bench: web -->\n<!-- bench end -->", "no result"),
            ("<!-- bench: fanout -->\n", "no end"),
            (
                "<!-- bench: fanout nonsense -->\n<!-- bench end -->",
                "nonsense",
            ),
            (
                "<!-- bench: fanout latencies=p98 -->\n<!-- bench end -->",
                "there are p50, p99",
            ),
        ] {
            let error = renewed(text, &[report(1, 1.0)]).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
