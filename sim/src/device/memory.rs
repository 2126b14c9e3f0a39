//! Parameters of the memory that all processors share.
//!
//! Responsible for: the total bandwidth of concurrent clients, and interference between
//! them. Not for: the bandwidth limit of one processor, which is in that processor's
//! table, or the allocation of shared bandwidth (`engine`). Invariant: no capacity
//! exceeds the peak, and no interference speeds up its client. The capacity may grow
//! with the number of clients; what a new client does not use of the increase goes to
//! the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::repeated;
use super::{Checker, Quantity};
use crate::units::{BYTES_PER_GIGABYTE, Bytes, BytesPerSecond};

/// The shared DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Size in 10^9 bytes, if all phones of this name have the same.
    pub capacity_gb: Option<Quantity>,
    /// Peak bandwidth of the interface: transfer rate times bus width.
    pub peak_bandwidth_gbps: Quantity,
    /// Total bandwidth achieved by one client, two, three and so on; the last entry applies to
    /// more. A client is a processor that moves bytes. More clients may achieve less than
    /// fewer, if they disturb each other. Next to others, a client demands at most the first entry,
    /// or its own rate times (largest entry for several / peak) if that is more. A client alone is
    /// bounded only by the peak: contention-free kernel times are measured, and small tensors come
    /// from caches, faster than from memory.
    pub concurrent_bandwidth_gbps: Vec<Quantity>,
    /// Number of streams of each accelerator's traffic under contention. If absent, one each.
    pub streams: Option<Streams>,
    /// Slowdown of clients by the demand of others, beyond sharing the capacity. A client without
    /// an entry is only affected by sharing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
}

/// Number of equal streams of an accelerator's traffic. If demand exceeds the bandwidth, every
/// stream gets the same share, so a client with more streams gets more; a CPU thread is one
/// stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Streams {
    /// Where the values come from.
    pub source: String,
    /// Streams of the GPU.
    pub gpu: u32,
    /// Streams of the NPU.
    pub npu: u32,
}

/// Slowdown of one client by the total demand of the others, in three regions: none up to the
/// onset, a linear decline, constant from the saturation on (the regions that PCCS, MICRO'21,
/// measured on three systems-on-chip).
///
/// Let `x`, from 0 to 1, be the position of the others' demand between `onset_gbps` and
/// `saturation_gbps`. A client that alone moves `own` GB/s then moves
///
/// ```text
/// min(own / (1 + x * (crowded_slowdown_factor - 1)),
///     alone_gbps + x * (crowded_gbps - alone_gbps))
/// ```
///
/// The others' demand is what each would move alone. The capacity is then shared max-min
/// fairly, as without this table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// The affected client: `cpu`, `gpu`, `npu`, or the name of a CPU cluster, whose entry takes
    /// precedence over that of `cpu` for core sets led by it.
    pub client: String,
    /// Where the values come from.
    pub source: String,
    /// Demand of the others up to which there is no slowdown.
    pub onset_gbps: Quantity,
    /// Demand of the others above which the slowdown is constant.
    pub saturation_gbps: Quantity,
    /// Maximum bandwidth of the client while the others stay below the onset.
    pub alone_gbps: Quantity,
    /// Maximum bandwidth of the client once the others are past the saturation.
    pub crowded_gbps: Quantity,
    /// Slowdown of a client with little traffic once the others are past the saturation: each
    /// access has a longer latency.
    pub crowded_slowdown_factor: Quantity,
}

impl Interference {
    fn check(&self, checker: &mut Checker) {
        let (onset, saturation) = (self.onset_gbps.value, self.saturation_gbps.value);
        if saturation <= onset {
            checker.violation("saturation_gbps", saturation, format!("more than the onset, {onset}"));
        }
        let (alone, crowded) = (self.alone_gbps.value, self.crowded_gbps.value);
        if crowded > alone {
            checker.violation("crowded_gbps", crowded, format!("at most what it moves alone, {alone}"));
        }
    }
}

impl Memory {
    /// Size of the memory; `None` if unknown.
    pub fn size(&self) -> Option<Bytes> {
        self.capacity_gb.as_ref().map(|gigabytes| Bytes((gigabytes.value * BYTES_PER_GIGABYTE) as u64))
    }

    /// Total bandwidth of `clients` concurrent clients; for 0, that of one.
    pub fn capacity(&self, clients: usize) -> BytesPerSecond {
        let curve = &self.concurrent_bandwidth_gbps;
        let entry = curve.get(clients.saturating_sub(1)).or(curve.last());
        // A checked profile has at least one entry; an unchecked one falls back to the peak.
        BytesPerSecond::from_gigabytes(entry.unwrap_or(&self.peak_bandwidth_gbps).value)
    }

    /// The interference entry of `client`, if any.
    pub fn interference_of(&self, client: &str) -> Option<&Interference> {
        self.interference.iter().find(|interference| interference.client == client)
    }

    /// Records every invalid value.
    pub fn check(&self, checker: &mut Checker) {
        checker.values(self);
        if self.concurrent_bandwidth_gbps.is_empty() {
            let expected = "the bandwidth of at least one client";
            checker.violation("concurrent_bandwidth_gbps", "no entry", expected);
        }
        let peak = self.peak_bandwidth_gbps.value;
        for (index, bandwidth) in self.concurrent_bandwidth_gbps.iter().enumerate() {
            let key = format!("concurrent_bandwidth_gbps[{index}]");
            if bandwidth.value > peak {
                checker.violation(&key, bandwidth.value, format!("at most the peak, {peak}"));
            }
        }
        checker.each("interference", &self.interference, Interference::check);
        for (index, entry) in repeated(&self.interference, |entry| &entry.client) {
            let key = format!("interference[{index}].client");
            checker.violation(&key, format!("{:?}", entry.client), "one entry per client");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapdragon_8_gen_3() -> Memory {
        // HeteroInfer (SOSP'25), sections 3.3 and 5.4.
        crate::input::from_toml(
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
        checker.violations.into_iter().map(|violation| violation.key).collect()
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
    fn a_client_without_streams_moves_nothing() {
        let streams = Streams { source: "test".to_owned(), gpu: 0, npu: 3 };
        let memory = Memory { streams: Some(streams), ..snapdragon_8_gen_3() };
        assert_eq!(violations(&memory), ["streams.gpu"]);
    }

    #[test]
    fn capacity_may_fall_with_more_clients() {
        let mut memory = snapdragon_8_gen_3();
        memory.concurrent_bandwidth_gbps.swap(0, 1);
        assert!(violations(&memory).is_empty());
    }

    #[test]
    fn no_clients_get_more_than_the_peak() {
        let mut memory = snapdragon_8_gen_3();
        memory.concurrent_bandwidth_gbps[1] = Quantity::plain(68.5);
        memory.concurrent_bandwidth_gbps[2] = Quantity::plain(0.0);
        assert_eq!(violations(&memory), ["concurrent_bandwidth_gbps[2]", "concurrent_bandwidth_gbps[1]"]);
        memory.concurrent_bandwidth_gbps.clear();
        assert_eq!(violations(&memory), ["concurrent_bandwidth_gbps"]);
    }

    fn with_interference() -> Memory {
        let gpu = Interference {
            client: "gpu".to_owned(),
            source: "test".to_owned(),
            onset_gbps: Quantity::plain(10.0),
            saturation_gbps: Quantity::plain(30.0),
            alone_gbps: Quantity::plain(40.0),
            crowded_gbps: Quantity::plain(20.0),
            crowded_slowdown_factor: Quantity::plain(1.1),
        };
        Memory { interference: vec![gpu], ..snapdragon_8_gen_3() }
    }

    #[test]
    fn a_client_has_its_own_interference_entry() {
        let memory = with_interference();
        assert!(violations(&memory).is_empty());
        assert!(memory.interference_of("cpu").is_none());
        assert_eq!(memory.interference_of("gpu"), memory.interference.first());
    }

    #[test]
    fn interference_never_speeds_up_its_client() {
        let mut memory = with_interference();
        memory.interference.push(memory.interference[0].clone());
        let entry = &mut memory.interference[0];
        entry.saturation_gbps = Quantity::plain(10.0);
        entry.crowded_gbps = Quantity::plain(41.0);
        entry.crowded_slowdown_factor = Quantity::plain(0.9);
        let keys = ["[0].crowded_slowdown_factor", "[0].saturation_gbps", "[0].crowded_gbps", "[1].client"];
        assert_eq!(violations(&memory), keys.map(|key| format!("interference{key}")));
    }

    #[test]
    fn interference_survives_writing_and_reading() {
        let memory = with_interference();
        let text = toml::to_string(&memory).unwrap();
        assert!(text.contains("[[interference]]"), "{text}");
        assert_eq!(crate::input::from_toml::<Memory>(&text).unwrap(), memory);
        assert!(!toml::to_string(&snapdragon_8_gen_3()).unwrap().contains("interference"));
    }
}
