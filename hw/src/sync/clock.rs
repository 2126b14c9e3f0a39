//! What the host's clock shows at an instant of the device's.
//!
//! Drivers stamp a command with the device's clock when the host queues it, between two
//! readings of the host's clock: each command bounds the difference of the clocks from
//! both sides, and many bound it closely.

use std::time::{Duration, Instant};

use coexec_sim::units::Picos;

/// The difference of two clocks, between bounds that shrink with every command.
pub(super) struct Clock {
    base: Instant,
    /// Bounds of the host's nanoseconds since `base` less the device's.
    least: i128,
    most: i128,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), least: i128::MIN, most: i128::MAX }
    }

    /// A command was queued at `queued`, between two readings of the host's clock.
    pub(super) fn observe(&mut self, queued: u64, [before, after]: [Instant; 2]) {
        self.least = self.least.max(self.host(before) - i128::from(queued));
        self.most = self.most.min(self.host(after) - i128::from(queued));
    }

    /// From `from` by the device's clock to `to` by the host's; zero where it is not
    /// later.
    pub(super) fn since_device(&self, from: u64, to: Instant) -> Picos {
        picos(self.host(to) - i128::from(from) - self.difference())
    }

    /// From `from` by the host's clock to `to` by the device's.
    pub(super) fn until_device(&self, from: Instant, to: u64) -> Picos {
        picos(i128::from(to) + self.difference() - self.host(from))
    }

    /// How far a time across the clocks may be off, either way.
    pub(super) fn uncertainty(&self) -> Picos {
        // Bounds that cross mean that one clock drifted against the other by as much.
        picos(self.most.saturating_sub(self.least).abs() / 2)
    }

    fn difference(&self) -> i128 {
        i128::midpoint(self.least, self.most)
    }

    fn host(&self, at: Instant) -> i128 {
        let since = |later: Instant, earlier: Instant| nanoseconds(later.saturating_duration_since(earlier));
        since(at, self.base) - since(self.base, at)
    }
}

fn nanoseconds(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

fn picos(nanoseconds: i128) -> Picos {
    Picos::from_nanos(nanoseconds.max(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_narrows_the_bounds_of_the_difference() {
        let mut clock = Clock::new();
        let at = |micros: u64| clock.base + Duration::from_micros(micros);
        // The device's clock is 1,000 us ahead.
        let commands = [(1_010_000, [at(5), at(12)]), (1_020_000, [at(19), at(30)])];
        let known = at(42);
        for (queued, bracket) in commands {
            clock.observe(queued, bracket);
        }
        assert_eq!(clock.uncertainty(), Picos::from_nanos(1_500.0));
        // The first puts the device 998 to 1,005 us ahead, the second 990 to 1,001.
        let late = clock.since_device(1_040_000, known);
        assert_eq!(late, Picos::from_nanos(1_500.0));
        assert_eq!(clock.until_device(known, 1_040_000), Picos::ZERO);
    }
}
