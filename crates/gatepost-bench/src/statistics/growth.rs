//! Growth of a figure with a setting: y = a · x^b, fitted by least squares to the logarithms.

use super::distribution::student_quantile;

/// A fitted power law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// The exponent b: 0 does not grow, 1 grows in proportion, 2 with the square.
    pub exponent: f64,
    /// Half the width of its 95 % interval (Student's t, n - 2 degrees); infinite for two points.
    pub error: f64,
    /// The factor a.
    pub factor: f64,
    /// The share of the variance of log y that the law explains.
    pub r_squared: f64,
}

/// Fits the law; `None` with fewer than two different x, or if any value is not above 0.
pub fn growth(points: &[(f64, f64)]) -> Option<Growth> {
    if points.iter().any(|&(x, y)| x <= 0.0 || y <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        logs.iter().map(|&(x, y)| of(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if logs.len() < 2 || xx < 1e-12 {
        return None;
    }
    let exponent = xy / xx;
    let residual = (yy - exponent * xy).max(0.0);
    let degrees = count - 2.0;
    let error = if degrees < 1.0 {
        f64::INFINITY
    } else {
        student_quantile(0.975, degrees) * (residual / degrees / xx).sqrt()
    };
    Some(Growth {
        exponent,
        error,
        factor: (mean_y - exponent * mean_x).exp(),
        r_squared: if yy < 1e-12 { 1.0 } else { 1.0 - residual / yy },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_law_is_found_exactly() {
        let points: Vec<(f64, f64)> = [1.0, 3.0, 10.0, 40.0]
            .map(|x: f64| (x, 5.0 * x.powf(1.5)))
            .into();
        let fitted = growth(&points).expect("a law");
        assert!((fitted.exponent - 1.5).abs() < 1e-9 && (fitted.factor - 5.0).abs() < 1e-9);
        assert!(fitted.error < 1e-6 && fitted.r_squared > 0.999_999);
        let flat = growth(&[(1.0, 7.0), (2.0, 7.0), (4.0, 7.0)]).expect("a law");
        assert!(flat.exponent.abs() < 1e-12);
    }

    #[test]
    fn nothing_is_fitted_to_nothing() {
        assert_eq!(growth(&[]), None);
        assert_eq!(growth(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(growth(&[(1.0, 0.0), (2.0, 3.0)]), None);
        let two = growth(&[(1.0, 2.0), (2.0, 4.0)]).expect("a line");
        assert!((two.exponent - 1.0).abs() < 1e-12 && two.error.is_infinite());
    }
}
