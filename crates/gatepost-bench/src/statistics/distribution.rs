//! The normal distribution and Student's t: probabilities and quantiles.

use std::f64::consts::{PI, SQRT_2};

/// The maximum number of terms of a continued fraction; it converges in far fewer.
const TERMS_MAX: usize = 500;
const ENOUGH: f64 = 1e-15;
/// The number of bisections that exhausts double precision.
const HALVINGS: usize = 200;

/// The quantile of the standard normal distribution for this probability.
pub fn normal_quantile(probability: f64) -> f64 {
    quantile(probability, normal_below)
}

/// The quantile of Student's t distribution with these degrees of freedom for this probability.
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    quantile(probability, |t| student_below(t, degrees))
}

/// The probability of a t at least as far from 0 as this one.
pub fn student_two_sided(t: f64, degrees: f64) -> f64 {
    // With x = v/(v+t²) the two tails together are I_x(v/2, 1/2) (Abramowitz & Stegun 26.7.1).
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// The probability of a standard normal variable at least as far from 0 as this one.
pub(super) fn normal_two_sided(z: f64) -> f64 {
    complementary_error(z.abs() / SQRT_2)
}

fn normal_below(z: f64) -> f64 {
    let tail = normal_two_sided(z) / 2.0;
    if z < 0.0 { tail } else { 1.0 - tail }
}

fn student_below(t: f64, degrees: f64) -> f64 {
    let tail = student_two_sided(t, degrees) / 2.0;
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// Inverts a distribution by bisection.
fn quantile(probability: f64, below: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (-1.0, 1.0);
    while below(low) > probability && low > -1e12 {
        low *= 2.0;
    }
    while below(high) < probability && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if below(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// erfc by series below 2, by continued fraction above (Abramowitz & Stegun 7.1.6, 7.1.14).
fn complementary_error(x: f64) -> f64 {
    if x < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..TERMS_MAX {
            term *= 2.0 * x * x / (2.0 * n as f64 + 1.0);
            sum += term;
            if term < ENOUGH * sum {
                break;
            }
        }
        return 1.0 - 2.0 / PI.sqrt() * (-x * x).exp() * sum;
    }
    let mut fraction = 0.0;
    for n in (1..=60).rev() {
        fraction = f64::from(n) / 2.0 / (x + fraction);
    }
    (-x * x).exp() / PI.sqrt() / (x + fraction)
}

/// The regularised incomplete beta function I_x(a, b) (Abramowitz & Stegun 26.5.8), its continued
/// fraction evaluated by Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on one side of the mean; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log_front =
        a * x.ln() + b * (1.0 - x).ln() + log_gamma(a + b) - log_gamma(a) - log_gamma(b);
    log_front.exp() / a * beta_fraction(x, a, b)
}

// The names are those of the formula.
#[allow(clippy::many_single_char_names)]
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let (mut c, mut d) = (1.0, 1.0 - (a + b) * x / (a + 1.0));
    d = 1.0 / if d.abs() < TINY { TINY } else { d };
    let mut value = d;
    let mut step = |term: f64| {
        let denominator = 1.0 + term * d;
        d = 1.0
            / if denominator.abs() < TINY {
                TINY
            } else {
                denominator
            };
        let numerator = 1.0 + term / c;
        c = if numerator.abs() < TINY {
            TINY
        } else {
            numerator
        };
        value *= c * d;
        (c * d - 1.0).abs()
    };
    for n in 1..TERMS_MAX {
        let m = n as f64;
        step(m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)));
        let change = step(-(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)));
        if change < ENOUGH {
            break;
        }
    }
    value
}

/// ln Γ(x) for x > 0: Stirling's series (Abramowitz & Stegun 6.1.41) after lifting x above 10.
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut lifted) = (x, 1.0);
    while x < 10.0 {
        lifted *= x;
        x += 1.0;
    }
    let square = x * x;
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / square) / square) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - f64::ln(lifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (probability, z) in [
            (0.5, 0.0),
            (0.975, 1.959_964),
            (0.995, 2.575_829),
            (0.1, -1.281_552),
        ] {
            assert!(
                (normal_quantile(probability) - z).abs() < 1e-6,
                "{probability}"
            );
        }
        assert!((normal_two_sided(5.0) / 5.733_031e-7 - 1.0).abs() < 1e-5);
    }
}
