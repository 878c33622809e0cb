//! One message's result as a table line, a line of JSON, the report, or the message with its header
//! fields.

use std::io::{self, Write};

use gatepost_rules::Report;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::ScanFormat;
use super::work::ScannedMessage;

/// A line of JSON. Its field names are a stable interface.
#[derive(serde::Serialize)]
struct ScanRecord<'r> {
    path: &'r str,
    score: f64,
    required: f64,
    spam: bool,
    hits: Hits<'r>,
    /// Rules that reached their own limit or the message's time limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limited: Vec<&'r str>,
    /// The limits that prevented a complete judgement: time, steps, size.
    #[serde(skip_serializing_if = "String::is_empty")]
    given_up: String,
}

/// The hits as an object from name to score, sorted by name.
struct Hits<'r>(&'r Report);

impl Serialize for Hits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut hits: Vec<_> = self
            .0
            .hits
            .iter()
            .map(|hit| (&*hit.name, hit.score))
            .collect();
        hits.sort_by_key(|(name, _)| *name);
        let mut map = serializer.serialize_map(Some(hits.len()))?;
        for (name, score) in hits {
            map.serialize_entry(name, &score)?;
        }
        map.end()
    }
}

pub(super) fn print(
    out: &mut impl Write,
    format: ScanFormat,
    judged: &ScannedMessage,
    report: &Report,
) -> io::Result<()> {
    let name = &judged.name;
    match format {
        ScanFormat::Jsonl => {
            let line = ScanRecord {
                path: name,
                score: report.score,
                required: report.required,
                spam: report.is_spam(),
                hits: Hits(report),
                limited: report.limited.iter().map(AsRef::as_ref).collect(),
                given_up: report.given_up.to_string(),
            };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)
        }
        ScanFormat::Table => {
            let verdict = if report.is_spam() { "spam" } else { "ok" };
            let Report {
                score, required, ..
            } = report;
            writeln!(
                out,
                "{verdict:4} {score:6.1}/{required:.1}  {name}  {}",
                report.symbols()
            )
        }
        ScanFormat::Report => write!(out, "{name}\n\n{}", report.text()),
        ScanFormat::Message => out.write_all(&judged.message),
        ScanFormat::MessageAndReport => {
            out.write_all(&judged.message)?;
            write!(out, "{}", report.text())
        }
    }
}
