//! Numbers in C's `%g` form, which ministat's table uses.

/// The value with this number of significant digits, without trailing zeros, with an exponent if
/// that is shorter.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // The exponent after rounding: 9.9999999 may become 10.
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_c() {
        for (value, digits, text) in [
            (300.0, 8, "300"),
            (238.047_614, 8, "238.04761"),
            (212.215_3, 6, "212.215"),
            (0.000_123_4, 6, "0.0001234"),
            (0.000_012_34, 6, "1.234e-05"),
            (1_234_567_890.0, 8, "1.2345679e+09"),
            (99_999_999.9, 8, "1e+08"),
            (-2.5, 6, "-2.5"),
            (0.0, 6, "0"),
        ] {
            assert_eq!(general(value, digits), text);
        }
    }
}
