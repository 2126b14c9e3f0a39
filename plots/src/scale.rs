//! Linear and logarithmic axes: where a value stands, and the ticks.
//!
//! Responsible for: the range, the ticks and their labels. Not for: drawing
//! ([`crate::panel`]).
//! Invariant: an axis holds every value it was made for, and its ticks lie on it.

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;

use crate::axis::tick_labels;

/// Most ticks with a label on a logarithmic axis.
const MOST_LABELS: u8 = 8;
/// Decades up to which every multiple of a power of ten has a tick.
const MOST_MINOR_DECADES: i32 = 7;
/// Least ratio of the ends of a logarithmic axis: it then has four ticks or more.
const LEAST_RATIO: f64 = 4.0;
/// Empty part of a logarithmic axis beyond the values, at either end.
const HEADROOM: f64 = 0.04;
/// Tells a tick at the end of an axis from one beyond it, in decades.
const ROUNDING: f64 = 1e-9;
/// Multiples of a power of ten that have labels: the most that fit are chosen.
const LABELLED: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 8], &[1, 2, 5], &[1, 3], &[1]];
/// Powers of ten from which on, and below which, a number is written as one.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -3..5;

/// What a logarithmic axis counts, which decides its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Numbers without a unit, or whose unit the axis title names.
    Number,
    /// Microseconds, labelled with the unit that suits: `10 ms`.
    Micros,
    /// Bytes, labelled with the decimal unit that suits: `10 kB`.
    Bytes,
}

impl Quantity {
    /// Units and the powers of ten where each starts, ascending.
    const fn units(self) -> &'static [(&'static str, i32)] {
        match self {
            Self::Number => &[],
            Self::Micros => &[("ps", -6), ("ns", -3), ("µs", 0), ("ms", 3), ("s", 6)],
            Self::Bytes => &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9), ("TB", 12)],
        }
    }

    /// `multiple` x 10^`exponent`, as a label.
    fn show(self, multiple: u32, exponent: i32) -> String {
        let unit = self.units().iter().rev().find(|(_, from)| exponent >= *from);
        let (unit, exponent) =
            unit.map_or((String::new(), exponent), |(unit, from)| (format!(" {unit}"), exponent - from));
        if !PLAIN_EXPONENTS.contains(&exponent) {
            return format!("{multiple}e{exponent}{unit}");
        }
        let decimals = (-exponent).max(0) as usize;
        format!("{:.decimals$}{unit}", f64::from(multiple) * 10f64.powi(exponent))
    }
}

/// A tick: where it stands, as a part of the axis, and its label, which is empty
/// for a tick of less weight.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) part: f64,
    pub(crate) label: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) title: String,
    logarithmic: bool,
    /// Ends: values, or the decimal logarithms of values.
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    /// From `low` to `high`, with at most `most` ticks and their labels followed
    /// by `unit`.
    pub(crate) fn linear(title: &str, (low, high): (f64, f64), most: usize, unit: &str) -> Self {
        let mut axis = Self { title: title.to_owned(), logarithmic: false, low, high, ticks: Vec::new() };
        let show = tick_labels((low, high), most);
        let values = RangedCoordf64::from(low..high).key_points(most);
        axis.ticks = values
            .into_iter()
            .map(|value| Tick { part: axis.part(value), label: format!("{}{unit}", show(&value)) })
            .collect();
        axis
    }

    /// Holds the values, all above 0, with some room beyond them. An axis of no
    /// values starts at 1.
    pub(crate) fn logarithmic(title: &str, values: impl Iterator<Item = f64>, quantity: Quantity) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value.log10()), high.max(value.log10()));
        }
        if low > high {
            (low, high) = (0.0, 0.0);
        }
        let room = ((high - low) * HEADROOM).max((LEAST_RATIO.log10() - (high - low)) / 2.0);
        Self::between_powers(title, (low - room, high + room), quantity)
    }

    /// From one value above 0 to a greater one.
    pub(crate) fn logarithmic_between(title: &str, (low, high): (f64, f64), quantity: Quantity) -> Self {
        Self::between_powers(title, (low.log10(), high.log10()), quantity)
    }

    fn between_powers(title: &str, (low, high): (f64, f64), quantity: Quantity) -> Self {
        let mut axis = Self { title: title.to_owned(), logarithmic: true, low, high, ticks: Vec::new() };
        let labelled = axis.labelled();
        let (first, last) = (low.floor() as i32, high.floor() as i32);
        let minor: &[u32] =
            if last - first <= MOST_MINOR_DECADES { &[1, 2, 3, 4, 5, 6, 7, 8, 9] } else { &[1] };
        for exponent in first..=last {
            for &multiple in minor {
                let power = f64::from(exponent) + f64::from(multiple).log10();
                if power < low - ROUNDING || power > high + ROUNDING {
                    continue;
                }
                let label = if labelled.contains(&(multiple, exponent)) {
                    quantity.show(multiple, exponent)
                } else {
                    String::new()
                };
                axis.ticks.push(Tick { part: (power - low) / (high - low), label });
            }
        }
        axis
    }

    /// Multiples and powers of ten on a logarithmic axis that have labels: all of
    /// the finest set that is few enough, or every so many powers of ten.
    fn labelled(&self) -> Vec<(u32, i32)> {
        let on_axis = |(multiple, exponent): &(u32, i32)| {
            let power = f64::from(*exponent) + f64::from(*multiple).log10();
            (self.low - ROUNDING..=self.high + ROUNDING).contains(&power)
        };
        let exponents = self.low.floor() as i32..=self.high.floor() as i32;
        for multiples in LABELLED {
            let all =
                exponents.clone().flat_map(|exponent| multiples.iter().map(move |&one| (one, exponent)));
            let shown: Vec<(u32, i32)> = all.filter(on_axis).collect();
            if shown.len() <= usize::from(MOST_LABELS) {
                return shown;
            }
        }
        let step = (exponents.end() - exponents.start()) / i32::from(MOST_LABELS) + 1;
        exponents
            .filter(|exponent| exponent % step == 0)
            .map(|exponent| (1, exponent))
            .filter(on_axis)
            .collect()
    }

    /// Where a value stands: 0 at the lower end of the axis, 1 at the upper.
    pub(crate) fn part(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    /// The values at the ends.
    pub(crate) fn ends(&self) -> (f64, f64) {
        if self.logarithmic { (10f64.powf(self.low), 10f64.powf(self.high)) } else { (self.low, self.high) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn decades_of_a_logarithmic_axis_are_equally_wide() {
        let axis = Axis::logarithmic_between("", (1.0, 1e4), Quantity::Number);
        for (value, part) in [(1.0, 0.0), (10.0, 0.25), (1e3, 0.75), (1e4, 1.0)] {
            assert!((axis.part(value) - part).abs() < 1e-12);
        }
        assert_eq!(labels(&axis), ["1", "10", "100", "1000", "10000"]);
    }

    #[test]
    fn times_and_bytes_have_the_unit_of_their_size() {
        let times = Axis::logarithmic_between("", (1.0, 1e6), Quantity::Micros);
        assert_eq!(labels(&times), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        let bytes = Axis::logarithmic_between("", (5e2, 1e5), Quantity::Bytes);
        assert_eq!(labels(&bytes), ["500 B", "1 kB", "2 kB", "5 kB", "10 kB", "20 kB", "50 kB", "100 kB"]);
    }

    #[test]
    fn a_narrow_axis_has_finer_ticks_and_a_wide_one_coarser() {
        let narrow = Axis::logarithmic("", [100.0].into_iter(), Quantity::Number);
        assert_eq!(labels(&narrow), ["50", "60", "80", "100", "200"]);
        let wide = Axis::logarithmic_between("", (1e-6, 1e13), Quantity::Micros);
        assert_eq!(labels(&wide), ["1 ps", "1 ns", "1 µs", "1 ms", "1 s", "1000 s", "1e6 s"]);
    }

    #[test]
    fn a_linear_axis_has_its_unit_at_each_tick() {
        let axis = Axis::linear("", (-20.0, 20.0), 5, " %");
        assert_eq!(labels(&axis), ["-20 %", "-10 %", "0 %", "10 %", "20 %"]);
        assert!((axis.part(-10.0) - 0.25).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn every_value_and_tick_lies_on_the_axis(values in prop::collection::vec(1e-6..1e13f64, 1..9)) {
            for quantity in [Quantity::Number, Quantity::Micros, Quantity::Bytes] {
                let axis = Axis::logarithmic("", values.iter().copied(), quantity);
                for part in values.iter().map(|&value| axis.part(value)).chain(axis.ticks.iter().map(|tick| tick.part)) {
                    prop_assert!((-1e-9..=1.0 + 1e-9).contains(&part));
                }
                let count = labels(&axis).len();
                prop_assert!((2..=usize::from(MOST_LABELS) + 1).contains(&count), "{count} labels");
            }
        }
    }
}
