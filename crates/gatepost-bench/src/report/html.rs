//! One self-contained HTML file: headline figures, plots, tables, configurations. It contains no
//! script and no font and loads nothing, so it can be sent by mail and archived.

use std::fmt::Write as _;

use super::BenchReport;
use super::chart::{Axis, Chart, ChartLine, ChartStyle, Scale, escaped};
use super::digits::number;
use super::tiles::tiles;
use super::view::{
    self, Column, Curve, columns, curves, figure_names, growth_words, latency_names,
};
use super::winner::winner_lines;
use crate::latency::{Latencies, LatencySummary};
use crate::outcome::Better;

const STYLE: &str = include_str!("style.css");
/// The maximum number of figures plotted for a comparison, beginning with the scenario's first.
const COMPARED_MAX: usize = 6;

/// The reports as one page.
pub(super) fn html(reports: &[BenchReport]) -> String {
    let titles: Vec<String> = reports
        .iter()
        .map(|report| report.scenario.to_uppercase())
        .collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n",
        escaped(&titles.join(", "))
    );
    for report in reports {
        section(report, &mut page);
    }
    page.push_str("</main></body></html>\n");
    page
}

fn section(report: &BenchReport, page: &mut String) {
    let columns = columns(report);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<section><h1>{}</h1>", report.scenario.to_uppercase());
    let _ = writeln!(page, "<p class=\"settings\">{}</p>", settings(report));
    list(&winner_lines(report, &columns), page);
    tiles(report, &columns, page);
    doubts(report, page);
    page.push_str("<div class=\"charts\">\n");
    for chart in charts(report, &columns) {
        page.push_str(&chart.svg());
    }
    page.push_str("</div>\n");
    let words: Vec<String> = curves(report).iter().filter_map(growth_words).collect();
    list(&words, page);
    table(report, &columns, page);
    latency_table(report, &columns, page);
    list(&view::notes(report), page);
    configurations(report, page);
    page.push_str("</section>\n");
}

fn settings(report: &BenchReport) -> String {
    let Some(settings) = report.settings.as_object() else {
        return String::new();
    };
    let shown = settings.iter().filter(|(_, value)| !value.is_null());
    let one = |(name, value): (&String, &serde_json::Value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!("<span>{} <b>{}</b></span>", escaped(name), escaped(&text))
    };
    shown.map(one).collect::<Vec<_>>().join(" ")
}

fn doubts(report: &BenchReport, page: &mut String) {
    let warnings = view::warnings(report);
    if warnings.is_empty() {
        return;
    }
    page.push_str("<div class=\"doubts\"><h3>Reasons to mistrust these figures</h3>");
    list(&warnings, page);
    page.push_str("</div>\n");
}

fn list(lines: &[String], page: &mut String) {
    if lines.is_empty() {
        return;
    }
    page.push_str("<ul>");
    for line in lines {
        // Writing to a String cannot fail.
        let _ = write!(page, "<li>{}</li>", escaped(line));
    }
    page.push_str(
        "</ul>
",
    );
}

fn charts(report: &BenchReport, columns: &[Column<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    let curves = curves(report);
    if curves.is_empty() {
        charts.extend(comparisons(report, columns));
    } else {
        charts.extend(growths(&curves));
    }
    charts.extend(percentiles(report, columns));
    charts.push(over_time(
        "throughput over time",
        "per second",
        columns,
        |run| {
            run.counts_by_second
                .iter()
                .map(|&count| count as f64)
                .collect()
        },
    ));
    charts.push(over_time(
        "server CPU",
        "% of a processor",
        columns,
        |run| {
            run.server
                .as_ref()
                .map(|one| one.cpu_percent_by_second.clone())
                .unwrap_or_default()
        },
    ));
    charts.push(over_time("server memory", "MB", columns, |run| {
        let bytes = run
            .server
            .as_ref()
            .map(|one| one.resident_bytes_by_second.as_slice());
        bytes
            .unwrap_or_default()
            .iter()
            .map(|&bytes| bytes as f64 / 1e6)
            .collect()
    }));
    charts.push(over_time(
        "generator CPU",
        "% of a processor",
        columns,
        |run| run.generator.cpu_percent_by_second.clone(),
    ));
    charts
}

/// Each run as a mark, each target's median as a bar.
fn comparisons(report: &BenchReport, columns: &[Column<'_>]) -> Vec<Chart> {
    let names = figure_names(report);
    let judged = names
        .iter()
        .filter(|figure| figure.better != Better::Neither);
    // A figure that is the same for all targets, such as 0 lost, is only in the table.
    let varies = |figure: &&view::FigureName| {
        let all = columns
            .iter()
            .filter_map(|column| column.spread(&figure.name));
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), spread| {
            (low.min(spread.smallest), high.max(spread.largest))
        });
        high > 0.0 && high > low
    };
    judged
        .filter(varies)
        .take(COMPARED_MAX)
        .map(|figure| comparison(figure, columns))
        .collect()
}

fn comparison(figure: &view::FigureName, columns: &[Column<'_>]) -> Chart {
    let direction = match figure.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
        Better::Neither => "",
    };
    let mut x = Axis::new(direction, Scale::Linear);
    let mut lines = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let place = at as f64 + 1.0;
        x.ticks.push((place, column.label()));
        let values = column.runs.iter().filter_map(|run| run.value(&figure.name));
        lines.push(ChartLine {
            name: String::new(),
            colour: at,
            points: values.map(|value| (place, value)).collect(),
            style: ChartStyle::Marks,
        });
        if let Some(spread) = column.spread(&figure.name) {
            lines.push(ChartLine {
                name: String::new(),
                colour: at,
                points: vec![(place, spread.median)],
                style: ChartStyle::Bar,
            });
        }
    }
    // Margins before the first and after the last.
    x.ticks.insert(0, (0.4, String::new()));
    x.ticks.push((columns.len() as f64 + 0.8, String::new()));
    Chart {
        title: figure.name.clone(),
        x,
        y: Axis::new(figure.unit.clone(), Scale::Linear),
        lines,
    }
}

/// One plot for each figure with a direction, with the fitted laws.
fn growths(curves: &[Curve]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for curve in curves
        .iter()
        .filter(|curve| curve.figure.better != Better::Neither)
    {
        if curve.points.iter().all(|(_, value)| *value <= 0.0) {
            continue;
        }
        let at = charts
            .iter()
            .position(|chart| chart.title == curve.figure.name);
        let at = at.unwrap_or_else(|| {
            charts.push(Chart {
                title: curve.figure.name.clone(),
                x: Axis::new(curve.parameter.clone(), Scale::Logarithmic),
                y: Axis::new(curve.figure.unit.clone(), Scale::Logarithmic),
                lines: Vec::new(),
            });
            charts.len() - 1
        });
        let chart = &mut charts[at];
        let colour = chart
            .lines
            .iter()
            .filter(|line| line.style == ChartStyle::Joined)
            .count();
        let line = |points, style| ChartLine {
            name: curve.target.clone(),
            colour,
            points,
            style,
        };
        chart
            .lines
            .push(line(curve.points.clone(), ChartStyle::Joined));
        if let Some(growth) = curve.growth {
            let law = |&(x, _): &(f64, f64)| (x, growth.factor * x.powf(growth.exponent));
            chart.lines.push(line(
                curve.points.iter().map(law).collect(),
                ChartStyle::Fitted,
            ));
        }
    }
    charts
}

/// Latency against the share of slower operations, down to one in 100,000.
fn percentiles(report: &BenchReport, columns: &[Column<'_>]) -> Vec<Chart> {
    /// Points per factor of ten.
    const STEPS: i32 = 8;
    const DECADES: i32 = 5;
    let curve = |latencies: &Latencies| -> Vec<(f64, f64)> {
        let count = latencies.count() as f64;
        let at = |step: i32| {
            let times = 10_f64.powf(f64::from(step) / f64::from(STEPS));
            // A percentile with less than one sample beyond it is unknown.
            (times <= count).then(|| (times, latencies.quantile_us(1.0 - 1.0 / times)))
        };
        (1..=STEPS * DECADES).filter_map(at).collect()
    };
    let ticks = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];
    let places = [2.0, 10.0, 100.0, 1e3, 1e4, 1e5];
    let chart = |name: &String| {
        let mut x = Axis::new("percentile", Scale::Logarithmic);
        x.ticks = places.into_iter().zip(ticks.map(str::to_owned)).collect();
        let line = |(colour, column): (usize, &Column<'_>)| ChartLine {
            name: column.label(),
            colour,
            points: curve(&column.latencies(name)),
            style: ChartStyle::Joined,
        };
        Chart {
            title: format!("latency: {name}"),
            x,
            y: Axis::new("µs", Scale::Logarithmic),
            lines: columns.iter().enumerate().map(line).collect(),
        }
    };
    latency_names(report).iter().map(chart).collect()
}

fn over_time(
    title: &str,
    unit: &str,
    columns: &[Column<'_>],
    values: impl Fn(&crate::outcome::RunOutcome) -> Vec<f64>,
) -> Chart {
    let mut lines = Vec::new();
    for (colour, column) in columns.iter().enumerate() {
        for run in &column.runs {
            let values = values(run);
            let at = |(second, value): (usize, f64)| (second as f64 + 1.0, value);
            lines.push(ChartLine {
                name: column.label(),
                colour,
                points: values.into_iter().enumerate().map(at).collect(),
                style: ChartStyle::Joined,
            });
        }
    }
    Chart {
        title: title.to_owned(),
        x: Axis::new("second", Scale::Linear),
        y: Axis::new(unit, Scale::Linear),
        lines,
    }
}

fn table(report: &BenchReport, columns: &[Column<'_>], page: &mut String) {
    page.push_str("<div class=\"wide\"><table><thead><tr><th></th>");
    let has_originals = !report.headlines.is_empty();
    if has_originals {
        page.push_str("<th>original</th>");
    }
    for column in columns {
        let _ = write!(page, "<th>{}</th>", escaped(&column.label()));
    }
    page.push_str("<th>floor</th></tr></thead><tbody>\n");
    for figure in figure_names(report) {
        let mut headlines = report.headlines.iter();
        let headline = headlines.find(|headline| headline.figure == figure.name);
        let headline = headline.map_or(String::new(), |headline| number(headline.value));
        let _ = write!(page, "<tr><th>{}</th>", escaped(&figure.label()));
        if has_originals {
            let _ = write!(page, "<td>{headline}</td>");
        }
        let floor = report.floor_us(&figure.name);
        for column in columns {
            let spread = column.spread(&figure.name);
            let cell = figure.cell(spread.as_ref());
            let share = floor.zip(spread).filter(|(_, spread)| spread.median > 0.0);
            let share = share.map_or(String::new(), |(floor, spread)| {
                format!(
                    " <small>floor is {:.0} %</small>",
                    100.0 * floor / spread.median
                )
            });
            let _ = write!(page, "<td>{cell}{share}</td>");
        }
        let floor = floor.map_or(String::new(), number);
        let _ = writeln!(page, "<td>{floor}</td></tr>");
    }
    page.push_str("</tbody></table></div>\n");
}

fn latency_table(report: &BenchReport, columns: &[Column<'_>], page: &mut String) {
    let names = latency_names(report);
    if names.is_empty() {
        return;
    }
    page.push_str("<div class=\"wide\"><table><thead><tr>");
    page.push_str("<th>latency (all runs)</th><th></th>");
    for name in LatencySummary::percentile_names() {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for name in &names {
        for column in columns {
            let all = column.latency(name);
            if all.is_empty() {
                continue;
            }
            let (name, label) = (escaped(name), escaped(&column.label()));
            let _ = write!(page, "<tr><th>{name}</th><td>{label}</td>");
            for part in LatencySummary::percentile_names() {
                let _ = write!(page, "<td>{}</td>", all.cell(part));
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody></table></div>\n");
}

fn configurations(report: &BenchReport, page: &mut String) {
    for target in &report.targets {
        for (name, content) in &target.configuration {
            let _ = writeln!(
                page,
                "<details><summary>{}: {}</summary><pre>{}</pre></details>",
                escaped(&target.name),
                escaped(name),
                escaped(content)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests_swept;
    use super::*;

    #[test]
    fn a_page_needs_nothing_from_elsewhere_and_hides_no_text_in_markup() {
        let mut report = tests_swept();
        report.targets[0].name = "<script>".into();
        report.targets[0]
            .configuration
            .insert("a.conf".into(), "x < y".into());
        let page = html(&[report]);
        for absent in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(absent), "{absent}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("x &lt; y"));
        // The swept figure, with its law.
        assert!(page.contains("fitted"), "{page}");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}
