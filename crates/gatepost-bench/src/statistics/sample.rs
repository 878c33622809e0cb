//! A set of measured values.

/// At least one value, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct SortedSample {
    sorted: Vec<f64>,
}

impl SortedSample {
    /// `None` if there is no value, or one that is not a number.
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        Some(Self { sorted: values })
    }

    /// The values, sorted.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest.
    pub fn minimum(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest.
    pub fn maximum(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        if self.sorted.len() % 2 == 1 {
            self.sorted[middle]
        } else {
            f64::midpoint(self.sorted[middle - 1], self.sorted[middle])
        }
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.sorted.len() as f64
    }

    /// The variance of the population (n − 1 in the denominator); 0 for a single value.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self
            .sorted
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum();
        squares / (self.sorted.len() as f64 - 1.0).max(1.0)
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_has_two_in_the_middle() {
        let sample = SortedSample::new(vec![4.0, 1.0, 2.0, 10.0]).expect("values");
        assert!((sample.median() - 3.0).abs() < 1e-12);
        assert!((sample.mean() - 4.25).abs() < 1e-12);
        assert!((sample.deviation() - 4.031_128_874).abs() < 1e-8);
        assert!(SortedSample::new(vec![]).is_none() && SortedSample::new(vec![f64::NAN]).is_none());
    }
}
