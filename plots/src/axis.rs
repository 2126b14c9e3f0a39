//! Linear, logarithmic and named axes.
//!
//! Responsible for: the range, the ticks and their labels, as a plotters coordinate.
//! Not for: drawing, which plotters does.
//! Invariant: an axis covers every value it was made for, and its ticks lie on it.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::data::float::pretty_print_float;

/// Most ticks of a linear axis, and most labels of a logarithmic one.
const MAX_TICKS: usize = 10;
const MAX_LABELS: usize = 8;
/// Largest value on an axis; the smallest on a logarithmic axis is its inverse.
pub(crate) const MAX_VALUE: f64 = 1e15;
/// Decades up to which every multiple of a power of ten has a tick.
const MAX_MINOR_DECADES: i32 = 7;
/// Least ratio of the ends of a logarithmic axis, so that it has at least four ticks.
const MIN_RATIO: f64 = 4.0;
/// Empty fraction of an axis beyond the values: at both ends of a logarithmic axis, and at the upper
/// end of one that starts at 0.
const HEADROOM: f64 = 0.04;
/// Relative tolerance for a tick at the end of an axis.
const ROUNDING: f64 = 1e-9;
/// Multiples of a power of ten that have labels; the first set that fits is used.
const LABELLED: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 8], &[1, 2, 5], &[1, 3], &[1]];
/// Decades of the widest logarithmic axis, from the inverse of [`MAX_VALUE`] to it.
const MAX_DECADES: i32 = 30;
const MULTIPLES: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9];
/// Powers of ten whose ticks are written as plain decimals; others are written with an exponent.
const PLAIN_EXPONENTS: Range<i32> = -3..5;
/// An axis of times starts at 0 if the smallest value is below this fraction of the largest.
const START_AT_ZERO_BELOW: f64 = 0.5;

/// The unit of an axis, which determines its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers without a unit, or with a unit that the title names.
    Number,
    /// Microseconds, labelled in a suitable unit from ps to s.
    Micros,
}

impl Unit {
    /// Unit symbols and their powers of ten relative to the base unit, ascending.
    const fn symbols(self) -> &'static [(&'static str, i32)] {
        match self {
            Self::Number => &[],
            Self::Micros => &[("ps", -6), ("ns", -3), ("µs", 0), ("ms", 3), ("s", 6)],
        }
    }

    /// The unit symbol for values up to `high`, and its power of ten.
    fn suiting(self, high: f64) -> Option<(&'static str, i32)> {
        // At least ten of the unit: milliseconds from 10 ms, as in printed times.
        let suits = |&&(_, exponent): &&(&str, i32)| high >= 10f64.powi(exponent + 1);
        self.symbols().iter().rev().find(suits).or(self.symbols().first()).copied()
    }

    /// A value in a suitable unit, with about four significant digits.
    pub fn label(self, value: f64) -> String {
        let (symbol, exponent) = self.suiting(value).unwrap_or_default();
        let value = value / 10f64.powi(exponent);
        let decimals = if value >= 100.0 { 1 } else { 2 };
        format!("{value:.decimals$} {symbol}")
    }

    /// `multiple` x 10^`exponent`, as the label of a logarithmic tick.
    fn show(self, multiple: u32, exponent: i32) -> String {
        let unit = self.symbols().iter().rev().find(|(_, from)| exponent >= *from);
        let (unit, exponent) =
            unit.map_or((String::new(), exponent), |(unit, from)| (format!(" {unit}"), exponent - from));
        if !PLAIN_EXPONENTS.contains(&exponent) {
            return format!("{multiple}e{exponent}{unit}");
        }
        let decimals = (-exponent).max(0) as usize;
        format!("{:.decimals$}{unit}", f64::from(multiple) * 10f64.powi(exponent))
    }
}

/// How an axis maps values to places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
    /// Names instead of values.
    Named,
}

/// An axis with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    low: f64,
    high: f64,
    /// Values and labels of the ticks.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Values of the minor ticks, which have no labels.
    minor: Vec<f64>,
}

impl Axis {
    /// A linear axis from `low` to `high`, with a suitable unit in its title.
    pub fn linear(title: &str, (low, high): (f64, f64), unit: Unit) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let symbol = unit.suiting(high);
        let scale = symbol.map_or(1.0, |(_, exponent)| 10f64.powi(exponent));
        let ticks = RangedCoordf64::from(low / scale..high / scale).key_points(MAX_TICKS);
        let decimals =
            |tick: &f64| pretty_print_float(*tick, false).split_once('.').map_or(0, |(_, part)| part.len());
        // All labels have as many decimals as the finest of them needs.
        let decimals = ticks.iter().map(decimals).max().unwrap_or(0);
        // Adding zero turns a negative zero into zero.
        let tick = |tick: f64| (tick * scale, format!("{:.decimals$}", tick + 0.0));
        let title = symbol.map_or(title.to_owned(), |(symbol, _)| format!("{title} ({symbol})"));
        let ticks = ticks.into_iter().map(tick).collect();
        Self { title, scale: Scale::Linear, low, high, ticks, minor: Vec::new() }
    }

    /// A linear axis from 0 to slightly above the largest of `values`, all of which are at least 0.
    pub fn from_zero(title: &str, values: impl Iterator<Item = f64>) -> Self {
        Self::linear(title, (0.0, ends(values).1 * (1.0 + HEADROOM)), Unit::Number)
    }

    /// A linear axis of times in microseconds, from 0 unless all values lie close together.
    pub fn times(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (least, greatest) = ends(values);
        let room = (greatest - least).max(greatest / 100.0) * 2.0 * HEADROOM;
        let low = if least < START_AT_ZERO_BELOW * greatest { 0.0 } else { least - room };
        Self::linear(title, (low, greatest + room), Unit::Micros)
    }

    /// A linear axis of channel counts up to `most`, with ticks at multiples of a power of two.
    pub fn channels(title: &str, most: u32) -> Self {
        let mut axis = Self::linear(title, (0.0, f64::from(most) * (1.0 + HEADROOM / 2.0)), Unit::Number);
        let step = most.max(1).div_ceil(MAX_LABELS as u32).next_power_of_two();
        axis.ticks =
            (0..=most / step).map(|tick| (f64::from(tick * step), (tick * step).to_string())).collect();
        axis
    }

    /// A logarithmic axis that covers `values`, all above 0, with some room beyond them.
    pub fn logarithmic(title: &str, values: impl Iterator<Item = f64>, unit: Unit) -> Self {
        let held = values.filter(|value| (1.0 / MAX_VALUE..=MAX_VALUE).contains(value));
        let (low, high) = ends(held.map(f64::log10));
        let room = ((high - low) * HEADROOM).max((MIN_RATIO.log10() - (high - low)) / 2.0);
        Self::between(title, (10f64.powf(low - room), 10f64.powf(high + room)), unit)
    }

    /// A logarithmic axis from `low`, above 0, to a greater `high`.
    pub fn between(title: &str, (low, high): (f64, f64), unit: Unit) -> Self {
        let decades = low.log10().floor() as i32..=high.log10().floor() as i32;
        let value = |(multiple, exponent): (u32, i32)| f64::from(multiple) * 10f64.powi(exponent);
        let range = low * (1.0 - ROUNDING)..=high * (1.0 + ROUNDING);
        let on_axis = |multiples: &[u32], every: i32| -> Vec<(u32, i32)> {
            let exponents = decades.clone().filter(|exponent| exponent.rem_euclid(every) == 0);
            let ticks =
                exponents.flat_map(|exponent| multiples.iter().map(move |&multiple| (multiple, exponent)));
            ticks.filter(|&tick| range.contains(&value(tick))).collect()
        };
        let fits = |ticks: &Vec<(u32, i32)>| ticks.len() <= MAX_LABELS;
        let finest = LABELLED.iter().map(|multiples| on_axis(multiples, 1)).find(fits);
        let labelled = finest
            .or_else(|| (2..=MAX_DECADES).map(|every| on_axis(&[1], every)).find(fits))
            .unwrap_or_default();
        let span = decades.end() - decades.start();
        let minor = if span <= MAX_MINOR_DECADES { on_axis(MULTIPLES, 1) } else { Vec::new() };
        Self {
            title: title.to_owned(),
            scale: Scale::Logarithmic,
            low,
            high,
            ticks: labelled.into_iter().map(|tick| (value(tick), unit.show(tick.0, tick.1))).collect(),
            minor: minor.into_iter().map(value).collect(),
        }
    }

    /// Adds a tick `0` at `place` and removes those below `first`: a logarithmic axis has no 0 of its
    /// own.
    #[must_use]
    pub fn with_zero_at(mut self, place: f64, first: f64) -> Self {
        self.ticks.retain(|tick| tick.0 >= first * (1.0 - ROUNDING));
        self.minor.retain(|&tick| tick >= first);
        self.ticks.push((place, "0".to_owned()));
        self
    }

    /// An axis from `low` to `high` with names as ticks; it runs downwards if `low` is greater than
    /// `high`.
    pub(crate) fn named(title: &str, (low, high): (f64, f64), ticks: Vec<(f64, String)>) -> Self {
        Self { title: title.to_owned(), scale: Scale::Named, low, high, ticks, minor: Vec::new() }
    }

    /// Position of a value: 0 at the lower end of the axis, 1 at the upper end.
    pub(crate) fn part(&self, value: f64) -> f64 {
        if self.scale == Scale::Logarithmic {
            return (value / self.low).log10() / (self.high / self.low).log10();
        }
        (value - self.low) / (self.high - self.low)
    }

    /// The values at the ends of the axis.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

/// The least and the greatest of the values that an axis can show; 0 and 0 without any.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| value.abs() <= MAX_VALUE).map(|value| (value, value));
    values.reduce(|(low, high), (value, _)| (low.min(value), high.max(value))).unwrap_or_default()
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.part(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.minor.clone()
        } else {
            self.ticks.iter().map(|tick| tick.0).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0.to_bits() == value.to_bits());
        tick.map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
