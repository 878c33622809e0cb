//! The start of the steady part of a measurement: the marginal standard error rule (MSER; White,
//! Simulation 69, 1997).
//!
//! A run begins with empty caches, untrained branch predictors and growing buffers. The rule
//! removes the beginning whose removal makes the mean of the rest most precise: if d of n values
//! are removed, it finds the d that minimises (sum of squared deviations) / (n - d)².

/// Values are averaged in groups of this size, so that a single outlier does not decide.
const GROUP: usize = 5;
/// The minimum number of groups.
const GROUPS_MIN: usize = 6;
/// If the mean of the beginning is closer than this to that of the rest, it is not reported.
const SHARE_MIN: f64 = 0.05;

/// The result of the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Steadiness {
    /// There are too few values to decide.
    Unknown,
    /// This many values at the beginning differ from the rest; 0 if it was steady from the start.
    From(usize),
    /// Not even the second half is steady.
    Never,
}

/// Applies the rule to values in chronological order.
pub fn steadiness(values: &[f64]) -> Steadiness {
    let groups: Vec<f64> = values.chunks_exact(GROUP).map(mean).collect();
    if groups.len() < GROUPS_MIN {
        return Steadiness::Unknown;
    }
    let error_without = |left_out: usize| {
        let rest = &groups[left_out..];
        let middle = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - middle).powi(2)).sum();
        squares / (rest.len() as f64).powi(2)
    };
    let half = groups.len() / 2;
    let best = (0..=half).min_by(|&a, &b| error_without(a).total_cmp(&error_without(b)));
    let left_out = best.unwrap_or(0);
    if left_out == 0 {
        return Steadiness::From(0);
    }
    let (beginning, rest) = (mean(&groups[..left_out]), mean(&groups[left_out..]));
    if (beginning - rest).abs() < SHARE_MIN * rest.abs() {
        Steadiness::From(0)
    } else if left_out == half {
        Steadiness::Never
    } else {
        Steadiness::From(left_out * GROUP)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic noise between -1 and 1.
    fn noise(at: usize) -> f64 {
        let mixed = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    #[test]
    fn a_slow_beginning_is_found_and_noise_is_not() {
        let steady: Vec<f64> = (0..100).map(|at| 100.0 + 3.0 * noise(at)).collect();
        assert_eq!(steadiness(&steady), Steadiness::From(0));
        let mut slow = steady.clone();
        for (at, value) in slow.iter_mut().take(20).enumerate() {
            *value *= 0.3 + 0.02 * at as f64;
        }
        let Steadiness::From(found) = steadiness(&slow) else {
            panic!("it is steady from 20 on");
        };
        // Because of the noise, a group or two after the last disturbed one may look like it.
        assert!((20..=30).contains(&found), "{found}");
        assert_eq!(steadiness(&steady[..20]), Steadiness::Unknown);
    }

    #[test]
    fn a_series_that_rises_to_the_end_is_never_steady() {
        let rising: Vec<f64> = (0..100)
            .map(|at| f64::from(at) + noise(at as usize))
            .collect();
        assert_eq!(steadiness(&rising), Steadiness::Never);
    }
}
