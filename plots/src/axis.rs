//! Axes: where ticks stand and what they say.

/// Most ticks of any axis, whatever its range.
const MOST_TICKS: u32 = 64;

/// Ticks of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Values that carry a tick, ascending.
    pub(crate) values: Vec<f64>,
    decimals: usize,
}

impl Ticks {
    /// Multiples of 1, 2 or 5 times a power of ten within `[low, high]`: the
    /// finest such step that makes at most `most` intervals.
    pub(crate) fn decimal(low: f64, high: f64, most: u32) -> Self {
        let coarsest = span(low, high) / f64::from(most.max(1));
        let power = 10f64.powf(coarsest.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= coarsest * (1.0 - 1e-9));
        Self::multiples(low, high, factor.unwrap_or(10.0) * power)
    }

    /// Multiples of a power of two within `[low, high]`, as channel counts are
    /// read: the finest such step that makes at most `most` intervals.
    pub(crate) fn channels(low: f64, high: f64, most: u32) -> Self {
        let coarsest = span(low, high) / f64::from(most.max(1));
        Self::multiples(low, high, 2f64.powf(coarsest.log2().ceil().max(0.0)))
    }

    /// Ticks from 0 to the first one at or above `greatest`.
    pub(crate) fn covering(greatest: f64, most: u32) -> Self {
        let inside = Self::decimal(0.0, greatest, most);
        let step = inside.values.get(1).copied().unwrap_or(1.0);
        Self::multiples(0.0, (greatest / step - 1e-9).ceil().max(1.0) * step, step)
    }

    fn multiples(low: f64, high: f64, step: f64) -> Self {
        // A tick that rounding puts just outside of the range counts as inside.
        let slack = 1e-9;
        let first = (low / step - slack).ceil();
        let count = (high / step + slack).floor() - first;
        let values = (0..=(count.max(0.0) as u32).min(MOST_TICKS - 1))
            .map(|index| (first + f64::from(index)) * step)
            .collect();
        Self { values, decimals: (-step.log10().floor()).max(0.0) as usize }
    }

    /// What stands at a tick.
    pub(crate) fn label(&self, value: f64) -> String {
        // Adding zero turns a negative zero into zero.
        format!("{:.*}", self.decimals, value + 0.0)
    }
}

/// Length of a range, or 1 where it has none.
fn span(low: f64, high: f64) -> f64 {
    let span = high - low;
    if span.is_finite() && span > 0.0 { span } else { 1.0 }
}

/// Smallest value, as a part of the largest, at which an axis still starts at 0.
const START_AT_ZERO_BELOW: f64 = 0.5;

/// The range of an axis that shows values from `least` to `greatest`, both 0 or
/// more: from 0 unless they lie close together, with `headroom` of the range
/// beyond the values.
pub(crate) fn range(least: f64, greatest: f64, headroom: f64) -> (f64, f64) {
    if greatest <= 0.0 {
        return (0.0, 1.0);
    }
    if least < START_AT_ZERO_BELOW * greatest {
        return (0.0, greatest * (1.0 + headroom));
    }
    let room = if greatest > least { (greatest - least) * headroom } else { greatest / 2.0 };
    (least - room, greatest + room)
}

/// The unit of a time axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Micros,
    Millis,
    Seconds,
}

impl TimeUnit {
    /// The unit in which a time of this many microseconds reads well.
    pub(crate) fn for_micros(micros: f64) -> Self {
        // As the display of simulated time does: milliseconds from 10 ms on.
        if micros >= 1e7 {
            Self::Seconds
        } else if micros >= 1e4 {
            Self::Millis
        } else {
            Self::Micros
        }
    }

    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Micros => "µs",
            Self::Millis => "ms",
            Self::Seconds => "s",
        }
    }

    /// Microseconds in one.
    pub(crate) fn micros(self) -> f64 {
        match self {
            Self::Micros => 1.0,
            Self::Millis => 1e3,
            Self::Seconds => 1e6,
        }
    }

    /// A time with its unit, for a label: four digits or so.
    pub(crate) fn show(self, micros: f64) -> String {
        let value = micros / self.micros();
        let decimals = if value >= 100.0 { 1 } else { 2 };
        format!("{value:.decimals$} {}", self.symbol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &Ticks) -> Vec<String> {
        ticks.values.iter().map(|&value| ticks.label(value)).collect()
    }

    #[test]
    fn decimal_ticks_are_round_and_inside_the_range() {
        assert_eq!(
            labels(&Ticks::decimal(0.0, 379.0, 8)),
            ["0", "50", "100", "150", "200", "250", "300", "350"]
        );
        assert_eq!(labels(&Ticks::decimal(0.0, 1.0, 5)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Ticks::decimal(-0.1, 0.1, 2)), ["-0.1", "0.0", "0.1"]);
    }

    #[test]
    fn channel_ticks_are_multiples_of_a_power_of_two() {
        assert_eq!(
            labels(&Ticks::channels(0.0, 3072.0, 8)),
            ["0", "512", "1024", "1536", "2048", "2560", "3072"]
        );
        assert_eq!(labels(&Ticks::channels(0.0, 3.0, 8)), ["0", "1", "2", "3"]);
    }

    #[test]
    fn a_range_without_length_has_ticks_all_the_same() {
        assert_eq!(labels(&Ticks::decimal(0.0, 0.0, 8)), ["0.0"]);
        assert!(!Ticks::decimal(5.0, 5.0, 4).values.is_empty());
        assert!(Ticks::decimal(0.0, f64::INFINITY, 4).values.len() <= MOST_TICKS as usize);
    }

    #[test]
    fn an_axis_starts_at_zero_unless_the_values_lie_close_together() {
        assert_eq!(range(10.0, 100.0, 0.25), (0.0, 125.0));
        assert_eq!(range(80.0, 100.0, 0.1), (78.0, 102.0));
        assert_eq!(range(8.0, 8.0, 0.1), (4.0, 12.0));
        assert_eq!(range(0.0, 0.0, 0.1), (0.0, 1.0));
    }

    #[test]
    fn times_show_in_the_unit_a_reader_expects() {
        assert_eq!(TimeUnit::for_micros(379.04).show(379.04), "379.0 µs");
        assert_eq!(TimeUnit::for_micros(83_300.0).show(83_300.0), "83.30 ms");
        assert_eq!(TimeUnit::for_micros(2e7).show(2e7), "20.00 s");
    }
}
