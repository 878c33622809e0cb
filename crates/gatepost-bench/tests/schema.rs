//! The schema in the repository and what is written are the same: every field that is written is
//! described, and every field that is required is written.

use gatepost_bench::latency::Latencies;
use gatepost_bench::outcome::{Better, Figure, Headline, Outcome};
use gatepost_bench::process::ProcessRecord;
use gatepost_bench::report::{Report, TargetReport};
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
fn a_full_report_is_as_the_schema_says() {
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
    let run = Outcome {
        figures: vec![figure],
        latencies: vec![("call".into(), latencies.summary())],
        counts_by_second: vec![1],
        server: Some(record),
        original: vec!["line".into()],
        warnings: vec!["noise".into()],
        ..Outcome::default()
    };
    let headline = Headline {
        figure: "rate".into(),
        value: 1.0,
        source: "someone".into(),
    };
    let report = Report {
        headlines: vec![headline],
        targets: vec![TargetReport {
            name: "a".into(),
            version: None,
            offer: "http://a".into(),
            runs: vec![run],
        }],
        ..Report::begin("web", Value::Null)
    };
    let schema: Value =
        serde_json::from_str(include_str!("../schema/report-1.json")).expect("JSON");
    assert_eq!(schema["title"], Report::SCHEMA);
    check(
        &schema,
        &schema,
        &serde_json::to_value(&report).expect("JSON"),
        "report",
    );
}
