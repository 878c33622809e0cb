//! Combines token counts into one probability.
//!
//! Gary Robinson's f(w) for each token, and Fisher's method (chi-squared) to combine the strongest
//! of them ("A Statistical Approach to the Spam Problem", Linux Journal 107, 2003). The constants
//! are SpamAssassin's, found by its mass checks.

/// `s` of f(w): the weight of the assumption against the counts.
const ASSUMPTION_STRENGTH: f64 = 0.030;
/// `x` of f(w): the probability of a token never seen.
const ASSUMED_PROBABILITY: f64 = 0.538;
/// Tokens nearer to one half than this are not significant.
const STRENGTH_MIN: f64 = 0.346;
/// The number of tokens, strongest first, that decide.
const SIGNIFICANT_TOKENS_MAX: usize = 150;
/// A product smaller than this is converted to mantissa and exponent, before it underflows.
const SMALL_PRODUCT: f64 = 1e-200;

/// The number of learned messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// As spam.
    pub spam: u32,
    /// As ham.
    pub ham: u32,
}

/// The number of learned messages that contained a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// The evidence for spam.
    pub spam: u32,
    /// The evidence for ham.
    pub ham: u32,
}

impl TokenCounts {
    /// Whether no message contained it.
    pub fn is_zero(self) -> bool {
        self.spam == 0 && self.ham == 0
    }
}

/// The probability that a message with this token is spam; `None` if the counts do not determine
/// it. Tokens seen once (hapaxes) count only if `use_hapaxes`.
pub(super) fn token_probability(
    counts: TokenCounts,
    totals: Totals,
    use_hapaxes: bool,
) -> Option<f64> {
    let seen = f64::from(counts.spam) + f64::from(counts.ham);
    let seen_min = if use_hapaxes { 1.0 } else { 2.0 };
    if totals.spam == 0 || totals.ham == 0 || seen < seen_min {
        return None;
    }
    let spam = f64::from(counts.spam) * f64::from(totals.ham);
    let ham = f64::from(counts.ham) * f64::from(totals.spam);
    let counted = spam / (ham + spam);
    Some(
        (ASSUMED_PROBABILITY * ASSUMPTION_STRENGTH + seen * counted) / (ASSUMPTION_STRENGTH + seen),
    )
}

/// Keeps the significant probabilities, the strongest first.
pub(super) fn keep_significant<T>(probabilities: &mut Vec<(f64, T)>) {
    probabilities.retain(|(probability, _)| strength(*probability) >= STRENGTH_MIN);
    probabilities.sort_by(|(left, _), (right, _)| strength(*right).total_cmp(&strength(*left)));
    probabilities.truncate(SIGNIFICANT_TOKENS_MAX);
}

fn strength(probability: f64) -> f64 {
    (probability - 0.5).abs()
}

/// Fisher's method over the significant probabilities; `None` if there are none.
pub(super) fn combine(probabilities: &[f64], totals: Totals) -> Option<f64> {
    let learned = f64::from(totals.spam) + f64::from(totals.ham);
    if probabilities.is_empty() || learned == 0.0 {
        return None;
    }
    let mut spam = Product::new(f64::from(totals.spam) / learned);
    let mut ham = Product::new(f64::from(totals.ham) / learned);
    for probability in probabilities {
        spam.multiply(1.0 - probability);
        ham.multiply(*probability);
    }
    let half_freedom = probabilities.len();
    let spam = 1.0 - chi_squared_tail(-spam.logarithm(), half_freedom);
    let ham = 1.0 - chi_squared_tail(-ham.logarithm(), half_freedom);
    Some(f64::midpoint(spam - ham, 1.0))
}

/// A product of many small factors.
struct Product {
    mantissa: f64,
    /// The natural logarithm of the factor removed from the mantissa.
    taken_out: f64,
}

impl Product {
    fn new(start: f64) -> Self {
        Self {
            mantissa: start,
            taken_out: 0.0,
        }
    }

    fn multiply(&mut self, factor: f64) {
        self.mantissa *= factor;
        if self.mantissa < SMALL_PRODUCT && self.mantissa > 0.0 {
            self.taken_out += self.mantissa.ln();
            self.mantissa = 1.0;
        }
    }

    fn logarithm(&self) -> f64 {
        self.mantissa.ln() + self.taken_out
    }
}

/// The probability that a chi-squared variable of `2 * half_freedom` degrees of freedom exceeds
/// `2 * half_value`: the sum of a Poisson distribution's first terms.
fn chi_squared_tail(half_value: f64, half_freedom: usize) -> f64 {
    let mut term = (-half_value).exp();
    let mut sum = term;
    for index in 1..half_freedom {
        term *= half_value / index as f64;
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOTALS: Totals = Totals {
        spam: 400,
        ham: 600,
    };

    #[test]
    fn a_token_frequent_in_spam_indicates_spam() {
        let probability = |spam, ham| token_probability(TokenCounts { spam, ham }, TOTALS, true);
        // (0.538 * 0.03 + 1) / 1.03, by hand.
        assert!((probability(1, 0).expect("counted") - 0.986_543_689).abs() < 1e-9);
        assert!(probability(0, 0).is_none());
        assert!(
            probability(5, 5).expect("counted") > 0.5,
            "rarer in less spam"
        );
        assert!(token_probability(TokenCounts { spam: 1, ham: 0 }, TOTALS, false).is_none());
    }

    #[test]
    fn only_strong_tokens_decide_and_not_too_many() {
        let mut probabilities: Vec<(f64, usize)> = (0..1000)
            .map(|index| (index as f64 / 1000.0, index))
            .collect();
        keep_significant(&mut probabilities);
        assert_eq!(probabilities.len(), SIGNIFICANT_TOKENS_MAX);
        assert_eq!(probabilities[0].1, 0);
    }

    #[test]
    fn strong_evidence_saturates_without_underflow() {
        assert!(combine(&[0.999_999; 150], TOTALS).expect("some") > 0.999_999);
        assert!(combine(&[0.000_001; 150], TOTALS).expect("some") < 0.000_001);
        assert!(combine(&[], TOTALS).is_none());
    }

    proptest! {
        #[test]
        fn the_result_is_a_probability(
            probabilities in proptest::collection::vec(0.0001f64..0.9999, 1..150),
            spam in 1u32..1_000_000,
            ham in 1u32..1_000_000,
        ) {
            let result = combine(&probabilities, Totals { spam, ham }).expect("some");
            prop_assert!((0.0..=1.0).contains(&result), "{result}");
        }
    }
}
