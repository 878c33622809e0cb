//! The arguments of `check_bayes`: the probabilities for which a `BAYES_…` rule hits.

/// An interval of probabilities: above `above`, up to `up_to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    above: f64,
    up_to: Option<f64>,
}

impl Interval {
    /// Reads the two arguments of `eval:check_bayes('0.95', '0.99')`; the second may be `undef`.
    /// `None` if they are malformed.
    pub fn parse(arguments: &[impl AsRef<str>]) -> Option<Self> {
        let [above, up_to] = arguments else {
            return None;
        };
        Some(Self {
            above: above.as_ref().trim().parse().ok()?,
            up_to: match up_to.as_ref().trim() {
                "undef" => None,
                number => Some(number.parse().ok()?),
            },
        })
    }

    /// Whether the interval contains a probability. The lowest interval includes 0 itself.
    pub fn contains(&self, probability: f64) -> bool {
        (self.above == 0.0 || probability > self.above)
            && self.up_to.is_none_or(|up_to| probability <= up_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_open_below_and_closed_above() {
        let interval = |above, up_to| Interval::parse(&[above, up_to]).expect("numbers");
        assert!(interval("0.00", "0.01").contains(0.0));
        assert!(interval("0.00", "0.01").contains(0.01));
        assert!(!interval("0.01", "0.05").contains(0.01));
        assert!(interval("0.99", "1.00").contains(1.0));
        assert!(interval("0.5", "undef").contains(1.0));
        assert!(Interval::parse(&["0.1"]).is_none() && Interval::parse(&["a", "b"]).is_none());
    }
}
