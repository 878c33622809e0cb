//! Comma-separated values (RFC 4180): a line for each figure of each run.

use std::fmt::Write as _;

use super::BenchReport;
use super::view::latency_names;
use crate::latency::LatencySummary;

const HEAD: &str = "scenario,target,version,run,parameters,figure,value,unit\r\n";

/// All figures and latencies.
pub(super) fn csv(reports: &[BenchReport]) -> String {
    let mut text = HEAD.to_owned();
    for report in reports {
        let names = latency_names(report);
        for target in &report.targets {
            for (number, run) in target.runs.iter().enumerate() {
                let parameters: Vec<String> = run
                    .parameters
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                let front = [
                    report.scenario.clone(),
                    target.name.clone(),
                    target.version.clone().unwrap_or_default(),
                    (number + 1).to_string(),
                    parameters.join(" "),
                ];
                let front: Vec<String> = front.iter().map(|field| quoted(field)).collect();
                let front = front.join(",");
                let mut line = |figure: &str, value: f64, unit: &str| {
                    // Writing to a String cannot fail.
                    let _ = write!(
                        text,
                        "{front},{},{value},{}\r\n",
                        quoted(figure),
                        quoted(unit)
                    );
                };
                for figure in &run.figures {
                    line(&figure.name, figure.value, &figure.unit);
                }
                for name in &names {
                    let Some(latency) = run.latency_of(name) else {
                        continue;
                    };
                    for part in LatencySummary::percentile_names() {
                        let Some(value) = latency.percentile_us(part) else {
                            continue;
                        };
                        let part = if part == "max" { "maximum" } else { part };
                        line(&format!("{name} latency {part}"), value, "µs");
                    }
                }
            }
        }
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests_swept;
    use super::*;

    #[test]
    fn every_figure_of_every_run_has_a_line() {
        let mut report = tests_swept();
        report.targets[0].name = "a, \"quoted\"".into();
        let text = csv(&[report]);
        assert_eq!(text.lines().count(), 1 + 6);
        let line = "idle,\"a, \"\"quoted\"\"\",,2,users=100,memory,700,KB";
        assert!(text.contains(line), "{text}");
    }
}
