//! Markdown: for documents and pull requests.

use std::fmt::Write as _;

use super::BenchReport;
use super::digits::number;
use super::view::{
    self, Column, FigureName, columns, curves, figure_names, growth_words, latency_names,
};
use super::winner::winner_lines;

/// The maximum number of adjacent columns.
const COLUMNS_MAX: usize = 7;

/// The figures that a table shows.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Parts of the figures' names; all figures if empty.
    pub figures: Vec<String>,
    /// The percentiles of latencies, out of [`percentile_names`].
    pub percentiles: Vec<String>,
}

impl Columns {
    fn shows(&self, figure: &str) -> bool {
        self.figures.is_empty()
            || self
                .figures
                .iter()
                .any(|wanted| figure.contains(wanted.as_str()))
    }
}

/// The report as a document.
pub(super) fn markdown(reports: &[BenchReport]) -> String {
    let mut text = String::new();
    let all = Columns {
        percentiles: percentile_names().map(str::to_owned).collect(),
        ..Columns::default()
    };
    for report in reports {
        // Writing to a String cannot fail.
        let _ = write!(text, "## {}\n\n", report.scenario.to_uppercase());
        text.push_str(&markdown_table(report, &all));
        text.push('\n');
        for line in winner_lines(report, &columns(report)) {
            let _ = writeln!(text, "- {}", line.trim());
        }
        for words in curves(report).iter().filter_map(growth_words) {
            let _ = writeln!(text, "- {words}");
        }
        for note in view::notes(report) {
            let _ = writeln!(text, "- {note}");
        }
        for warning in view::warnings(report) {
            let _ = writeln!(text, "- Warning: {warning}");
        }
        text.push('\n');
    }
    text
}

/// The figures as one table: a column for each target, and for the original and the floor if
/// available.
pub fn markdown_table(report: &BenchReport, shown: &Columns) -> String {
    let mut text = String::new();
    let columns = columns(report);
    let names: Vec<_> = figure_names(report)
        .into_iter()
        .filter(|figure| shown.shows(&figure.name))
        .collect();
    let headline_of = |figure: &str| {
        let mut headlines = report.headlines.iter();
        let found = headlines.find(|headline| headline.figure == figure);
        found.map_or(String::new(), |headline| number(headline.value))
    };
    if columns.len() > COLUMNS_MAX {
        return lines_of_columns(&columns, &names);
    }
    let has_headlines = names
        .iter()
        .any(|figure| !headline_of(&figure.name).is_empty());
    let has_floors = names
        .iter()
        .any(|figure| report.floor_us(&figure.name).is_some());
    let mut head = vec![String::new()];
    head.extend(has_headlines.then(|| "original".to_owned()));
    head.extend(columns.iter().map(Column::label));
    head.extend(has_floors.then(|| "floor".to_owned()));
    row(&head, &mut text);
    row(&vec!["---".to_owned(); head.len()], &mut text);
    for figure in &names {
        let mut cells = vec![figure.label()];
        cells.extend(has_headlines.then(|| headline_of(&figure.name)));
        let cell = |column: &Column<'_>| figure.cell(column.spread(&figure.name).as_ref());
        cells.extend(columns.iter().map(cell));
        let floor = || report.floor_us(&figure.name).map_or(String::new(), number);
        cells.extend(has_floors.then(floor));
        row(&cells, &mut text);
    }
    let wanted = |part: &str| shown.percentiles.iter().any(|wanted| wanted == part);
    for name in latency_names(report) {
        let all: Vec<_> = columns.iter().map(|column| column.latency(&name)).collect();
        for part in percentile_names().filter(|part| wanted(part)) {
            let mut cells = vec![format!("{name} latency {part}")];
            cells.extend(has_headlines.then(String::new));
            cells.extend(all.iter().map(|latency| latency.cell(part)));
            cells.extend(has_floors.then(String::new));
            row(&cells, &mut text);
        }
    }
    text
}

/// A sweep: a line for each value, a column for each figure.
fn lines_of_columns(columns: &[Column<'_>], names: &[FigureName]) -> String {
    let mut text = String::new();
    let mut head = vec![String::new()];
    head.extend(names.iter().map(FigureName::label));
    row(&head, &mut text);
    row(&vec!["---".to_owned(); head.len()], &mut text);
    for column in columns {
        let mut cells = vec![column.label()];
        let cell = |figure: &FigureName| figure.cell(column.spread(&figure.name).as_ref());
        cells.extend(names.iter().map(cell));
        row(&cells, &mut text);
    }
    text
}

/// The percentiles out of those of `LatencySummary` for which tables have a line.
const PERCENTILES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// The percentiles of latencies that tables can show.
pub(crate) fn percentile_names() -> impl Iterator<Item = &'static str> {
    PERCENTILES.into_iter()
}

fn row(cells: &[String], text: &mut String) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::super::view::tests_swept;
    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_value() {
        let text = markdown(&[tests_swept()]);
        assert!(text.contains("| memory, KB | 70 | 700 | 7000 |"), "{text}");
        assert!(text.contains("users^1.00"), "{text}");
        let only = Columns {
            figures: vec!["nothing".into()],
            percentiles: Vec::new(),
        };
        assert_eq!(markdown_table(&tests_swept(), &only).lines().count(), 2);
    }
}
