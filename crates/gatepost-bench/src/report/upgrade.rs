//! Reads reports of all earlier versions.
//!
//! Version 1 kept a latency as a pair of name and figures; version 2 keeps an object, with the
//! histogram beside the figures.

use serde_json::Value;

use super::BenchReport;

/// A report of any version, converted to the newest.
pub(super) fn parse(text: &str) -> Result<BenchReport, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let schema = value["schema"].as_str().unwrap_or_default().to_owned();
    match schema.as_str() {
        BenchReport::SCHEMA => {}
        "gatepost-bench/1" => from_1(&mut value),
        "" => return Err("it has no schema, so it is not a report of the bench".into()),
        other => {
            return Err(format!(
                "its schema is {other}; this program knows {}",
                BenchReport::SCHEMA
            ));
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn from_1(report: &mut Value) {
    report["schema"] = BenchReport::SCHEMA.into();
    let runs = report["targets"].as_array_mut().into_iter().flatten();
    for run in runs
        .filter_map(|target| target["runs"].as_array_mut())
        .flatten()
    {
        for latency in run["latencies"].as_array_mut().into_iter().flatten() {
            let (name, mut summary) = (latency[0].take(), latency[1].take());
            summary["name"] = name;
            *latency = summary;
        }
    }
}
