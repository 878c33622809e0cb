//! `compare`: whether there is a difference, and its size with what certainty.
//!
//! Prints what ministat prints (plot, table, Student's t), which readers of the original SCAN
//! benchmark know. In addition it prints what ministat omits: Welch's t for unequal variances, a
//! rank test for values that are not normally distributed, an interval for the ratio, and a
//! correction for multiple comparisons.

mod general;
mod plot;
mod sets;

pub use sets::{NamedSample, load};

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::bounds;
use crate::error::BenchError;
use crate::statistics::{
    Confidence, SortedSample, mann_whitney, ratio_interval, student, values_needed, welch,
};
use general::general;

/// The marks of the sets, as in ministat.
const MARKS: [char; 7] = ['x', '+', '*', '%', '#', '@', 'O'];
/// Fewer values than these are not meaningful, whatever the test.
const VALUES_ENOUGH: usize = 5;
/// The smallest difference that matters to most readers.
const SHARE_OF_INTEREST: f64 = 0.05;

/// Settings of `compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct CompareArguments {
    /// Stored results (JSON) or files of columns; each target or file is a set
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The figure of stored results to compare [default: the scenario's first]
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Confidence: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "PERCENT", default_value_t = 95.0)]
    confidence: f64,
    /// The column of column files, from 1
    #[arg(short = 'C', long, value_name = "N", default_value_t = 1, value_parser = bounds::count)]
    column: usize,
    /// Characters that separate columns
    #[arg(short, long, default_value = " \t,")]
    delimiters: String,
    /// Width of the plot
    #[arg(short, long, default_value_t = 74, value_parser = bounds::width)]
    width: usize,
    /// A separate line for each set's bar
    #[arg(short, long)]
    separate_bars: bool,
    /// Print only the table
    #[arg(short, long)]
    numbers: bool,
}

/// Compares the sets and returns the text.
pub fn compare(arguments: &CompareArguments) -> Result<String, BenchError> {
    let confidence = Confidence::of_percent(arguments.confidence).ok_or_else(|| {
        BenchError::Settings("--confidence is 80, 90, 95, 98, 99 or 99.5".to_owned())
    })?;
    let figure = arguments.figure.as_deref();
    let sets = load(
        &arguments.files,
        figure,
        arguments.column,
        &arguments.delimiters,
    )?;
    if sets.len() > MARKS.len() {
        let most = MARKS.len();
        return Err(BenchError::Settings(format!(
            "at most {most} sets can be compared"
        )));
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&sets, arguments, confidence, &mut text);
    Ok(text)
}

fn write_all(
    sets: &[NamedSample],
    arguments: &CompareArguments,
    confidence: Confidence,
    text: &mut String,
) -> std::fmt::Result {
    for (set, mark) in sets.iter().zip(MARKS) {
        writeln!(text, "{mark} {}", set.name)?;
    }
    if !arguments.numbers {
        let samples: Vec<&SortedSample> = sets.iter().map(|set| &set.sample).collect();
        text.push_str(&plot::plot(
            &samples,
            arguments.width,
            arguments.separate_bars,
        ));
    }
    writeln!(
        text,
        "    N           Min           Max        Median           Avg        Stddev"
    )?;
    for (at, (set, mark)) in sets.iter().zip(MARKS).enumerate() {
        write_figures(mark, &set.sample, text)?;
        if at > 0 && !arguments.numbers {
            write_student(&sets[0].sample, &set.sample, confidence, text)?;
        }
    }
    if arguments.numbers || sets.len() < 2 {
        return Ok(());
    }
    // Each of several comparisons may err, so each needs a higher confidence for all of them
    // together to have the requested one.
    let comparisons = sets.len() - 1;
    writeln!(text)?;
    for set in &sets[1..] {
        write_words(&sets[0], set, confidence, comparisons, text)?;
    }
    if comparisons > 1 {
        writeln!(
            text,
            "{comparisons} comparisons: each probability was multiplied by {comparisons} \
             (Bonferroni)."
        )?;
    }
    Ok(())
}

fn write_figures(mark: char, sample: &SortedSample, text: &mut String) -> std::fmt::Result {
    write!(text, "{mark} {:3}", sample.count())?;
    for value in [
        sample.minimum(),
        sample.maximum(),
        sample.median(),
        sample.mean(),
        sample.deviation(),
    ] {
        write!(text, " {:>13}", general(value, 8))?;
    }
    writeln!(text)
}

fn write_student(
    first: &SortedSample,
    second: &SortedSample,
    confidence: Confidence,
    text: &mut String,
) -> std::fmt::Result {
    let test = student(first, second, confidence);
    let percent = confidence.percent;
    if !test.is_proven() {
        return writeln!(text, "No difference proven at {percent:.1}% confidence");
    }
    let share = |value: f64| general(value * 100.0 / first.mean(), 6);
    writeln!(text, "Difference at {percent:.1}% confidence")?;
    writeln!(
        text,
        "\t{} +/- {}",
        general(test.difference, 6),
        general(test.error, 6)
    )?;
    writeln!(
        text,
        "\t{}% +/- {}%",
        share(test.difference),
        share(test.error)
    )?;
    writeln!(
        text,
        "\t(Student's t, pooled s = {})",
        general(test.pooled_deviation, 6)
    )
}

/// Writes the combined result of the tests in words.
fn write_words(
    first: &NamedSample,
    second: &NamedSample,
    confidence: Confidence,
    comparisons: usize,
    text: &mut String,
) -> std::fmt::Result {
    let (one, other) = (&first.sample, &second.sample);
    let guarded = |probability: f64| (probability * comparisons as f64).min(1.0);
    let by_mean = welch(one, other).map(|test| guarded(test.probability));
    let by_rank = guarded(mann_whitney(one, other).probability);
    let limit = 1.0 - confidence.share();
    let percent = confidence.percent;
    let proven = |probability: f64| probability < limit;
    let ratio = other.mean() / one.mean();
    match by_mean {
        Some(by_mean) if proven(by_mean) || proven(by_rank) => {
            write!(text, "{} is {ratio:.3} times {}", second.name, first.name)?;
            let certainty = 1.0 - limit / comparisons as f64;
            if let Some((low, high)) = ratio_interval(one, other, certainty) {
                write!(text, " ({low:.3} to {high:.3} at {percent} %)")?;
            }
            writeln!(text, ".")?;
        }
        Some(_) => {
            let needed = values_needed(one, other, SHARE_OF_INTEREST, confidence.share());
            writeln!(
                text,
                "No difference shown between {} and {}; {needed} runs of each would be needed to \
                 see 5 %.",
                first.name, second.name
            )?;
        }
        None if one.median().total_cmp(&other.median()).is_ne() => writeln!(
            text,
            "{} is {ratio:.3} times {}; neither of them varies.",
            second.name, first.name
        )?,
        None => writeln!(text, "{} and {} do not vary.", first.name, second.name)?,
    }
    let by_mean_text = by_mean.map_or("-".to_owned(), |p| general(p, 3));
    writeln!(
        text,
        "  Welch's t: p = {by_mean_text}; Mann-Whitney: p = {}",
        general(by_rank, 3)
    )?;
    if by_mean.is_some_and(|by_mean| proven(by_mean) != proven(by_rank)) {
        writeln!(
            text,
            "  The two tests disagree: check the plot for outliers, or make more runs."
        )?;
    }
    let fewest = one.count().min(other.count());
    if fewest < VALUES_ENOUGH {
        writeln!(
            text,
            "  Only {fewest} values: make at least {VALUES_ENOUGH} runs of each."
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The example of ministat's manual page.
    const IGUANA: &str = "50\n200\n150\n400\n750\n400\n150\n";
    const CHAMELEON: &str = "150\n400\n720\n500\n930\n";

    fn compared(confidence: f64, texts: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let files = texts.iter().map(|(name, content)| {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("written");
            path
        });
        let arguments = CompareArguments {
            files: files.collect(),
            figure: None,
            confidence,
            column: 1,
            delimiters: " \t".into(),
            width: 60,
            separate_bars: true,
            numbers: false,
        };
        compare(&arguments).expect("compared")
    }

    #[test]
    fn the_output_is_that_of_ministats_manual() {
        let text = compared(95.0, &[("iguana", IGUANA), ("chameleon", CHAMELEON)]);
        let expected = "\
x iguana
+ chameleon
+------------------------------------------------------------+
|x      *  x            *      +              + x           +|
| |________M______A_______________|                          |
|             |________________M__A___________________|      |
+------------------------------------------------------------+
    N           Min           Max        Median           Avg        Stddev
x   7            50           750           200           300     238.04761
+   5           150           930           500           540     299.08193
No difference proven at 95.0% confidence
";
        // In the manual's example there are two x at 150 and two at 400: they are stacked.
        let without_stack: Vec<&str> = text
            .lines()
            .filter(|line| {
                *line != "|       x               x                                    |"
            })
            .collect();
        let plotted = without_stack[..expected.lines().count()].join("\n") + "\n";
        assert_eq!(plotted, expected, "{text}");
        assert!(
            text.contains("No difference shown between iguana and chameleon"),
            "{text}"
        );
        let text = compared(80.0, &[("iguana", IGUANA), ("chameleon", CHAMELEON)]);
        let expected = "Difference at 80.0% confidence\n\t240 +/- 212.215\n\t80% +/- 70.7384%\n\t\
                        (Student's t, pooled s = 264.159)\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_clear_difference_is_stated_in_words() {
        let (slow, fast) = (
            "100\n101\n99\n100.5\n99.5\n",
            "142\n143\n141\n142.5\n141.5\n",
        );
        let text = compared(99.0, &[("A", slow), ("B", fast)]);
        assert!(text.contains("B is 1.420 times A (1.4"), "{text}");
        assert!(!text.contains("disagree"), "{text}");
    }

    #[test]
    fn values_that_do_not_vary_may_differ() {
        let (one, other) = ("100\n100\n100\n", "200\n200\n200\n");
        let text = compared(95.0, &[("A", one), ("B", other)]);
        assert!(text.contains("B is 2.000 times A; neither"), "{text}");
        let text = compared(95.0, &[("A", one), ("B", one)]);
        assert!(text.contains("A and B do not vary."), "{text}");
    }

    #[test]
    fn many_comparisons_ask_for_more() {
        let values = "100\n101\n99\n100.5\n99.5\n";
        let text = compared(95.0, &[("A", values), ("B", values), ("C", values)]);
        assert!(text.contains("2 comparisons"), "{text}");
        assert_eq!(text.matches("No difference shown").count(), 2, "{text}");
    }
}
