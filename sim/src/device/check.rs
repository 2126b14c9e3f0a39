//! Range checks over parsed data, with the path of the offending key.
//!
//! Types and unknown keys are serde's business; this module checks what a type
//! cannot say (a clock is positive, an interval holds its value). What a value may be
//! follows from its key, which names its unit, so that no table lists its fields again;
//! what holds between two values, the table says itself. A check names
//! the key; the place in the file is found later from that path, so that
//! checked types need no source positions in them.

use std::fmt::Display;

use serde::Serialize;
use toml::{Table, Value};

use super::Quantity;
use super::gpu::HostPath;
use crate::input::{Result, Text, Violation};

/// Largest magnitude of a quantity: 10^9 of any unit a profile uses (1,000 s in
/// microseconds, an exabyte a second in gigabytes) is no phone. Within it, the
/// equations of the models stay finite.
const LARGEST: f64 = 1e9;

/// Smallest quantity where none may not be: something is divided by it.
const SMALLEST: f64 = 1e-9;

/// Largest factor that a prediction may be off by; more is no prediction.
const LARGEST_FACTOR: f64 = 1e3;

/// Keys of quantities that something is divided by, or that mean nothing at zero, beside
/// those with a unit of [`POSITIVE_UNITS`].
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

/// Units of clocks, rates and sizes, which are above zero; but nothing may be felt from the
/// first byte on (`onset_gbps`).
const POSITIVE_UNITS: [&str; 6] = ["_gbps", "_gb", "_mhz", "_teraflops", "_per_cycle", "_per_ns"];

/// What the quantity of a key may be.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    /// Above zero, and neither vanishing nor beyond any phone.
    Positive,
    /// Zero or above, and not beyond any phone.
    NonNegative,
    /// From the first number to the second.
    Within(f64, f64),
}

impl Limits {
    /// Least and most, and how to say them.
    fn range(self) -> ([f64; 2], String) {
        match self {
            Self::Positive => {
                ([SMALLEST, LARGEST], format!("a number above 0, from {SMALLEST:e} to {LARGEST:e}"))
            }
            Self::NonNegative => ([0.0, LARGEST], format!("a number not below 0 and at most {LARGEST:e}")),
            Self::Within(low, high) => ([low, high], format!("a number from {low} to {high}")),
        }
    }

    fn of(key: &str) -> Self {
        match key {
            // Contention may be slightly negative in a fit (a core gains from data its neighbour
            // fetched); eight threads must still take time: 1 - 0.1 * 7 > 0. More than ten is a
            // percentage written for a fraction.
            "contention_factor"
            | "memory_contention_factor"
            | "straggler_factor"
            | "whole_cluster_slowdown_factor" => Self::Within(-0.1, 10.0),
            "kernel_factor" => Self::Within(HostPath::KERNEL_FACTORS[0], HostPath::KERNEL_FACTORS[1]),
            // A client that is slowed down more is not slowed but starved.
            "crowded_slowdown_factor" => Self::Within(1.0, 100.0),
            // A deviation beyond its median is noise.
            "cpu_percent" | "gpu_percent" | "npu_percent" => Self::Within(0.0, 100.0),
            "onset_gbps" => Self::NonNegative,
            key if POSITIVE.contains(&key) || POSITIVE_UNITS.iter().any(|unit| key.ends_with(unit)) => {
                Self::Positive
            }
            _ => Self::NonNegative,
        }
    }
}

/// Most that a count of a profile may be.
fn most(key: &str) -> u32 {
    match key {
        // What the largest server processors have.
        "cores" => 256,
        // Far more than any core's own cache has.
        "l1_cache_bytes" | "l2_cache_bytes" => 1 << 30,
        // Streams of memory traffic: a share is not known more finely.
        "gpu" | "npu" => 1_000,
        // Parts of a processor (compute units, lanes, columns): a hundred times what there is, so that
        // products of a few fit `u64`.
        _ => 1 << 20,
    }
}

/// Collects violations while it descends into tables.
#[derive(Debug, Default)]
pub struct Checker {
    path: Vec<String>,
    /// What was found, in the order of the checks.
    pub violations: Vec<Violation>,
}

impl Checker {
    /// The first violation as the error of `text`.
    ///
    /// # Errors
    /// Where there is a violation.
    pub fn refuse(self, text: &Text) -> Result<()> {
        self.violations.into_iter().next().map_or(Ok(()), |violation| Err(text.reject(violation)))
    }

    /// Runs `check` inside the table `key`.
    pub fn table(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        check(self);
        self.path.pop();
    }

    /// Runs `check` inside the table `key`, where there is one.
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

    /// Notes that `key` holds `found` where `expected` was needed.
    pub fn violation(&mut self, key: &str, found: impl Display, expected: impl Into<String>) {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        self.violations.push(Violation::new(path.join("."), found, expected));
    }

    /// `low_factor` and `high_factor` are the ends of an interval around a prediction.
    pub fn factors(&mut self, low_factor: f64, high_factor: f64) {
        for (key, factor, least) in
            [("low_factor", low_factor, 0.0), ("high_factor", high_factor, low_factor)]
        {
            if !(factor > 0.0 && (least..=LARGEST_FACTOR).contains(&factor)) {
                let expected = format!("a number above 0, from {least} to {LARGEST_FACTOR}");
                self.violation(key, factor, expected);
            }
        }
    }

    /// Every source, count and quantity of `table` and of the tables in it is what its key
    /// says that it may be.
    pub fn values(&mut self, table: &impl Serialize) {
        // What was parsed from TOML can be written as TOML.
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
                    self.count(key, u32::try_from(*count).unwrap_or(u32::MAX), most(key));
                }
                value => self.value(key, key, value),
            }
        }
    }

    /// The value at `path` of the table at work, of which `key` says what it may be.
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
            // Only numbers with a fraction are quantities.
            _ => {}
        }
    }

    /// `quantity` is a number within the limits, and what else it says makes sense.
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

    /// `value`, where there is one, is from `least` to `most`.
    pub fn within(&mut self, key: &str, value: Option<f64>, [least, most]: [f64; 2]) {
        if let Some(value) = value {
            self.limited(key, &Quantity::plain(value), Limits::Within(least, most));
        }
    }

    /// `count` is at least one and at most `most`.
    pub fn count(&mut self, key: &str, count: u32, most: u32) {
        if !(1..=most).contains(&count) {
            self.violation(key, count, format!("a whole number from 1 to {most}"));
        }
    }

    /// `source` says something.
    pub fn sourced(&mut self, source: &str) {
        if source.trim().is_empty() {
            self.violation("source", "nothing", "where the table's values come from");
        }
    }
}

/// Those of `items` whose `name` an earlier one has, and where they are.
pub(crate) fn repeated<'a, T, Name: PartialEq>(
    items: &'a [T],
    name: impl Fn(&'a T) -> Name,
) -> impl Iterator<Item = (usize, &'a T)> {
    let is_taken = move |index: usize| items[..index].iter().any(|other| name(other) == name(&items[index]));
    items.iter().enumerate().filter(move |(index, _)| is_taken(*index))
}

/// A number as a person would write it: not with 300 zeros.
fn short(value: f64) -> String {
    const MOST_CHARACTERS: usize = 20;
    let plain = value.to_string();
    if plain.len() > MOST_CHARACTERS { format!("{value:e}") } else { plain }
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
    fn no_quantity_is_beyond_what_the_equations_bear() {
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
