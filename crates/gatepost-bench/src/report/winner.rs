//! The summary of a comparison, as hyperfine prints it: the best target, and by how much.
//!
//! The ratios are those of the table above it, which has medians. A difference that is not larger
//! than its error decides nothing: the next figure is asked, and then there is no winner.

use super::BenchReport;
use super::digits::number;
use super::view::{Column, FigureName, figure_names};
use crate::outcome::Better;
use crate::statistics::SortedSample;

/// With an offered load, all targets that keep up have the same rate, and their costs decide.
const SAME_SHARE: f64 = 0.01;
const COST: &str = "server CPU per ";
const NO_ERROR: &str = "  one run has no error: this may be chance, make more --runs";
const NO_WINNER: &str = "no clear winner: the runs differ as much as the targets";

/// The best target and its ratio to each other one, or that there is none; empty for a single
/// target or a sweep.
pub(super) fn winner_lines(report: &BenchReport, columns: &[Column<'_>]) -> Vec<String> {
    if columns.len() < 2 || columns.iter().any(|column| !column.point.is_empty()) {
        return Vec::new();
    }
    let names = figure_names(report);
    let mut judged = names
        .iter()
        .filter(|figure| figure.better != Better::Neither);
    let (Some(first), cost) = (judged.next(), judged.find(|one| one.name.starts_with(COST))) else {
        return Vec::new();
    };
    let ranked = ranking(first, columns);
    let decides = |ranking: &[Ranked]| {
        let (best, worst) = (ranking.first(), ranking.last());
        best.zip(worst)
            .is_some_and(|(best, worst)| best.is_better_than(worst))
    };
    if decides(&ranked) {
        return described(first, &ranked);
    }
    cost.map(|figure| (figure, ranking(figure, columns)))
        .filter(|(_, ranked)| decides(ranked))
        .map_or_else(
            || vec![NO_WINNER.to_owned()],
            |(figure, ranked)| described(figure, &ranked),
        )
}

/// A target and its values of the deciding figure.
struct Ranked {
    name: String,
    /// The median, in the direction in which more is better.
    goodness: f64,
    /// The standard deviation as a share of the median.
    deviation: f64,
    has_deviation: bool,
}

impl Ranked {
    /// The factor by which this one is better than the other, and the error of that (the deviations
    /// of both, as of a quotient of independent values).
    fn ratio_of(&self, other: &Self) -> (f64, Option<f64>) {
        let ratio = self.goodness / other.goodness;
        let has_error = self.has_deviation && other.has_deviation;
        let error = ratio * self.deviation.hypot(other.deviation);
        (ratio, has_error.then_some(error))
    }

    /// Whether the difference is larger than its error.
    fn is_better_than(&self, other: &Self) -> bool {
        let (ratio, error) = self.ratio_of(other);
        ratio - error.unwrap_or_default() > 1.0 + SAME_SHARE
    }
}

/// The targets that have the figure, the best first. One that is 0 has no ratio.
fn ranking(figure: &FigureName, columns: &[Column<'_>]) -> Vec<Ranked> {
    let ranked = columns.iter().filter_map(|column| {
        let values = column.runs.iter().filter_map(|run| run.value(&figure.name));
        let sample = SortedSample::new(values.collect())?;
        let median = sample.median();
        (median > 0.0).then(|| Ranked {
            name: column.label(),
            goodness: match figure.better {
                Better::Lower => 1.0 / median,
                Better::Higher | Better::Neither => median,
            },
            deviation: sample.variance().sqrt() / median,
            has_deviation: sample.count() > 1,
        })
    });
    let mut ranked: Vec<Ranked> = ranked.collect();
    ranked.sort_by(|a, b| b.goodness.total_cmp(&a.goodness));
    ranked
}

fn described(figure: &FigureName, ranked: &[Ranked]) -> Vec<String> {
    let [best, others @ ..] = ranked else {
        return Vec::new();
    };
    let more = match figure.better {
        Better::Lower => "less",
        Better::Higher | Better::Neither => "more",
    };
    let mut lines = vec![format!("{} had", best.name)];
    for other in others {
        let (ratio, error) = best.ratio_of(other);
        let error = error.map_or(String::new(), |error| format!(" ± {error:.2}"));
        let (figure, name) = (&figure.name, &other.name);
        lines.push(format!(
            "  {}{error} times {more} {figure} than {name}",
            rounded(ratio)
        ));
    }
    if ranked.iter().any(|one| !one.has_deviation) {
        lines.push(NO_ERROR.to_owned());
    }
    lines
}

/// Two decimals, or four digits of a large ratio.
fn rounded(ratio: f64) -> String {
    if ratio < 100.0 {
        format!("{ratio:.2}")
    } else {
        number(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TargetReport;
    use super::super::view::columns;
    use super::*;
    use crate::outcome::RunOutcome;

    fn lines(targets: &[(&str, &[(f64, f64)])]) -> Vec<String> {
        let target = |(name, runs): &(&str, &[(f64, f64)])| TargetReport {
            name: (*name).to_owned(),
            runs: runs
                .iter()
                .map(|&(rate, cost)| {
                    let mut run = RunOutcome::default();
                    run.higher("pages per second", rate, "/s");
                    run.lower("server CPU per page", cost, "µs");
                    run
                })
                .collect(),
            ..TargetReport::default()
        };
        let report = BenchReport {
            targets: targets.iter().map(target).collect(),
            ..BenchReport::begin("web", serde_json::Value::Null)
        };
        winner_lines(&report, &columns(&report))
    }

    #[test]
    fn the_first_figure_decides_if_it_differs() {
        let found = lines(&[
            ("slow", &[(9.0, 1.0), (11.0, 1.0)]),
            ("fast", &[(20.0, 9.0), (20.0, 9.0)]),
        ]);
        assert_eq!(
            found,
            [
                "fast had",
                "  2.00 ± 0.28 times more pages per second than slow"
            ]
        );
    }

    #[test]
    fn costs_decide_under_the_same_load() {
        let found = lines(&[
            ("a", &[(100.0, 3.0)]),
            ("b", &[(100.1, 6.0)]),
            ("c", &[(100.0, 12.0)]),
        ]);
        assert_eq!(
            found,
            [
                "a had",
                "  2.00 times less server CPU per page than b",
                "  4.00 times less server CPU per page than c",
                NO_ERROR
            ]
        );
    }

    #[test]
    fn a_difference_within_its_error_decides_nothing() {
        // By the means, a would be the faster one.
        let a: &[(f64, f64)] = &[(54.0, 25.0), (63.0, 26.0), (270.0, 24.0)];
        let b: &[(f64, f64)] = &[(74.0, 7.0), (99.0, 7.0), (102.0, 8.0)];
        assert_eq!(
            lines(&[("a", a), ("b", b)]),
            [
                "b had",
                "  3.57 ± 0.33 times less server CPU per page than a"
            ]
        );
        let as_cheap: &[(f64, f64)] = &[(74.0, 20.0), (99.0, 25.0), (102.0, 30.0)];
        assert_eq!(lines(&[("a", a), ("b", as_cheap)]), [NO_WINNER]);
    }

    #[test]
    fn one_target_and_equal_ones_have_no_winner() {
        assert!(lines(&[("a", &[(100.0, 3.0)])]).is_empty());
        let equal = lines(&[("a", &[(100.0, 3.0)]), ("b", &[(100.0, 3.0)])]);
        assert_eq!(equal, [NO_WINNER]);
    }
}
