//! The tiles at the head of the page: the figures that matter most, with their units.

use std::fmt::Write as _;

use super::BenchReport;
use super::chart::escaped;
use super::view::{Column, FigureName, figure_names};
use crate::outcome::{Better, Headline};

/// The maximum number of tiles where no published figures determine them.
const TILES_MAX: usize = 4;

/// Appends a tile for each figure that the original published, with its value, or for the first
/// figures that differ.
pub(super) fn tiles(report: &BenchReport, columns: &[Column<'_>], page: &mut String) {
    let names = figure_names(report);
    let of_figure = |figure: &FigureName| {
        let mut headlines = report.headlines.iter();
        headlines.find(|headline| headline.figure == figure.name)
    };
    page.push_str("<div class=\"cards\">\n");
    if report.headlines.is_empty() {
        let judged = |figure: &&FigureName| figure.better != Better::Neither;
        let shown = names
            .iter()
            .filter(judged)
            .filter(|figure| is_above_0(figure, columns));
        for figure in shown.take(TILES_MAX) {
            tile(figure, None, columns, page);
        }
    } else {
        for figure in &names {
            if let Some(headline) = of_figure(figure) {
                tile(figure, Some(headline), columns, page);
            }
        }
    }
    page.push_str("</div>\n");
}

/// Whether any target has it: counts of failures are mostly 0.
fn is_above_0(figure: &FigureName, columns: &[Column<'_>]) -> bool {
    let mut spreads = columns
        .iter()
        .filter_map(|column| column.spread(&figure.name));
    spreads.any(|spread| spread.largest > 0.0)
}

fn tile(
    figure: &FigureName,
    original: Option<&Headline>,
    columns: &[Column<'_>],
    page: &mut String,
) {
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<div class=\"card\"><h3>{}</h3>",
        escaped(&figure.name)
    );
    let mut line = |name: &str, value: f64| {
        let (name, value) = (escaped(name), escaped(&figure.with_unit(value)));
        let _ = write!(page, "<p><span>{name}</span><b>{value}</b></p>");
    };
    if let Some(original) = original {
        line("original", original.value);
    }
    for column in columns {
        if let Some(spread) = column.spread(&figure.name) {
            line(&column.label(), spread.median);
        }
    }
    if let Some(original) = original {
        let _ = write!(page, "<small>{}</small>", escaped(&original.source));
    }
    page.push_str("</div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::TargetReport;
    use super::super::view::columns;
    use super::*;
    use crate::outcome::RunOutcome;

    #[test]
    fn values_have_their_units_with_and_without_an_original() {
        let mut run = RunOutcome::default();
        run.higher("rate", 12.5, "/s");
        run.lower("lost", 0.0, "");
        run.lower("cost", 2_500.0, "µs");
        let mut report = BenchReport {
            targets: vec![TargetReport {
                name: "ours".into(),
                runs: vec![run],
                ..TargetReport::default()
            }],
            ..BenchReport::begin("web", serde_json::Value::Null)
        };
        let page = |report: &BenchReport| {
            let mut page = String::new();
            tiles(report, &columns(report), &mut page);
            page
        };
        let text = page(&report);
        assert!(
            text.contains("12.50/s") && text.contains("2.500 ms"),
            "{text}"
        );
        assert!(
            !text.contains("lost") && !text.contains("original"),
            "{text}"
        );
        report.headlines = vec![Headline::new("rate", 3.0, "someone, 1998")];
        let text = page(&report);
        assert!(text.contains("3/s") && text.contains("1998"), "{text}");
        assert!(!text.contains("cost"), "{text}");
    }
}
