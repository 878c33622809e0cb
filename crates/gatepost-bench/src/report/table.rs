//! The table on the terminal: medians with their spread, the original's headline, the ratio.

use super::Report;
use crate::outcome::Outcome;
use crate::progress::Progress;
use std::fmt::Write as _;

/// Narrowest column of a target.
const COLUMN: usize = 26;

/// Prints what one run gave: the original's own lines, and what is to be mistrusted.
pub fn print_run(progress: &Progress, scenario: &str, target: &str, run: usize, outcome: &Outcome) {
    progress.line(&format!("-- {scenario}: {target}, run {}", run + 1));
    for line in &outcome.original {
        progress.line(line);
    }
    for warning in &outcome.warnings {
        progress.line(&format!("warning: {warning}"));
    }
}

/// Prints the whole series.
pub fn print_report(report: &Report) {
    print!("{}", render(report));
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(report, &mut text);
    text
}

fn write_table(report: &Report, text: &mut String) -> std::fmt::Result {
    let names = figure_names(report);
    let widths = names.iter().map(|(name, unit)| name.len() + unit.len() + 3);
    let name_width = widths.max().unwrap_or(0).max(20);
    write!(
        text,
        "\n{:<name_width$}{:>14}",
        report.scenario.to_uppercase(),
        "original"
    )?;
    for target in &report.targets {
        write!(text, "{:>COLUMN$}", shortened(&target.name))?;
    }
    writeln!(
        text,
        "{}",
        if report.targets.len() == 2 {
            "     ratio"
        } else {
            ""
        }
    )?;
    for (name, unit) in names {
        let label = if unit.is_empty() {
            name.clone()
        } else {
            format!("{name}, {unit}")
        };
        write!(text, "{label:<name_width$}")?;
        let headline = report
            .headlines
            .iter()
            .find(|headline| headline.figure == name);
        let headline = headline.map_or(String::new(), |headline| number(headline.value));
        write!(text, "{headline:>14}")?;
        let columns: Vec<_> = report
            .targets
            .iter()
            .map(|target| Spread::of(target.values(&name)))
            .collect();
        for column in &columns {
            let cell = column.as_ref().map_or("-".to_owned(), Spread::cell);
            write!(text, "{cell:>COLUMN$}")?;
        }
        if let [Some(first), Some(second)] = columns.as_slice()
            && first.median > 0.0
        {
            write!(text, "{:>10.3}", second.median / first.median)?;
        }
        text.push('\n');
    }
    write_latencies(report, text)?;
    write_notes(report, text)
}

/// Names and units of all figures, in the order of the first run that has them.
fn figure_names(report: &Report) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    let runs = report.targets.iter().flat_map(|target| &target.runs);
    for figure in runs.flat_map(|run| &run.figures) {
        if !names.iter().any(|(name, _)| *name == figure.name) {
            names.push((figure.name.clone(), figure.unit.clone()));
        }
    }
    names
}

fn write_latencies(report: &Report, text: &mut String) -> std::fmt::Result {
    let has_latencies = |run: &Outcome| !run.latencies.is_empty();
    if !report
        .targets
        .iter()
        .flat_map(|target| &target.runs)
        .any(has_latencies)
    {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:<28}{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "latency, µs (last run)", "", "p50", "p90", "p99", "p99.9", "p99.99", "max"
    )?;
    for target in &report.targets {
        let Some(run) = target.runs.last() else {
            continue;
        };
        for (name, latency) in &run.latencies {
            write!(text, "{:<28}{name:<18}", shortened(&target.name))?;
            for value in [
                latency.p50_us,
                latency.p90_us,
                latency.p99_us,
                latency.p99_9_us,
                latency.p99_99_us,
                latency.maximum_us,
            ] {
                write!(text, "{:>10}", number(value))?;
            }
            text.push('\n');
        }
    }
    Ok(())
}

fn write_notes(report: &Report, text: &mut String) -> std::fmt::Result {
    let runs = report
        .targets
        .iter()
        .map(|target| target.runs.len())
        .max()
        .unwrap_or(0);
    writeln!(text)?;
    if runs > 1 {
        writeln!(
            text,
            "Medians of {runs} runs, interleaved, with the smallest and largest."
        )?;
    }
    for target in &report.targets {
        if let Some(version) = &target.version {
            writeln!(text, "{}: {version}", target.name)?;
        }
    }
    let machine = &report.machine;
    writeln!(
        text,
        "{} × {}, Linux {}",
        machine.processors, machine.processor, machine.kernel
    )?;
    if let Some(pinning) = &report.pinning {
        writeln!(text, "Held to processors {pinning}")?;
    }
    let mut sources: Vec<String> = Vec::new();
    for headline in &report.headlines {
        let line = format!(
            "original: {} {} ({})",
            number(headline.value),
            headline.figure,
            headline.source
        );
        if !sources.contains(&line) && sources.len() < 3 {
            sources.push(line);
        }
    }
    for source in sources {
        writeln!(text, "{source}")?;
    }
    if report.interrupted {
        writeln!(text, "Interrupted: these are the figures up to then.")?;
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

/// Median, smallest, largest.
struct Spread {
    median: f64,
    smallest: f64,
    largest: f64,
    count: usize,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (smallest, largest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            median,
            smallest,
            largest,
            count: values.len(),
        })
    }

    fn cell(&self) -> String {
        if self.count == 1 {
            return number(self.median);
        }
        format!(
            "{} [{} {}]",
            number(self.median),
            number(self.smallest),
            number(self.largest)
        )
    }
}

/// Four significant digits, without an exponent; thousands are not parted.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 5,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_medians_with_their_extremes() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0]).expect("values");
        assert_eq!(spread.cell(), "2.500 [1.000 10.00]");
        assert!(Spread::of(vec![]).is_none());
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.034, "0.03400"),
            (29.18, "29.18"),
            (30_000.4, "30000"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
