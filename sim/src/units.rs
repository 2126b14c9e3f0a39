//! Units of the simulator: simulated time, bytes, rates, work and energy.
//!
//! Responsible for: the newtypes that cross module boundaries, their conversions
//! and their display. Not for: arithmetic inside a kernel model, which works on
//! `f64` microseconds or nanoseconds and converts once, when it returns.
//! Invariant: simulated time is an integer number of picoseconds.

use std::fmt;

use derive_more::{Add, AddAssign, Mul, Sub, Sum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Picoseconds per nanosecond.
pub const PICOS_PER_NANO: f64 = 1e3;
const PICOS_PER_MICRO: f64 = 1e6;
/// Picoseconds per second.
pub const PICOS_PER_SECOND: f64 = 1e12;
/// Nanoseconds per microsecond.
pub const NANOS_PER_MICRO: f64 = 1e3;
/// Microseconds per millisecond.
pub const MICROS_PER_MILLI: f64 = 1e3;
/// Microseconds per second.
pub const MICROS_PER_SECOND: f64 = 1e6;
/// Bytes per gigabyte.
pub const BYTES_PER_GIGABYTE: f64 = 1e9;
/// Picojoules per joule.
pub const PICOJOULES_PER_JOULE: f64 = 1e12;
/// Seconds per day.
pub const SECONDS_PER_DAY: u64 = 24 * 3_600;
/// Milliseconds per day.
pub const MILLIS_PER_DAY: f64 = 1e3 * SECONDS_PER_DAY as f64;

/// A point in simulated time, or a duration, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[derive(Add, AddAssign, Sub, Mul, Sum)]
pub struct Picos(pub u64);

impl Picos {
    /// Time zero.
    pub const ZERO: Self = Self(0);
    /// Later than every simulated event.
    pub const MAX: Self = Self(u64::MAX);
    /// Upper limit of a duration converted from a real number: 2^58 ps (about three
    /// days), so that adding a few of them cannot overflow. `simulate` rejects runs long
    /// before that.
    pub const LONGEST: Self = Self(1 << 58);

    /// Rounds to the nearest picosecond; negative and NaN inputs become zero, values
    /// above [`Self::LONGEST`] are clamped to it.
    pub fn from_nanos(nanos: f64) -> Self {
        Self::from_real(nanos * PICOS_PER_NANO)
    }

    /// Rounds as [`Self::from_nanos`] does.
    pub fn from_millis(millis: f64) -> Self {
        Self::from_micros(millis * MICROS_PER_MILLI)
    }

    /// Rounds as [`Self::from_nanos`] does.
    pub fn from_micros(micros: f64) -> Self {
        Self::from_real(micros * PICOS_PER_MICRO)
    }

    fn from_real(picos: f64) -> Self {
        Self(picos.round() as u64).min(Self::LONGEST)
    }

    /// This time in microseconds.
    pub fn as_micros(self) -> f64 {
        self.0 as f64 / PICOS_PER_MICRO
    }

    /// This time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND
    }

    /// `self - other`, or zero where `other` is later.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, saturating at [`Self::MAX`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self * times`, saturating at [`Self::MAX`].
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self(self.0.saturating_mul(u64::from(times)))
    }

    /// This duration times `factor`, rounded as [`Self::from_nanos`] does.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self::from_real(self.0 as f64 * factor)
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.as_micros();
        let text = if micros >= 1e6 {
            format!("{:.2} s", micros / 1e6)
        } else if micros >= 1e4 {
            format!("{:.2} ms", micros / 1e3)
        } else {
            format!("{micros:.1} us")
        };
        f.pad(&text)
    }
}

/// An amount of memory or traffic, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[derive(Add, AddAssign, Sum)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let text = if bytes >= 1e9 {
            format!("{:.2} GB", bytes / 1e9)
        } else if bytes >= 1e6 {
            format!("{:.2} MB", bytes / 1e6)
        } else if bytes >= 1e3 {
            format!("{:.1} kB", bytes / 1e3)
        } else {
            format!("{} B", self.0)
        };
        f.pad(&text)
    }
}

/// A memory bandwidth, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

impl BytesPerSecond {
    /// From GB/s, 10^9 bytes per second.
    pub fn from_gigabytes(gigabytes_per_second: f64) -> Self {
        Self(gigabytes_per_second * 1e9)
    }

    /// In GB/s, 10^9 bytes per second.
    pub fn as_gigabytes(self) -> f64 {
        self.0 / 1e9
    }

    /// The mean rate of `bytes` moved in `time`; zero where `time` is zero.
    pub fn mean(bytes: Bytes, time: Picos) -> Self {
        if time == Picos::ZERO {
            return Self(0.0);
        }
        Self(bytes.0 as f64 / time.as_seconds())
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} GB/s", self.as_gigabytes()))
    }
}

/// Power, in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Watts(pub f64);

impl Watts {
    /// The energy consumed at this power in `time`.
    pub fn during(self, time: Picos) -> Joules {
        Joules(self.0 * time.as_seconds())
    }
}

/// Energy, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[derive(Add, AddAssign, Sum)]
pub struct Joules(pub f64);

impl fmt::Display for Joules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 >= 1.0 { format!("{:.3} J", self.0) } else { format!("{:.3} mJ", self.0 * 1e3) };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_microsecond_is_a_million_picoseconds() {
        assert_eq!(Picos::from_micros(1.5), Picos(1_500_000));
        assert_eq!(Picos::from_nanos(1.5), Picos(1_500));
        assert_eq!(Picos::from_micros(-1.0), Picos::ZERO);
        assert_eq!(Picos::from_micros(f64::NAN), Picos::ZERO);
    }

    #[test]
    fn the_sum_of_eight_longest_durations_does_not_overflow() {
        assert_eq!(Picos::from_micros(1e300), Picos::LONGEST);
        let total: Picos = [Picos::from_nanos(f64::INFINITY); 8].into_iter().sum();
        assert_eq!(total, Picos(1 << 61));
    }

    #[test]
    fn quantities_are_printed_in_suitable_units() {
        assert_eq!(Picos::from_micros(379.04).to_string(), "379.0 us");
        assert_eq!(Picos::from_micros(83_300.0).to_string(), "83.30 ms");
        assert_eq!(Bytes(4_718_592).to_string(), "4.72 MB");
        assert_eq!(Joules(0.003_201_4).to_string(), "3.201 mJ");
        assert_eq!(Joules(12.345_6).to_string(), "12.346 J");
    }

    #[test]
    fn mean_bandwidth_of_no_time_is_zero() {
        assert_eq!(BytesPerSecond::mean(Bytes(8), Picos::ZERO), BytesPerSecond(0.0));
        let rate = BytesPerSecond::mean(Bytes(1_000), Picos::from_micros(1.0));
        assert!((rate.as_gigabytes() - 1.0).abs() < 1e-12);
    }
}
