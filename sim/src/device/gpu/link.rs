//! A GPU with memory of its own, and the link to the host.
//!
//! Responsible for: the schema, the range checks and the time of one transfer. Not
//! for: which bytes cross when (`simulate`). Invariant: a GPU without this table
//! shares the memory of the other processors, and nothing is ever transferred.
//!
//! Weights stay in the GPU's memory. The inputs of a workload and its results are
//! in the host's, as is what the CPU computes: they cross the link. A transfer goes
//! through the GPU's in-order queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::check::Checker;
use crate::device::quantity::Quantity;
use crate::units::{Bytes, BytesPerSecond, Joules, Picos};

const PICOJOULES_PER_JOULE: f64 = 1e12;
const BYTES_PER_GIGABYTE: f64 = 1e9;

/// Memory that only the GPU uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnMemory {
    /// Where the values come from.
    pub source: String,
    /// What the memory's interface moves at best: no launch moves its bytes faster.
    pub bandwidth_gbps: Quantity,
    /// What it holds: weights, and what is computed.
    pub capacity_gb: Quantity,
    /// The way to and from the memory of the other processors.
    pub link: Link,
}

/// The way between the GPU's memory and the host's: PCI Express, say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where the values come from.
    pub source: String,
    /// What a transfer takes whatever it moves.
    pub latency_us: Quantity,
    /// Rate of long transfers from the host's memory into the GPU's.
    pub to_gpu_gbps: Quantity,
    /// Rate of long transfers from the GPU's memory into the host's.
    pub to_host_gbps: Quantity,
    /// Energy of one byte that crosses, beside that of the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picojoules_per_byte: Option<Quantity>,
}

/// Which way bytes cross the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host's memory into the GPU's.
    ToGpu,
    /// From the GPU's memory into the host's.
    ToHost,
}

impl OwnMemory {
    /// What the memory's interface moves at best.
    pub fn bandwidth(&self) -> BytesPerSecond {
        BytesPerSecond::from_gigabytes(self.bandwidth_gbps.value)
    }

    /// What the memory holds.
    pub fn capacity(&self) -> Bytes {
        Bytes((self.capacity_gb.value * BYTES_PER_GIGABYTE) as u64)
    }

    /// Notes every value that cannot be.
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.positive("bandwidth_gbps", &self.bandwidth_gbps);
        checker.positive("capacity_gb", &self.capacity_gb);
        checker.table("link", |checker| self.link.check(checker));
    }
}

impl Link {
    /// Time of one transfer while nothing else uses link or memory; none at all for
    /// no bytes.
    pub fn transfer(&self, bytes: Bytes, direction: Direction) -> Picos {
        if bytes == Bytes::ZERO {
            return Picos::ZERO;
        }
        let gigabytes_per_second = match direction {
            Direction::ToGpu => self.to_gpu_gbps.value,
            Direction::ToHost => self.to_host_gbps.value,
        };
        // A gigabyte a second is a byte a nanosecond.
        Picos::from_micros(self.latency_us.value) + Picos::from_nanos(bytes.0 as f64 / gigabytes_per_second)
    }

    /// What it costs the link that `bytes` cross.
    pub fn energy(&self, bytes: Bytes) -> Joules {
        let picojoules = self.picojoules_per_byte.as_ref().map_or(0.0, |quantity| quantity.value);
        Joules(bytes.0 as f64 * picojoules / PICOJOULES_PER_JOULE)
    }

    fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.non_negative("latency_us", &self.latency_us);
        checker.positive("to_gpu_gbps", &self.to_gpu_gbps);
        checker.positive("to_host_gbps", &self.to_host_gbps);
        if let Some(picojoules) = &self.picojoules_per_byte {
            checker.non_negative("picojoules_per_byte", picojoules);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> OwnMemory {
        let content = "source = \"test\"\nbandwidth_gbps = 4800.0\ncapacity_gb = 141.0\n[link]\n\
                       source = \"test\"\nlatency_us = 8.0\nto_gpu_gbps = 50.0\nto_host_gbps = 25.0\n";
        toml::from_str(content).unwrap()
    }

    #[test]
    fn a_transfer_takes_its_latency_and_the_way_s_bandwidth() {
        let link = memory().link;
        let bytes = Bytes(1_000_000);
        assert_eq!(link.transfer(bytes, Direction::ToGpu), Picos::from_micros(28.0));
        assert_eq!(link.transfer(bytes, Direction::ToHost), Picos::from_micros(48.0));
        assert_eq!(link.transfer(Bytes::ZERO, Direction::ToGpu), Picos::ZERO);
    }

    #[test]
    fn a_byte_costs_the_link_energy_where_that_is_known() {
        let mut link = memory().link;
        assert!(link.energy(Bytes(1_000)).0.abs() < f64::EPSILON);
        link.picojoules_per_byte = Some(Quantity::plain(50.0));
        assert!((link.energy(Bytes(1_000_000_000)).0 - 0.05).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let mut memory = memory();
        memory.capacity_gb = Quantity::plain(0.0);
        memory.link.to_host_gbps = Quantity::plain(-1.0);
        let mut checker = Checker::default();
        checker.table("gpu.memory", |checker| memory.check(checker));
        let keys: Vec<String> = checker.finish().into_iter().map(|violation| violation.key).collect();
        assert_eq!(keys, ["gpu.memory.capacity_gb", "gpu.memory.link.to_host_gbps"]);
    }
}
