//! Memory bandwidth: in total, and for each client under interference.
//!
//! Responsible for: the curve of total bandwidth over the number of processors, and
//! how much a client slows down as the demand of the others grows. Not for: how the
//! bandwidth is shared (`fluid`), or where the curves come from (`device`).
//! Invariants: a client alone keeps its full rate; the more the others demand, the
//! less it keeps.

use super::MAX_PROCESSORS;
use crate::units::{BytesPerSecond, PICOS_PER_SECOND};

/// Maximum number of clients with an interference curve or weight of their own: one
/// per processor and one per CPU cluster.
pub const MAX_CLIENTS: usize = MAX_PROCESSORS;

/// A client of the memory: traffic that shares one interference curve and one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u8);

/// How much of its rate a client keeps under contention.
///
/// Three regions of the others' demand, the shape that PCCS (MICRO'21) found on
/// three systems-on-chip: no slowdown up to the onset, then a linear decrease of the
/// rate up to the saturation, constant beyond. With `x` the fraction of the way from
/// onset to saturation,
///
/// ```text
/// rate = min(own demand / (1 + x * (crowded slowdown - 1)), alone + x * (crowded - alone))
/// ```
///
/// so that a client of low demand is slowed by a small factor, and one of high demand
/// is limited once less bandwidth is left than it demands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interference {
    /// Demand of the others up to which there is no slowdown, in bytes per picosecond.
    onset: f64,
    /// Demand of the others beyond which the slowdown is constant, in bytes per picosecond.
    saturation: f64,
    /// The client's maximum rate up to the onset, in bytes per picosecond.
    alone: f64,
    /// The client's maximum rate from the saturation on, in bytes per picosecond.
    crowded: f64,
    /// Slowdown factor of a client of low demand, from the saturation on.
    crowded_slowdown: f64,
}

impl Interference {
    /// A curve through the points that [`Interference`] describes.
    ///
    /// # Panics
    /// Unless `0 <= onset < saturation`, `0 < crowded <= alone` and
    /// `crowded_slowdown >= 1`, which the checks of a device profile guarantee.
    pub fn new(
        [onset, saturation]: [BytesPerSecond; 2],
        [alone, crowded]: [BytesPerSecond; 2],
        crowded_slowdown: f64,
    ) -> Self {
        assert!(0.0 <= onset.0 && onset.0 < saturation.0, "contention starts before it saturates");
        assert!(0.0 < crowded.0 && crowded.0 <= alone.0, "a crowded memory moves no more for one client");
        assert!(crowded_slowdown >= 1.0, "interference speeds up no client");
        let [onset, saturation, alone, crowded] =
            [onset, saturation, alone, crowded].map(|rate| rate.0 / PICOS_PER_SECOND);
        Self { onset, saturation, alone, crowded, crowded_slowdown }
    }

    /// The fraction of its standalone rate that a client with demand `own` keeps while
    /// the others demand `others`, both in bytes per picosecond. A demand above the
    /// client's standalone maximum counts as that maximum.
    pub fn kept_fraction(&self, own: f64, others: f64) -> f64 {
        let crowding = ((others - self.onset) / (self.saturation - self.onset)).clamp(0.0, 1.0);
        let pace = 1.0 / (1.0 + crowding * (self.crowded_slowdown - 1.0));
        let room = self.alone - crowding * (self.alone - self.crowded);
        (room / own.min(self.alone)).min(pace)
    }
}

/// Total bandwidth of a memory by the number of active processors, and how its
/// clients interfere.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Bytes per picosecond; entry `i` for `i + 1` processors.
    rates: [f64; MAX_PROCESSORS],
    /// The interface's peak, in bytes per picosecond; infinite if it is not known.
    peak: f64,
    /// The largest rate for several processors, relative to the peak; zero if that is not known.
    attained: f64,
    /// By client; clients without a curve, or beyond the end, are subject to max-min sharing alone.
    interference: Vec<Option<Interference>>,
    /// Weight of a stream in max-min sharing, by client.
    weights: [u32; MAX_CLIENTS],
}

impl Capacity {
    /// A bandwidth curve: entry `i` holds for `i + 1` processors, the last also for more.
    ///
    /// # Panics
    /// If `rates` is empty or a rate is not positive and finite, which the checks of a
    /// device profile rule out.
    pub fn new(rates: &[BytesPerSecond]) -> Self {
        assert!(!rates.is_empty(), "a capacity has at least one rate");
        assert!(rates.iter().all(|rate| rate.0 > 0.0 && rate.0.is_finite()), "a capacity is positive");
        let last = rates.len() - 1;
        let rates = std::array::from_fn(|i| rates[i.min(last)].0 / PICOS_PER_SECOND);
        Self {
            rates,
            peak: f64::INFINITY,
            attained: 0.0,
            interference: Vec::new(),
            weights: [1; MAX_CLIENTS],
        }
    }

    /// The same capacity of an interface whose peak is `peak`: next to others, a processor alone faster than the
    /// capacity for one is slowed so far that all of them together do not exceed the peak.
    #[must_use]
    pub fn with_peak(mut self, peak: BytesPerSecond) -> Self {
        self.peak = peak.0 / PICOS_PER_SECOND;
        self.attained = self.rates[1..].iter().copied().fold(0.0, f64::max) / self.peak;
        self
    }

    /// The same capacity, with `interference` capping the rate of `client` in addition to
    /// max-min sharing.
    ///
    /// # Panics
    /// If the client's number is [`MAX_CLIENTS`] or more.
    #[must_use]
    pub fn with_interference(mut self, client: ClientId, interference: Interference) -> Self {
        let index = usize::from(client.0);
        assert!(index < MAX_CLIENTS, "there are at most {MAX_CLIENTS} clients");
        if self.interference.len() <= index {
            self.interference.resize(index + 1, None);
        }
        self.interference[index] = Some(interference);
        self
    }

    /// The same capacity, with each stream of `client` counting as `weight` streams in
    /// (weighted) max-min sharing.
    ///
    /// # Panics
    /// If the client's number is [`MAX_CLIENTS`] or more, or `weight` is zero.
    #[must_use]
    pub fn with_weight(mut self, client: ClientId, weight: u32) -> Self {
        assert!(weight > 0, "a client without weight would move nothing");
        self.weights[usize::from(client.0)] = weight;
        self
    }

    /// How many streams a stream of `client` counts as.
    pub(super) fn weight(&self, client: ClientId) -> u32 {
        self.weights.get(usize::from(client.0)).copied().unwrap_or(1)
    }

    /// What a processor that moves `rate` alone demands next to others, both in bytes per picosecond. A kernel's time
    /// alone is measured, cache hits included, so that its bytes may claim more than the rate for one processor; then
    /// it demands that rate. But the hits are not known, so that it demands at least the fraction of its claim, up to
    /// the interface's peak, with which several such processors together claim no more than that peak.
    pub fn demand(&self, rate: f64) -> f64 {
        rate.min(self.alone().max(rate.min(self.peak) * self.attained))
    }

    /// Bandwidth of a single processor, in bytes per picosecond.
    pub(super) fn alone(&self) -> f64 {
        self.rates[0]
    }

    /// Total bandwidth of `processors` active processors, in bytes per picosecond.
    pub(super) fn bandwidth_of(&self, processors: usize) -> f64 {
        self.rates[processors.clamp(1, MAX_PROCESSORS) - 1]
    }

    /// Whether any client has an interference curve.
    pub(super) fn has_interference(&self) -> bool {
        !self.interference.is_empty()
    }

    /// [`Interference::kept_fraction`] of a client; 1 where it has no interference curve.
    pub(super) fn kept_fraction(&self, client: ClientId, own: f64, others: f64) -> f64 {
        let interference = self.interference.get(usize::from(client.0)).and_then(Option::as_ref);
        interference.map_or(1.0, |interference| interference.kept_fraction(own, others))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Onset 10 GB/s, saturation 30 GB/s, rate falling from 20 to 8 GB/s, slowdown of 10 % at low demand.
    fn curve() -> Interference {
        let rates = |gigabytes: [f64; 2]| gigabytes.map(BytesPerSecond::from_gigabytes);
        Interference::new(rates([10.0, 30.0]), rates([20.0, 8.0]), 1.1)
    }

    #[test]
    fn a_claim_counts_up_to_the_rate_for_one_or_its_part_of_the_peak() {
        let rates = [40.0, 56.0, 60.0].map(BytesPerSecond::from_gigabytes);
        let unknown = Capacity::new(&rates);
        let known = Capacity::new(&rates).with_peak(BytesPerSecond::from_gigabytes(80.0));
        let demand = |capacity: &Capacity, gigabytes: f64| capacity.demand(gigabytes / 1e3) * 1e3;
        for (claim, without_peak, with_peak) in [
            (30.0, 30.0, 30.0),
            (50.0, 40.0, 40.0),
            (64.0, 40.0, 48.0),
            (80.0, 40.0, 60.0),
            (400.0, 40.0, 60.0),
        ] {
            assert!((demand(&unknown, claim) - without_peak).abs() < 1e-9, "{claim}");
            assert!((demand(&known, claim) - with_peak).abs() < 1e-9, "{claim}");
        }
        let one = Capacity::new(&rates[..1]).with_peak(BytesPerSecond::from_gigabytes(80.0));
        assert!((demand(&one, 80.0) - 40.0).abs() < 1e-9, "a single entry holds for several, too");
    }

    /// The fraction that a client with demand `own` keeps, both demands in GB/s.
    fn kept(own: f64, others: f64) -> f64 {
        curve().kept_fraction(own / 1e3, others / 1e3)
    }

    #[test]
    fn interference_has_three_regions() {
        let expected = [(0.0, 1.0), (10.0, 1.0), (20.0, 14.0 / 16.0), (30.0, 0.5), (100.0, 0.5)];
        for (others, part) in expected {
            assert!((kept(16.0, others) - part).abs() < 1e-12, "{others}");
        }
        // Halfway, 14 of 16 GB/s are left, and a client of low demand is slowed by 5 %.
        assert!((kept(1.0, 20.0) - 1.0 / 1.05).abs() < 1e-12);
        assert!((kept(50.0, 30.0) - 0.4).abs() < 1e-12, "counts as a demand of 20 GB/s");
    }

    proptest! {
        #[test]
        fn there_is_no_slowdown_up_to_the_onset(own in 0.001_f64..100.0, others in 0.0_f64..10.0) {
            prop_assert_eq!(kept(own, others).to_bits(), 1.0_f64.to_bits());
        }

        #[test]
        fn more_demand_of_others_never_helps(own in 0.001_f64..100.0, others in 0.0_f64..50.0, more in 0.0_f64..50.0) {
            let (less, crowded) = (kept(own, others), kept(own, others + more));
            prop_assert!(0.0 < crowded && crowded <= less && less <= 1.0);
        }

        #[test]
        fn a_higher_demand_never_gets_a_lower_rate(own in 0.001_f64..100.0, others in 0.0_f64..50.0, more in 0.0_f64..50.0) {
            let rate = |own: f64| own * kept(own, others);
            prop_assert!(rate(own) <= rate(own + more) * (1.0 + 1e-12));
        }
    }
}
