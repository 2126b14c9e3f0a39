//! Medians, quantiles and rounding to significant digits.
//!
//! Responsible for: the summary statistics shared by fits, validation and hardware
//! runs. Not for: what the numbers mean. Invariant: the median does not depend on the
//! order of its input.

/// Significant digits of a fitted value: more than the accuracy of a fit, and short to
/// read.
pub const VALUE_DIGITS: i32 = 5;

/// Median of the values; `None` for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| quantile(&ascending, 0.5))
}

/// Quantile `part` (0 to 1) of ascending values, linearly interpolated; NaN for an
/// empty slice.
pub fn quantile(ascending: &[f64], part: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else { return f64::NAN };
    let position = part * last as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    ascending[below] + (position - position.floor()) * (ascending[above] - ascending[below])
}

/// `value` rounded to `digits` significant digits.
pub fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    // Dividing by a power of ten keeps short decimals short; multiplying by its
    // inverse would not.
    if decimals >= 0 {
        let unit = 10_f64.powi(decimals);
        (value * unit).round() / unit
    } else {
        let unit = 10_f64.powi(-decimals);
        (value / unit).round() * unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!((median(&[9.0, 7.0, 8.0]), median(&[])), (Some(8.0), None));
    }

    #[test]
    fn digits_are_counted_from_the_first() {
        assert_eq!(rounded(123_456.0, 2).to_bits(), 120_000.0_f64.to_bits());
        assert_eq!(rounded(-0.001_234_56, 3).to_bits(), (-0.001_23_f64).to_bits());
        assert_eq!(rounded(0.0, 3).to_bits(), 0.0_f64.to_bits());
    }
}
