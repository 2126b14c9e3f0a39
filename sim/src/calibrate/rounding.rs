//! Fitted values with the digits that they are known to.

/// Significant digits of a fitted value: more than a fit is good for, and short to
/// read.
pub(super) const VALUE_DIGITS: i32 = 5;

/// `value` with that many significant digits.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
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
