//! The schema in the repository matches the written reports: every field that is written is
//! described, and every required field is written.

use gatepost_bench::latency::Latencies;
use gatepost_bench::outcome::{Better, Figure, Headline, NamedLatencies, RunOutcome};
use gatepost_bench::process::ProcessRecord;
use gatepost_bench::report::{BenchReport, FigureFloor, FloorFigure, TargetReport};
use serde_json::Value;

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(reference) = schema["$ref"].as_str() else {
        return schema;
    };
    root.pointer(reference.trim_start_matches('#'))
        .expect("a definition")
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str) {
    let schema = resolved(root, schema);
    if let Some(choices) = schema["anyOf"].as_array() {
        if !value.is_null() {
            check(root, &choices[0], value, place);
        }
    } else if schema["additionalProperties"].is_object() {
        let of_each = &schema["additionalProperties"];
        for (name, field) in value.as_object().expect("an object") {
            check(root, of_each, field, &format!("{place}.{name}"));
        }
    } else if let Some(properties) = schema["properties"].as_object() {
        let fields = value
            .as_object()
            .unwrap_or_else(|| panic!("{place} is an object"));
        for (name, field) in fields {
            let property = properties.get(name);
            let property = property.unwrap_or_else(|| panic!("{place}.{name} is not described"));
            check(root, property, field, &format!("{place}.{name}"));
        }
        for name in schema["required"].as_array().expect("a list") {
            let name = name.as_str().expect("a name");
            assert!(fields.contains_key(name), "{place}.{name} is required");
        }
    } else if let Some(items) = value.as_array() {
        for (at, item) in items.iter().enumerate() {
            let of_item = schema["items"].get("type").or(schema["items"].get("$ref"));
            assert!(
                of_item.is_some() || schema["prefixItems"].is_array(),
                "{place}: no items"
            );
            let item_schema = match schema["prefixItems"].as_array() {
                Some(prefix) => &prefix[at],
                None => &schema["items"],
            };
            check(root, item_schema, item, &format!("{place}[{at}]"));
        }
    }
}

#[test]
fn a_full_report_conforms_to_the_schema() {
    let mut latencies = Latencies::default();
    latencies.record(1_000);
    let record = ProcessRecord {
        cpu_percent_by_second: vec![1.0],
        resident_bytes_by_second: vec![1],
        ..ProcessRecord::default()
    };
    let figure = Figure {
        name: "rate".into(),
        value: 1.0,
        unit: "/s".into(),
        better: Better::Higher,
    };
    let run = RunOutcome {
        figures: vec![figure],
        parameters: [("users".to_owned(), 5.0)].into(),
        latencies: vec![NamedLatencies {
            name: "call".into(),
            summary: latencies.summary(),
            buckets_ns: latencies.buckets(),
        }],
        counts_by_second: vec![1],
        server: Some(record),
        original: vec!["line".into()],
        warnings: vec!["noise".into()],
        ..RunOutcome::default()
    };
    let headline = Headline {
        figure: "rate".into(),
        value: 1.0,
        source: "someone".into(),
    };
    let report = BenchReport {
        headlines: vec![headline],
        targets: vec![TargetReport {
            name: "a".into(),
            version: None,
            offer: "http://a".into(),
            configuration: [("a.conf".to_owned(), "x".to_owned())].into(),
            runs: vec![run],
        }],
        floor: vec![FloorFigure {
            operation: "send".into(),
            nanoseconds: 1.0,
        }],
        floors: vec![FigureFloor {
            figure: "rate".into(),
            operations: vec!["send".into()],
        }],
        ..BenchReport::begin("web", Value::Null)
    };
    let schema: Value =
        serde_json::from_str(include_str!("../schema/report-2.json")).expect("JSON");
    assert_eq!(schema["title"], BenchReport::SCHEMA);
    check(
        &schema,
        &schema,
        &serde_json::to_value(&report).expect("JSON"),
        "report",
    );
}

/// A report of the first version, exactly as it was written.
#[test]
fn a_report_of_version_1_is_still_read() {
    let text = include_str!("data/report-1.json");
    let schema: Value =
        serde_json::from_str(include_str!("../schema/report-1.json")).expect("JSON");
    let stored: Value = serde_json::from_str(text).expect("JSON");
    check(&schema, &schema, &stored, "report");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report-1.json");
    std::fs::write(&path, text).expect("written");
    let report = BenchReport::read(&path).expect("read");
    assert_eq!(report.schema, BenchReport::SCHEMA);
    let run = &report.targets[0].runs[0];
    let (latency, then) = (
        &run.latencies[0],
        &stored["targets"][0]["runs"][0]["latencies"][0],
    );
    assert_eq!(
        (latency.name.as_str(), then[0].as_str()),
        ("delivery", Some("delivery"))
    );
    assert_eq!(Some(latency.summary.p99_us), then[1]["p99_us"].as_f64());
    assert_eq!(run.value("lost"), Some(0.0));
    // A version newer than this program.
    std::fs::write(&path, text.replace("gatepost-bench/1", "gatepost-bench/9")).expect("written");
    let error = BenchReport::read(&path)
        .expect_err("from the future")
        .to_string();
    assert!(error.contains("gatepost-bench/9"), "{error}");
}
