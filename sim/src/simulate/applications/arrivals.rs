//! Arrival times of an application's requests.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardUniform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_COMMANDS;
use crate::device::Checker;
use crate::units::{MILLIS_PER_DAY, PICOS_PER_SECOND, Picos};

/// Least period: the unit of simulated time.
const PICOSECOND_MS: f64 = 1e-9;
const MILLIS_PER_SECOND: f64 = 1e3;

/// When requests arrive: periodically, or at random with a rate (a Poisson process, as in `MLPerf` Inference's
/// server scenario).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// Time from one request to the next, in milliseconds. Give either this or `rate_per_second`.
    pub period_ms: Option<f64>,
    /// Arrival of the first periodic request, in milliseconds; 0 unless given.
    pub offset_ms: Option<f64>,
    /// Each periodic request is late by up to this many milliseconds, uniformly distributed; 0 unless given.
    pub jitter_ms: Option<f64>,
    /// Mean number of requests per second, arriving independently of each other.
    pub rate_per_second: Option<f64>,
}

impl Arrivals {
    /// Checks the values for requests that arrive within `duration_s`.
    pub(crate) fn check(&self, duration_s: f64, checker: &mut Checker) {
        let periods = [PICOSECOND_MS, MILLIS_PER_DAY];
        let [most_a_second, least_a_second] = periods.map(|period| MILLIS_PER_SECOND / period);
        checker.within("period_ms", self.period_ms, periods);
        checker.within("offset_ms", self.offset_ms, [0.0, MILLIS_PER_DAY]);
        if let Some(offset_ms) =
            self.offset_ms.filter(|&offset_ms| offset_ms >= duration_s * MILLIS_PER_SECOND)
        {
            checker.violation("offset_ms", offset_ms, "an arrival before the end of duration_s");
        }
        checker.within("jitter_ms", self.jitter_ms, [0.0, MILLIS_PER_DAY]);
        checker.within("rate_per_second", self.rate_per_second, [least_a_second, most_a_second]);
        if self.period_ms.is_some() == self.rate_per_second.is_some() {
            let found = if self.period_ms.is_some() { "not the only one" } else { "missing" };
            checker.violation("period_ms", found, "either period_ms or rate_per_second");
        }
        if self.rate_per_second.is_some() && (self.offset_ms.is_some() || self.jitter_ms.is_some()) {
            checker.violation(
                "rate_per_second",
                "given with offset_ms or jitter_ms",
                "these only with period_ms",
            );
        }
    }

    /// Mean time from one request to the next.
    pub fn period(&self) -> Picos {
        let of_rate = || self.rate_per_second.map(|rate| MILLIS_PER_SECOND / rate);
        let period_ms = self.period_ms.or_else(of_rate).unwrap_or_default();
        Picos::from_millis(period_ms).max(Picos(1))
    }

    /// Ascending arrival times before `duration`, drawn from stream number `application` of `seed`; no more than are
    /// needed to refuse them.
    pub fn times(&self, duration: Picos, seed: u64, application: u64) -> Vec<Picos> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(application);
        let picos = |millis: Option<f64>| Picos::from_millis(millis.unwrap_or_default());
        if let Some(rate) = self.rate_per_second {
            let mut gap = || {
                let gap: f64 = Exp1.sample(&mut random);
                Some(Picos((gap / rate * PICOS_PER_SECOND) as u64))
            };
            let first = gap();
            let next = |&last: &Picos| gap().map(|gap| last.saturating_add(gap));
            let times = std::iter::successors(first, next).take_while(|&time| time < duration);
            return times.take(MAX_COMMANDS as usize + 1).collect();
        }
        let [offset, jitter] = [self.offset_ms, self.jitter_ms].map(picos);
        let next = |&last: &Picos| Some(last.saturating_add(self.period()));
        let due = std::iter::successors(Some(offset), next).take_while(|&time| time < duration);
        let due = due.take(MAX_COMMANDS as usize + 1);
        let mut times: Vec<Picos> = due
            .map(|due| {
                let part: f64 = StandardUniform.sample(&mut random);
                due.saturating_add(jitter.scale(part))
            })
            .collect();
        // A list that was cut off stays too long, so that it is refused.
        if times.len() <= MAX_COMMANDS as usize {
            times.retain(|&time| time < duration);
        }
        times.sort_unstable();
        times
    }
}
