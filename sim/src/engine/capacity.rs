//! What a memory moves: in all, and for each client beside the others.
//!
//! Responsible for: the curve of the total over the number of clients, and how
//! far a client falls behind when the others want to move more. Not for: who gets
//! what of it (`fluid`), or where the curves come from (`device`).
//! Invariants: a client without company keeps all of its rate; the more the others
//! want, the less it keeps.

use super::MAX_PROCESSORS;
use crate::units::{BytesPerSecond, PICOS_PER_SECOND};

/// Most clients that suffer from others each in its own way: a processor, and a
/// CPU once a cluster.
pub const MAX_CLIENTS: usize = MAX_PROCESSORS;

/// Whose traffic it is, as far as the memory treats it unlike other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u8);

/// What a client keeps of its rate when others want to use the memory, too.
///
/// Three regions of the others' demand, the shape that PCCS (MICRO'21) found on
/// three systems-on-chip: nothing is felt up to the onset, the rate falls linearly
/// from there, and stays beyond the saturation. With `x` for the part of the way
/// from onset to saturation,
///
/// ```text
/// rate = min(own demand / (1 + x * (crowded slowdown - 1)), alone + x * (crowded - alone))
/// ```
///
/// so that a client that moves little loses a little time a byte, and one that
/// moves much loses once less than its demand is left for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interference {
    /// Others' demand up to which nothing is felt, in bytes per picosecond.
    onset: f64,
    /// Others' demand from which more does no more harm.
    saturation: f64,
    /// Most it moves up to the onset.
    alone: f64,
    /// Most it moves from the saturation on.
    crowded: f64,
    /// Time over time alone of a client that moves little, from the saturation on.
    crowded_slowdown: f64,
}

impl Interference {
    /// A curve; see the type for what its points are.
    ///
    /// # Panics
    /// Unless `onset < saturation`, `0 < crowded <= alone` and
    /// `crowded_slowdown >= 1`: the check of a device profile lets nothing else
    /// through.
    pub fn new(
        [onset, saturation]: [BytesPerSecond; 2],
        [alone, crowded]: [BytesPerSecond; 2],
        crowded_slowdown: f64,
    ) -> Self {
        assert!(0.0 <= onset.0 && onset.0 < saturation.0, "contention starts before it saturates");
        assert!(0.0 < crowded.0 && crowded.0 <= alone.0, "a crowded memory moves no more for one client");
        assert!(crowded_slowdown >= 1.0, "company makes nothing faster");
        let [onset, saturation, alone, crowded] =
            [onset, saturation, alone, crowded].map(|rate| rate.0 / PICOS_PER_SECOND);
        Self { onset, saturation, alone, crowded, crowded_slowdown }
    }

    /// Part of its rate alone that a client keeps which wants to move `own` while
    /// the others want to move `others`, in bytes per picosecond. A demand above
    /// what the client can move alone counts as just that.
    pub fn kept(&self, own: f64, others: f64) -> f64 {
        let crowding = ((others - self.onset) / (self.saturation - self.onset)).clamp(0.0, 1.0);
        let pace = 1.0 / (1.0 + crowding * (self.crowded_slowdown - 1.0));
        let room = self.alone - crowding * (self.alone - self.crowded);
        (room / own.min(self.alone)).min(pace)
    }
}

/// What a memory moves in all, by the number of processors that stream, and how
/// its clients suffer from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Bytes per picosecond; entry `i` for `i + 1` processors.
    rates: [f64; MAX_PROCESSORS],
    /// By client; shorter where the others share by max-min alone.
    interference: Vec<Option<Interference>>,
    /// Streams each stream of a client counts for where all compete, by client.
    weights: [u32; MAX_CLIENTS],
}

impl Capacity {
    /// A curve: entry `i` holds for `i + 1` processors, the last for more.
    ///
    /// # Panics
    /// For an empty slice or a rate that is not positive and finite: the check
    /// of a device profile lets neither through.
    pub fn new(rates: &[BytesPerSecond]) -> Self {
        assert!(!rates.is_empty(), "a capacity has at least one rate");
        assert!(rates.iter().all(|rate| rate.0 > 0.0 && rate.0.is_finite()), "a capacity is positive");
        let last = rates.len() - 1;
        let rates = std::array::from_fn(|i| rates[i.min(last)].0 / PICOS_PER_SECOND);
        Self { rates, interference: Vec::new(), weights: [1; MAX_CLIENTS] }
    }

    /// The capacity, where `client` suffers from the others as `interference` says
    /// before max-min shares out the rest.
    ///
    /// # Panics
    /// For a client from [`MAX_CLIENTS`] on.
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

    /// The capacity, where each stream of `client` counts for `weight` streams: what the
    /// memory gives competitors is in that ratio.
    ///
    /// # Panics
    /// For a client from [`MAX_CLIENTS`] on, and for no weight.
    #[must_use]
    pub fn with_weight(mut self, client: ClientId, weight: u32) -> Self {
        assert!(weight > 0, "a client without weight would move nothing");
        self.weights[usize::from(client.0)] = weight;
        self
    }

    /// How many streams a stream of `client` counts for.
    pub(super) fn weight(&self, client: ClientId) -> u32 {
        self.weights.get(usize::from(client.0)).copied().unwrap_or(1)
    }

    /// What one processor moves, in bytes per picosecond.
    pub(super) fn alone(&self) -> f64 {
        self.rates[0]
    }

    /// What `processors` move together, in bytes per picosecond.
    pub(super) fn shared_by(&self, processors: usize) -> f64 {
        self.rates[processors.clamp(1, MAX_PROCESSORS) - 1]
    }

    /// Whether any client suffers from others beyond max-min sharing.
    pub(super) fn has_interference(&self) -> bool {
        !self.interference.is_empty()
    }

    /// [`Interference::kept`] of a client; all where max-min alone decides.
    pub(super) fn kept(&self, client: ClientId, own: f64, others: f64) -> f64 {
        let interference = self.interference.get(usize::from(client.0)).and_then(Option::as_ref);
        interference.map_or(1.0, |interference| interference.kept(own, others))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Onset 10, saturation 30, 20 down to 8 GB/s, 10 % for who moves little.
    fn curve() -> Interference {
        let rates = |gigabytes: [f64; 2]| gigabytes.map(BytesPerSecond::from_gigabytes);
        Interference::new(rates([10.0, 30.0]), rates([20.0, 8.0]), 1.1)
    }

    /// What a client that wants `own` keeps, both in GB/s.
    fn kept(own: f64, others: f64) -> f64 {
        curve().kept(own / 1e3, others / 1e3)
    }

    #[test]
    fn a_demand_meets_three_regions() {
        let expected = [(0.0, 1.0), (10.0, 1.0), (20.0, 14.0 / 16.0), (30.0, 0.5), (100.0, 0.5)];
        for (others, part) in expected {
            assert!((kept(16.0, others) - part).abs() < 1e-12, "{others}");
        }
        // 14 of 16 GB/s are left half way, and a little demand pays 5 % there.
        assert!((kept(1.0, 20.0) - 1.0 / 1.05).abs() < 1e-12);
        assert!((kept(50.0, 30.0) - 0.4).abs() < 1e-12, "as a demand of 20 GB/s");
    }

    proptest! {
        #[test]
        fn nothing_is_felt_up_to_the_onset(own in 0.001_f64..100.0, others in 0.0_f64..10.0) {
            prop_assert_eq!(kept(own, others).to_bits(), 1.0_f64.to_bits());
        }

        #[test]
        fn more_demand_of_others_never_helps(own in 0.001_f64..100.0, others in 0.0_f64..50.0, more in 0.0_f64..50.0) {
            let (less, crowded) = (kept(own, others), kept(own, others + more));
            prop_assert!(0.0 < crowded && crowded <= less && less <= 1.0);
        }

        #[test]
        fn who_wants_more_keeps_no_less_in_all(own in 0.001_f64..100.0, others in 0.0_f64..50.0, more in 0.0_f64..50.0) {
            let rate = |own: f64| own * kept(own, others);
            prop_assert!(rate(own) <= rate(own + more) * (1.0 + 1e-12));
        }
    }
}
