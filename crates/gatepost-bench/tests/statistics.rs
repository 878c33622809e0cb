//! The statistics compared with SciPy's results for the same values.

use gatepost_bench::statistics::{SortedSample, mann_whitney, student_quantile, welch};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("data/statistics.json")).expect("JSON")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().expect(key)
}

fn sample(reference: &Value, name: &Value) -> SortedSample {
    let values = reference["sets"][name.as_str().expect("a name")]
        .as_array()
        .expect("values");
    SortedSample::new(
        values
            .iter()
            .map(|value| value.as_f64().expect("a number"))
            .collect(),
    )
    .expect("values")
}

fn assert_near(figure: f64, expected: f64, what: &str) {
    let error = (figure - expected).abs() / expected.abs().max(1e-12);
    assert!(error < 1e-8, "{what}: {figure} instead of {expected}");
}

#[test]
fn both_tests_agree_with_the_reference() {
    let reference = reference();
    for pair in reference["pairs"].as_array().expect("pairs") {
        let (first, second) = (
            sample(&reference, &pair["first"]),
            sample(&reference, &pair["second"]),
        );
        let what = format!("{} and {}", pair["first"], pair["second"]);
        let by_mean = welch(&first, &second).expect("they vary");
        assert_near(by_mean.t, number(pair, "welch_t"), &what);
        assert_near(by_mean.degrees, number(pair, "welch_df"), &what);
        assert_near(by_mean.probability, number(pair, "welch_p"), &what);
        let by_rank = mann_whitney(&first, &second);
        assert_near(by_rank.u, number(pair, "mann_whitney_u"), &what);
        assert_near(by_rank.probability, number(pair, "mann_whitney_p"), &what);
    }
}

#[test]
fn quantiles_agree_with_the_reference() {
    for case in reference()["quantiles"].as_array().expect("quantiles") {
        let (degrees, probability) = (number(case, "df"), number(case, "p"));
        let what = format!("{probability} at {degrees}");
        assert_near(
            student_quantile(probability, degrees),
            number(case, "t"),
            &what,
        );
    }
}
