//! Range checks on parsed data, which report the path of the offending key.
//!
//! serde checks types and unknown keys; this module checks what types cannot express (a
//! clock is positive, an interval contains its value). The valid range of a value follows
//! from its key, which names its unit, so that tables need not enumerate their fields;
//! relations between two values are checked by the table itself. A check reports the key;
//! its position in the file is located later by that path, so that checked types carry
//! no source positions.

use std::fmt::Display;

use serde::Serialize;
use toml::{Table, Value};

use super::Quantity;
use super::cpu::CONTENTION_FACTORS;
use super::gpu::HostPath;
use crate::input::{Result, Text, Violation};

/// Maximum of a quantity: 10^9 in any unit of a profile (1,000 s in microseconds, an
/// exabyte per second in GB/s) is beyond any phone. Up to it, the models' equations stay
/// finite.
const MAX_QUANTITY: f64 = 1e9;

/// Minimum of a quantity that must be positive, such as a divisor.
const MIN_POSITIVE: f64 = 1e-9;

/// Maximum factor of an interval around a prediction.
const MAX_FACTOR: f64 = 1e3;

/// Keys of quantities that are divisors or meaningless at zero, in addition to those with a
/// unit in [`POSITIVE_UNITS`].
const POSITIVE: [&str; 13] = [
    "active_watts",
    "bytes_per_weight",
    "fixed_cost_factor",
    "long_row_elements",
    "mixed_cluster_factor",
    "on_chip_bytes",
    "product_rate_factor",
    "rate_factor",
    "sleep_granularity_us",
    "slowdown_factor",
    "vector_rate_factor",
    "volume_rate_factor",
    "waves",
];

/// Units of clocks, rates and sizes, which must be above zero. The exception is `onset_gbps`:
/// interference may start at the first byte.
const POSITIVE_UNITS: [&str; 6] = ["_gbps", "_gb", "_mhz", "_teraflops", "_per_cycle", "_per_ns"];

/// Valid range of a quantity.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    /// Above zero: from 1e-9 to 1e9.
    Positive,
    /// From zero to 1e9.
    NonNegative,
    /// From the first value to the second.
    Within([f64; 2]),
}

impl Limits {
    /// Minimum and maximum, and their description for messages.
    fn range(self) -> ([f64; 2], String) {
        match self {
            Self::Positive => (
                [MIN_POSITIVE, MAX_QUANTITY],
                format!("a number above 0, from {MIN_POSITIVE:e} to {MAX_QUANTITY:e}"),
            ),
            Self::NonNegative => ([0.0, MAX_QUANTITY], format!("a number from 0 to {MAX_QUANTITY:e}")),
            Self::Within([low, high]) => ([low, high], format!("a number from {low} to {high}")),
        }
    }

    fn of(key: &str) -> Self {
        match key {
            "contention_factor"
            | "memory_contention_factor"
            | "straggler_factor"
            | "whole_cluster_slowdown_factor" => Self::Within(CONTENTION_FACTORS),
            "kernel_factor" => Self::Within(HostPath::KERNEL_FACTORS),
            // Beyond this, a client is starved rather than slowed down.
            "crowded_slowdown_factor" => Self::Within([1.0, 100.0]),
            // A deviation larger than the median itself is noise.
            "cpu_percent" | "gpu_percent" | "npu_percent" => Self::Within([0.0, 100.0]),
            "onset_gbps" => Self::NonNegative,
            key if POSITIVE.contains(&key) || POSITIVE_UNITS.iter().any(|unit| key.ends_with(unit)) => {
                Self::Positive
            }
            _ => Self::NonNegative,
        }
    }
}

/// Maximum of a count.
fn max_count(key: &str) -> u32 {
    match key {
        // The largest server processors.
        "cores" => 256,
        // Far above any core's private cache.
        "l1_cache_bytes" | "l2_cache_bytes" => 1 << 30,
        // Streams of memory traffic: shares are not known to a finer resolution.
        "gpu" | "npu" => 1_000,
        // Parts of a processor (compute units, lanes, columns): a hundred times what
        // exists, while products of a few still fit `u64`.
        _ => 1 << 20,
    }
}

/// Collects violations while descending into tables.
#[derive(Debug, Default)]
pub struct Checker {
    path: Vec<String>,
    /// The violations, in the order of the checks.
    pub violations: Vec<Violation>,
}

impl Checker {
    /// Fails with the first violation, located in `text`.
    ///
    /// # Errors
    /// If there is a violation.
    pub fn refuse(self, text: &Text) -> Result<()> {
        self.violations.into_iter().next().map_or(Ok(()), |violation| Err(text.reject(violation)))
    }

    /// Runs `check` inside the table `key`.
    pub fn table(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        check(self);
        self.path.pop();
    }

    /// Runs `check` inside the table `key` if it is present.
    pub fn optional<T>(&mut self, key: &str, table: Option<&T>, check: impl FnOnce(&T, &mut Self)) {
        if let Some(table) = table {
            self.table(key, |checker| check(table, checker));
        }
    }

    /// Runs `check` inside each element of the array of tables `key`.
    pub fn each<T>(&mut self, key: &str, items: &[T], mut check: impl FnMut(&T, &mut Self)) {
        for (index, item) in items.iter().enumerate() {
            self.table(&format!("{key}[{index}]"), |checker| check(item, checker));
        }
    }

    /// Records that `key` has the value `found` instead of `expected`.
    pub fn violation(&mut self, key: &str, found: impl Display, expected: impl Into<String>) {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        self.violations.push(Violation::new(path.join("."), found, expected));
    }

    /// Checks that `low_factor` and `high_factor` are the ends of an interval around a prediction.
    pub fn factors(&mut self, low_factor: f64, high_factor: f64) {
        for (key, factor, least) in
            [("low_factor", low_factor, 0.0), ("high_factor", high_factor, low_factor)]
        {
            if !(factor > 0.0 && (least..=MAX_FACTOR).contains(&factor)) {
                let expected = format!("a number above 0, from {least} to {MAX_FACTOR}");
                self.violation(key, factor, expected);
            }
        }
    }

    /// Checks every source, count and quantity of `table` and of nested tables against the range of
    /// its key.
    pub fn values(&mut self, table: &impl Serialize) {
        // Values parsed from TOML serialise to TOML.
        if let Ok(table) = Table::try_from(table) {
            self.entries(&table);
        }
    }

    fn entries(&mut self, table: &Table) {
        for (key, value) in table {
            match value {
                Value::String(source) if key == "source" => self.sourced(source),
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.value(&format!("{key}[{index}]"), key, item);
                    }
                }
                Value::Integer(count) => {
                    self.count(key, u32::try_from(*count).unwrap_or(u32::MAX), max_count(key));
                }
                value => self.value(key, key, value),
            }
        }
    }

    /// Checks the value at `path` of the current table against the range of `key`.
    fn value(&mut self, path: &str, key: &str, value: &Value) {
        match value {
            Value::Table(table) if !table.contains_key("value") => {
                self.table(path, |checker| checker.entries(table));
            }
            Value::Float(_) | Value::Table(_) => {
                if let Ok(quantity) = value.clone().try_into() {
                    self.limited(path, &quantity, Limits::of(key));
                }
            }
            // Only floats are quantities.
            _ => {}
        }
    }

    /// Checks that `quantity` is within `limits`, and that its source and interval are valid.
    pub fn limited(&mut self, key: &str, quantity: &Quantity, limits: Limits) {
        let value = quantity.value;
        let ([least, most], expected) = limits.range();
        if !(least..=most).contains(&value) {
            self.violation(key, short(value), expected);
            return;
        }
        if quantity.source.as_deref().is_some_and(|source| source.trim().is_empty()) {
            self.violation(key, "an empty source", "where the value comes from");
        }
        if let Some([low, high]) = quantity.ci95
            && !(low <= value && value <= high)
        {
            self.violation(key, format!("ci95 [{low}, {high}]"), format!("an interval around {value}"));
        }
    }

    /// Checks that `value`, if present, is within `range`.
    pub fn within(&mut self, key: &str, value: Option<f64>, range: [f64; 2]) {
        if let Some(value) = value {
            self.limited(key, &Quantity::plain(value), Limits::Within(range));
        }
    }

    /// Checks that `count` is from 1 to `most`.
    pub fn count(&mut self, key: &str, count: u32, most: u32) {
        if !(1..=most).contains(&count) {
            self.violation(key, count, format!("a whole number from 1 to {most}"));
        }
    }

    /// Checks that `source` is not empty.
    pub fn sourced(&mut self, source: &str) {
        if source.trim().is_empty() {
            self.violation("source", "nothing", "where the table's values come from");
        }
    }
}

/// The items whose `name` an earlier item has, with their indices.
pub(crate) fn repeated<'a, T, Name: PartialEq>(
    items: &'a [T],
    name: impl Fn(&'a T) -> Name,
) -> impl Iterator<Item = (usize, &'a T)> {
    let is_taken = move |index: usize| items[..index].iter().any(|other| name(other) == name(&items[index]));
    items.iter().enumerate().filter(move |(index, _)| is_taken(*index))
}

/// Formats a number, in scientific notation if it would be long.
fn short(value: f64) -> String {
    const MAX_CHARACTERS: usize = 20;
    let plain = value.to_string();
    if plain.len() > MAX_CHARACTERS { format!("{value:e}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_names_the_whole_path() {
        let mut checker = Checker::default();
        checker.table("cpu", |checker| {
            checker.each("cluster", &[2.0, -1.0], |&clock, checker| {
                checker.limited("clock_mhz", &Quantity::plain(clock), Limits::Positive);
            });
        });
        let violations = checker.violations;
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].key, "cpu.cluster[1].clock_mhz");
        assert_eq!(violations[0].found, "-1");
    }

    #[test]
    fn quantities_for_which_the_equations_are_not_finite_are_rejected() {
        let mut checker = Checker::default();
        for value in [1e308, 1e-300, f64::NAN, f64::INFINITY, -0.0] {
            checker.limited("clock_mhz", &Quantity::plain(value), Limits::Positive);
        }
        checker.limited("launch_us", &Quantity::plain(0.0), Limits::NonNegative);
        checker.limited("launch_us", &Quantity::plain(1e10), Limits::NonNegative);
        let found: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
        assert_eq!(found.iter().filter(|key| *key == "clock_mhz").count(), 5);
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn an_interval_holds_its_value() {
        let mut checker = Checker::default();
        let stray = Quantity { value: 3.0, source: Some("fit".into()), ci95: Some([1.0, 2.0]) };
        checker.limited("launch_us", &stray, Limits::Positive);
        assert_eq!(checker.violations[0].expected, "an interval around 3");
    }
}
