//! The table on the terminal: medians with their spread, the original's headline, the ratio, and
//! the share of this machine's floor.

use std::fmt::Write as _;

use super::BenchReport;
use super::digits::number;
use super::view::{self, Column, columns, curves, figure_names, growth_words, latency_names};
use super::winner::winner_lines;
use crate::latency::LatencySummary;
use crate::outcome::{Better, RunOutcome};
use crate::progress::RunProgress;

/// The minimum width of a target's column.
const COLUMN: usize = 26;
/// The maximum number of adjacent columns; those of a sweep are below each other.
const COLUMNS_MAX: usize = 4;

/// Prints the result of one run: the original's own lines, and warnings.
pub fn print_run(
    progress: &RunProgress,
    scenario: &str,
    target: &str,
    run: usize,
    outcome: &RunOutcome,
) {
    let mut head = format!("-- {scenario}: {target}, run {}", run + 1);
    for (name, value) in &outcome.parameters {
        // Writing to a String cannot fail.
        let _ = write!(head, ", {name} {}", number(*value));
    }
    progress.line(&head);
    for line in &outcome.original {
        progress.line(line);
    }
    for warning in &outcome.warnings {
        progress.line(&format!("warning: {warning}"));
    }
}

/// Prints the whole series.
pub fn print_report(report: &BenchReport) {
    print!("{}", render(report));
}

fn render(report: &BenchReport) -> String {
    let mut text = String::new();
    let columns = columns(report);
    // Writing to a String cannot fail.
    let _ = if columns.len() > COLUMNS_MAX {
        write_sweep(report, &columns, &mut text)
    } else {
        write_table(report, &columns, &mut text)
    };
    let _ = write_latencies(report, &columns, &mut text);
    let _ = write_floor(report, &columns, &mut text);
    let curves = curves(report);
    let judged = curves
        .iter()
        .filter(|curve| curve.figure.better != Better::Neither);
    for words in judged.filter_map(growth_words) {
        let _ = writeln!(text, "{words}");
    }
    let winner = winner_lines(report, &columns);
    for line in &winner {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    for note in view::notes(report) {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn write_table(
    report: &BenchReport,
    columns: &[Column<'_>],
    text: &mut String,
) -> std::fmt::Result {
    let names = figure_names(report);
    let widths = names
        .iter()
        .map(|figure| figure.label().chars().count() + 2);
    let name_width = widths.max().unwrap_or(0).max(20);
    let scenario = report.scenario.to_uppercase();
    write!(text, "\n{scenario:<name_width$}")?;
    let has_originals = !report.headlines.is_empty();
    if has_originals {
        write!(text, "{:>14}", "original")?;
    }
    for column in columns {
        write!(text, "{:>COLUMN$}", shortened(&column.label()))?;
    }
    writeln!(
        text,
        "{}",
        if columns.len() == 2 { "     ratio" } else { "" }
    )?;
    for figure in names {
        write!(text, "{:<name_width$}", figure.label())?;
        if has_originals {
            let mut headlines = report.headlines.iter();
            let headline = headlines.find(|headline| headline.figure == figure.name);
            let headline = headline.map_or(String::new(), |headline| number(headline.value));
            write!(text, "{headline:>14}")?;
        }
        let spreads: Vec<_> = columns
            .iter()
            .map(|column| column.spread(&figure.name))
            .collect();
        for spread in &spreads {
            let cell = figure.cell(spread.as_ref());
            write!(text, "{cell:>COLUMN$}")?;
        }
        if let [Some(first), Some(second)] = spreads.as_slice()
            && first.median > 0.0
        {
            write!(text, "{:>10.3}", second.median / first.median)?;
        }
        text.push('\n');
    }
    Ok(())
}

/// A line for each value, a block for each figure.
fn write_sweep(
    report: &BenchReport,
    columns: &[Column<'_>],
    text: &mut String,
) -> std::fmt::Result {
    for figure in figure_names(report) {
        writeln!(
            text,
            "\n{}: {}",
            report.scenario.to_uppercase(),
            figure.label()
        )?;
        for column in columns {
            if let Some(spread) = column.spread(&figure.name) {
                let cell = figure.cell(Some(&spread));
                writeln!(text, "  {:<44}{cell:>COLUMN$}", column.label())?;
            }
        }
    }
    Ok(())
}

fn write_latencies(
    report: &BenchReport,
    columns: &[Column<'_>],
    text: &mut String,
) -> std::fmt::Result {
    let names = latency_names(report);
    if names.is_empty() {
        return Ok(());
    }
    write!(text, "\n{:<28}{:<22}", "latency (all runs)", "")?;
    for name in LatencySummary::percentile_names() {
        write!(text, "{name:>11}")?;
    }
    text.push('\n');
    for column in columns {
        for name in &names {
            let latency = column.latency(name);
            if latency.is_empty() {
                continue;
            }
            write!(text, "{:<28}{name:<22}", shortened(&column.label()))?;
            for part in LatencySummary::percentile_names() {
                write!(text, "{:>11}", latency.cell(part))?;
            }
            text.push('\n');
        }
    }
    Ok(())
}

/// Writes the ratio of the figures to the lower bounds of this machine.
fn write_floor(
    report: &BenchReport,
    columns: &[Column<'_>],
    text: &mut String,
) -> std::fmt::Result {
    text.push('\n');
    for floor in &report.floors {
        let Some(least) = report.floor_us(&floor.figure) else {
            continue;
        };
        for column in columns {
            let Some(spread) = column
                .spread(&floor.figure)
                .filter(|spread| spread.median > 0.0)
            else {
                continue;
            };
            writeln!(
                text,
                "{}: {} µs; this machine's floor is {} µs ({}): {:.0} %",
                column.label(),
                format_args!("{} {}", floor.figure, number(spread.median)),
                number(least),
                floor.operations.join(" + "),
                100.0 * least / spread.median
            )?;
        }
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = COLUMN - 2;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let start: String = name.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::super::view::tests_swept;
    use super::*;

    #[test]
    fn a_sweep_tells_its_values_and_its_law() {
        let text = render(&tests_swept());
        assert!(text.contains("users^1.00"), "{text}");
        assert!(text.contains("7000"), "{text}");
    }
}
