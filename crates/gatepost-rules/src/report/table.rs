//! The table of hits: `_SUMMARY_` of a report, and `_REPORT_` of a header field.

use std::fmt::Write as _;

use super::wrap::{FoldingPoint, LineLayout};
use super::{Hit, Report};

/// The indent of descriptions in the table of a text.
const DESCRIPTION_INDENT: &str = "                            ";
/// The continuation of a line in the table of a header field.
const FIELD_INDENT: &str = "*      ";
/// The longest note below a description; a longer one is aligned to the right.
const NOTE_LENGTH_MAX: usize = 47;
/// The lengths between which a long note is broken at a blank.
const NOTE_BREAK: std::ops::RangeInclusive<usize> = 30..=48;

/// The table for a text.
pub(super) fn summary(report: &Report) -> String {
    let mut table = String::new();
    for hit in &report.hits {
        let points = points(hit.score);
        let Hit { name, area, .. } = hit;
        let before = 3 + name.len() + points.len() + area.len();
        let text = description(report, hit, before, DESCRIPTION_INDENT);
        let _ = writeln!(table, "{points} {name:<22} {area}{text}");
        for note in notes(report, hit) {
            let note = format!("[{note}]");
            let _ = if note.len() > NOTE_LENGTH_MAX + 2 {
                writeln!(table, "{note:>78}")
            } else {
                writeln!(table, "{DESCRIPTION_INDENT}{note}")
            };
        }
    }
    table
}

/// The table for a header field.
pub(super) fn terse(report: &Report) -> String {
    let mut table = String::new();
    for hit in &report.hits {
        let points = points(hit.score);
        let Hit { name, area, .. } = hit;
        let before = 4 + name.len() + points.len() + area.len();
        let text = description(report, hit, before, FIELD_INDENT);
        let _ = writeln!(table, "* {points} {name} {area}{text}");
        let mut indent = FIELD_INDENT;
        for note in notes(report, hit) {
            let _ = writeln!(table, "{indent}[{note}]");
            indent = "";
        }
    }
    table
}

/// A description, folded as if this many columns preceded it.
fn description(report: &Report, hit: &Hit, before: usize, indent: &str) -> String {
    let lines = LineLayout {
        first: &" ".repeat(before),
        indent,
        length_max: report.options.wrap_width,
        overflows: false,
    };
    let folded = lines.fold(&hit.description, FoldingPoint::AtBlanks);
    folded.trim_start().to_owned()
}

/// The texts of rules about their hits, in pieces that fit.
fn notes<'r>(report: &'r Report, hit: &Hit) -> Vec<&'r str> {
    let mut pieces = Vec::new();
    for (_, note) in report.notes.iter().filter(|(name, _)| *name == hit.name) {
        let mut rest = note.as_str();
        let is_break = |(at, character): &(usize, char)| {
            NOTE_BREAK.contains(at) && character.is_ascii_whitespace()
        };
        while let Some((at, _)) = rest.char_indices().rfind(is_break) {
            let (piece, after) = rest.split_at(at);
            pieces.push(piece);
            rest = after.get(1..).unwrap_or_default();
        }
        pieces.push(rest);
    }
    pieces
}

/// A score in four columns.
fn points(score: f64) -> String {
    if score.abs() >= 10.0 {
        format!("{score:4.0}")
    } else {
        format!("{score:4.1}")
    }
}
