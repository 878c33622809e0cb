//! The rank test of Mann and Whitney, which makes no assumption about the shape of the
//! distributions.

use super::SortedSample;
use super::distribution::normal_two_sided;

/// The number of values in both sets up to which the exact distribution is computed.
const EXACT_MAX: usize = 50;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// Pairs in which the first set's value is larger, ties counted as halves.
    pub u: f64,
    /// The probability of a U at least as far from the middle if the sets are alike.
    pub probability: f64,
}

/// Two-sided; exact without ties and for few values, otherwise by the normal limit, corrected for
/// ties and for continuity (Annals of Mathematical Statistics 18, 1947).
pub fn mann_whitney(first: &SortedSample, second: &SortedSample) -> RankTest {
    let (n1, n2) = (first.count(), second.count());
    let mut u = 0.0;
    let mut tied = false;
    for one in first.values() {
        for other in second.values() {
            if one > other {
                u += 1.0;
            } else if one.total_cmp(other).is_eq() {
                u += 0.5;
                tied = true;
            }
        }
    }
    tied |= has_ties(first) || has_ties(second);
    let probability = if !tied && n1 + n2 <= EXACT_MAX {
        exact(u as usize, n1, n2)
    } else {
        by_normal_limit(u, first, second)
    };
    RankTest { u, probability }
}

fn has_ties(sample: &SortedSample) -> bool {
    sample
        .values()
        .windows(2)
        .any(|pair| pair[0].total_cmp(&pair[1]).is_eq())
}

/// Counts the orders of n1 and n2 values with each U, and sums those that are at least as extreme.
fn exact(u: usize, n1: usize, n2: usize) -> f64 {
    // ways[k][u]: orders of k values of the first set and as many of the second as were added.
    let largest = n1 * n2;
    let mut ways = vec![vec![0.0_f64; largest + 1]; n1 + 1];
    for of_count in &mut ways {
        of_count[0] = 1.0;
    }
    for added in 1..=n2 {
        for k in 1..=n1 {
            for at in added..=largest {
                // Either the largest is of the second set, or it is of the first and beats all.
                let (below, same) = (ways[k - 1][at - added], &mut ways[k][at]);
                *same += below;
            }
        }
    }
    let all: f64 = ways[n1].iter().sum();
    let near = u.min(largest - u);
    let tail: f64 = ways[n1][..=near].iter().sum();
    (2.0 * tail / all).min(1.0)
}

fn by_normal_limit(u: f64, first: &SortedSample, second: &SortedSample) -> f64 {
    let (n1, n2) = (first.count() as f64, second.count() as f64);
    let all = n1 + n2;
    let mut values = [first.values(), second.values()].concat();
    values.sort_by(f64::total_cmp);
    let ties: f64 = values
        .chunk_by(|a, b| a.total_cmp(b).is_eq())
        .map(|equal| equal.len() as f64)
        .map(|count| count * count * count - count)
        .sum();
    let variance = n1 * n2 / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    normal_two_sided(distance / variance.sqrt())
}
