//! Alignment of the host's clock with the device's.
//!
//! A driver stamps a command with the device's clock when the host enqueues it, between two
//! readings of the host's clock. Each command thus bounds the offset between the clocks from both
//! sides, and several consecutive commands bound it tightly. Only a few are combined, because
//! clocks drift: a time server slews a clock by hundreds of parts per million.

use std::time::Instant;

use coexec_sim::Picos;

/// Commands before and after one whose bounds are intersected with its own.
const NEIGHBOURS: usize = 8;

/// The offset between two clocks at each of several commands.
pub(super) struct Clock {
    base: Instant,
    /// For each command, lower and upper bound of host nanoseconds since `base` minus device
    /// nanoseconds.
    bounds: Vec<[i128; 2]>,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), bounds: Vec::new() }
    }

    /// Records that a command was stamped `queued`, between the host's readings in `bracket`.
    pub(super) fn observe(&mut self, queued: u64, bracket: [Instant; 2]) {
        self.bounds.push(bracket.map(|at| self.host(at) - i128::from(queued)));
    }

    /// At command `command`: the time from `from` on the device's clock to `to` on the host's; zero
    /// where `to` is not later.
    pub(super) fn since_device(&self, command: usize, from: u64, to: Instant) -> Picos {
        picos(self.host(to) - i128::from(from) - self.difference(command))
    }

    /// At command `command`: the time from `from` on the host's clock to `to` on the device's; zero
    /// where `to` is not later.
    pub(super) fn until_device(&self, command: usize, from: Instant, to: u64) -> Picos {
        picos(i128::from(to) + self.difference(command) - self.host(from))
    }

    /// Uncertainty of a time across both clocks, in either direction, at the median command.
    pub(super) fn uncertainty(&self) -> Picos {
        let half = |[least, most]: [i128; 2]| most.saturating_sub(least).abs() / 2;
        let mut halves: Vec<i128> =
            (0..self.bounds.len()).map(|command| half(self.interval(command))).collect();
        halves.sort_unstable();
        // Crossed bounds mean that the clocks drifted apart by as much.
        halves.get(halves.len() / 2).map_or(Picos::ZERO, |&half| picos(half))
    }

    fn difference(&self, command: usize) -> i128 {
        let [least, most] = self.interval(command);
        i128::midpoint(least, most)
    }

    /// The intersection of the bounds of a command and its neighbours.
    fn interval(&self, command: usize) -> [i128; 2] {
        let last = (command + NEIGHBOURS + 1).min(self.bounds.len());
        let near = &self.bounds[command.saturating_sub(NEIGHBOURS).min(last)..last];
        near.iter()
            .fold([i128::MIN, i128::MAX], |[least, most], &[low, high]| [least.max(low), most.min(high)])
    }

    /// Nanoseconds from `base` to a later instant.
    fn host(&self, at: Instant) -> i128 {
        i128::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(i128::MAX)
    }
}

fn picos(nanoseconds: i128) -> Picos {
    Picos::from_nanos(nanoseconds.max(0) as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let late = clock.since_device(0, 1_040_000, known);
        assert_eq!(late, Picos::from_nanos(1_500.0));
        assert_eq!(clock.until_device(1, known, 1_040_000), Picos::ZERO);
    }

    #[test]
    fn a_clock_that_drifts_is_compared_at_each_command() {
        let mut clock = Clock::new();
        let base = clock.base;
        // One command per millisecond; the device's clock gains 200 ns from each to the next.
        let device = |command: u64| 1_000_000 * command + 200 * command;
        for command in 0..1_000 {
            let queued = base + Duration::from_millis(command);
            clock.observe(device(command) + 2_000, [queued, queued + Duration::from_micros(4)]);
        }
        // 5 us after each command on the device's clock.
        for command in [100, 500, 900] {
            let known = base + Duration::from_millis(command) + Duration::from_micros(5);
            let late = clock.since_device(command as usize, device(command), known);
            assert!((late.as_micros() - 5.0).abs() < 0.5, "{late}");
        }
    }
}
