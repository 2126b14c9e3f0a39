//! Parameters of the memory all processors share.
//!
//! Responsible for: the bandwidth that clients get together. Not for: the ceiling
//! of one processor, which stands in its own table, nor for who gets what of a
//! shared bandwidth (`engine`). Invariant: no capacity exceeds the peak.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::quantity::Quantity;
use crate::units::BytesPerSecond;

/// The shared DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What the interface moves at best: transfer rate times bus width.
    pub peak_bandwidth_gbps: Quantity,
    /// What is achieved together by one client, two, three and so on; the last
    /// entry holds for more. A client is a processor that moves bytes. More
    /// clients may get less than fewer do, where they disturb each other.
    pub concurrent_bandwidth_gbps: Vec<Quantity>,
}

impl Memory {
    /// What `clients` processors get together; with none, what one would get.
    pub fn capacity(&self, clients: usize) -> BytesPerSecond {
        let curve = &self.concurrent_bandwidth_gbps;
        let entry = curve.get(clients.saturating_sub(1)).or(curve.last());
        // A checked memory has an entry; an unchecked one is as fast as it can be.
        BytesPerSecond::from_gigabytes(entry.unwrap_or(&self.peak_bandwidth_gbps).value)
    }

    /// Notes every value that cannot be.
    pub fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.positive("peak_bandwidth_gbps", &self.peak_bandwidth_gbps);
        if self.concurrent_bandwidth_gbps.is_empty() {
            checker.violation(
                "concurrent_bandwidth_gbps",
                "no entry",
                "the bandwidth of at least one client",
            );
        }
        let peak = self.peak_bandwidth_gbps.value;
        for (index, bandwidth) in self.concurrent_bandwidth_gbps.iter().enumerate() {
            let key = format!("concurrent_bandwidth_gbps[{index}]");
            checker.positive(&key, bandwidth);
            if bandwidth.value > peak {
                checker.violation(&key, bandwidth.value, format!("at most the peak, {peak}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapdragon_8_gen_3() -> Memory {
        // HeteroInfer (SOSP'25), sections 3.3 and 5.4.
        toml::from_str(
            r#"
            source = "HeteroInfer (SOSP'25)"
            peak_bandwidth_gbps = 68.0
            concurrent_bandwidth_gbps = [43.3, 59.5, 61.9]
            "#,
        )
        .unwrap()
    }

    fn violations(memory: &Memory) -> Vec<String> {
        let mut checker = Checker::default();
        memory.check(&mut checker);
        checker.finish().into_iter().map(|violation| violation.key).collect()
    }

    #[test]
    fn two_clients_get_more_together_than_one_alone() {
        let memory = snapdragon_8_gen_3();
        for (clients, gigabytes) in [(0, 43.3), (1, 43.3), (2, 59.5), (3, 61.9), (9, 61.9)] {
            assert_eq!(memory.capacity(clients), BytesPerSecond::from_gigabytes(gigabytes), "{clients}");
        }
        assert!(violations(&memory).is_empty());
    }

    #[test]
    fn clients_that_disturb_each_other_are_a_possible_memory() {
        let mut memory = snapdragon_8_gen_3();
        memory.concurrent_bandwidth_gbps.swap(0, 1);
        assert!(violations(&memory).is_empty());
    }

    #[test]
    fn no_clients_get_more_than_the_peak() {
        let mut memory = snapdragon_8_gen_3();
        memory.concurrent_bandwidth_gbps[1] = Quantity::plain(68.5);
        memory.concurrent_bandwidth_gbps[2] = Quantity::plain(0.0);
        assert_eq!(violations(&memory), ["concurrent_bandwidth_gbps[1]", "concurrent_bandwidth_gbps[2]"]);
        memory.concurrent_bandwidth_gbps.clear();
        assert_eq!(violations(&memory), ["concurrent_bandwidth_gbps"]);
    }
}
