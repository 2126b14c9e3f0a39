//! Parameters of the memory all processors share.
//!
//! Responsible for: the bandwidth that clients get together, and how each suffers
//! from the others. Not for: the ceiling of one processor, which stands in its own
//! table, nor for who gets what of a shared bandwidth (`engine`). Invariant: no
//! capacity exceeds the peak, and no interference makes its client faster. A capacity
//! may grow with the clients, and what a new one leaves of its addition the others get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::repeated;
use super::{Checker, Quantity};
use crate::units::{Bytes, BytesPerSecond};

/// The shared DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// How much it holds, in 10^9 bytes, where all phones of this name have as much.
    pub capacity_gb: Option<Quantity>,
    /// What the interface moves at best: transfer rate times bus width.
    pub peak_bandwidth_gbps: Quantity,
    /// What is achieved together by one client, two, three and so on; the last
    /// entry holds for more. A client is a processor that moves bytes. More
    /// clients may get less than fewer do, where they disturb each other. The first
    /// entry is the most that a client counts for beside others. It bounds no client
    /// alone, which only the peak does: what a kernel takes alone was measured, and
    /// small tensors come from caches, faster than memory moves them.
    pub concurrent_bandwidth_gbps: Vec<Quantity>,
    /// How many streams an accelerator's traffic consists of where it competes. Absent:
    /// one each.
    pub streams: Option<Streams>,
    /// How clients suffer from what the others want to move, beyond sharing the
    /// capacity; a client without an entry does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
}

/// Equal streams that an accelerator's traffic consists of. Where more is wanted than
/// the memory moves, each stream gets the same, so that a client with more streams
/// gets more; a CPU thread is one stream.
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

/// How one client suffers from the others, by three regions of what they want to
/// move together: nothing up to the onset, a linear fall, nothing more from the
/// saturation on (the regions PCCS, MICRO'21, measured on three systems-on-chip).
///
/// With `x`, from 0 to 1, for how far the others' demand has come from `onset_gbps`
/// to `saturation_gbps`, a client that alone moves `own` gigabytes a second moves
///
/// ```text
/// min(own / (1 + x * (crowded_slowdown_factor - 1)),
///     alone_gbps + x * (crowded_gbps - alone_gbps))
/// ```
///
/// The others' demand is what they would move alone. What is left of the capacity
/// is shared by max-min, as without this table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// Who suffers: `cpu`, `gpu`, `npu`, or the name of a CPU cluster, whose entry
    /// goes before that of `cpu` for core sets led by it.
    pub client: String,
    /// Where the values come from.
    pub source: String,
    /// Demand of the others up to which nothing is felt.
    pub onset_gbps: Quantity,
    /// Demand of the others from which more does no more harm.
    pub saturation_gbps: Quantity,
    /// Most the client moves while the others stay below the onset.
    pub alone_gbps: Quantity,
    /// Most it moves once the others are past the saturation.
    pub crowded_gbps: Quantity,
    /// Time over time alone, past the saturation, of a client that moves little:
    /// each access waits longer.
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
    /// How much it holds, where that is known.
    pub fn size(&self) -> Option<Bytes> {
        const BYTES_PER_GIGABYTE: f64 = 1e9;
        self.capacity_gb.as_ref().map(|gigabytes| Bytes((gigabytes.value * BYTES_PER_GIGABYTE) as u64))
    }

    /// What `clients` processors get together; with none, what one would get.
    pub fn capacity(&self, clients: usize) -> BytesPerSecond {
        let curve = &self.concurrent_bandwidth_gbps;
        let entry = curve.get(clients.saturating_sub(1)).or(curve.last());
        // A checked memory has an entry; an unchecked one is as fast as it can be.
        BytesPerSecond::from_gigabytes(entry.unwrap_or(&self.peak_bandwidth_gbps).value)
    }

    /// How `client` suffers from the others, where it does so beyond sharing.
    pub fn interference_of(&self, client: &str) -> Option<&Interference> {
        self.interference.iter().find(|interference| interference.client == client)
    }

    /// Notes every value that cannot be.
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
            checker.violation(&key, format!("{:?}", entry.client), "one entry a client");
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
    fn a_client_has_the_curve_that_is_written_for_it() {
        let memory = with_interference();
        assert!(violations(&memory).is_empty());
        assert!(memory.interference_of("cpu").is_none());
        assert_eq!(memory.interference_of("gpu"), memory.interference.first());
    }

    #[test]
    fn company_that_helps_is_no_interference() {
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
