//! The confidence interval of the ratio of two means, by resampling.

use super::SortedSample;

/// Number of resamples; the ends of a 99.5 % interval are then the 25th from either side.
const ROUNDS: usize = 10_000;

/// The percentile interval of second mean over first (Efron 1979). The same values always yield the
/// same interval. `None` if the first mean is not above 0.
pub fn ratio_interval(
    first: &SortedSample,
    second: &SortedSample,
    confidence: f64,
) -> Option<(f64, f64)> {
    if first.minimum() <= 0.0 {
        return None;
    }
    let mut random = SplitMix64(0x9E37_79B9_7F4A_7C15);
    let mut ratios: Vec<f64> = (0..ROUNDS)
        .map(|_| random.mean_of(second.values()) / random.mean_of(first.values()))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let outside = ((1.0 - confidence) / 2.0 * ROUNDS as f64) as usize;
    Some((ratios[outside], ratios[ROUNDS - 1 - outside]))
}

/// SplitMix64: small, fast, and good enough to draw indices.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn mean_of(&mut self, values: &[f64]) -> f64 {
        let count = values.len();
        let draw = |random: &mut Self| {
            // The upper half of the product is an index without modulo's bias.
            let index = (u128::from(random.next()) * count as u128) >> 64;
            values[index as usize]
        };
        (0..count).map(|_| draw(self)).sum::<f64>() / count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_ratio_and_narrows_with_confidence() {
        let first =
            SortedSample::new((0..20).map(|n| 100.0 + f64::from(n % 5)).collect()).expect("values");
        let second =
            SortedSample::new((0..20).map(|n| 142.0 + f64::from(n % 7)).collect()).expect("values");
        let ratio = second.mean() / first.mean();
        let (low, high) = ratio_interval(&first, &second, 0.995).expect("above 0");
        let (inner_low, inner_high) = ratio_interval(&first, &second, 0.8).expect("above 0");
        assert!(low < inner_low && inner_low < ratio && ratio < inner_high && inner_high < high);
        assert!(high - low < 0.04, "{low} {high}");
    }
}
