//! A GPU with dedicated memory, and its link to the host.
//!
//! Responsible for: the schema, the range checks and the time of one transfer. Not
//! for: which bytes cross when (`simulate`). Invariant: a GPU without this table uses
//! unified memory, and nothing is ever transferred.
//!
//! Weights stay in the GPU's memory. A workload's inputs and results and everything that
//! the CPU computes are in host memory and cross the link. A transfer goes through the
//! GPU's in-order queue, to or from pinned host memory. A range of a tensor's channels is
//! strided, one row per pixel, which may cost more than the same bytes contiguously. Data
//! arrives in the host's layout (channels innermost), and a kernel may have to rearrange it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Quantity;
use crate::device::sync::Transfer;
use crate::units::{BYTES_PER_GIGABYTE, Bytes, Joules, PICOJOULES_PER_JOULE, Picos};

/// Dedicated memory of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnMemory {
    /// Where the values come from.
    pub source: String,
    /// Peak bandwidth of the memory interface; no launch moves its bytes faster.
    pub bandwidth_gbps: Quantity,
    /// Capacity, for weights and activations.
    pub capacity_gb: Quantity,
    /// The link to host memory.
    pub link: Link,
}

/// The link between the GPU's memory and the host's, such as PCI Express.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where the values come from.
    pub source: String,
    /// Fixed time of a transfer in the GPU's queue.
    pub latency_us: Quantity,
    /// Host time to enqueue a transfer, during which it does not compute; 0 if unknown.
    pub queue_us: Option<Quantity>,
    /// Rate of long transfers from the host's memory into the GPU's.
    pub to_gpu_gbps: Quantity,
    /// Rate of long transfers from the GPU's memory into the host's.
    pub to_host_gbps: Quantity,
    /// Additional time per row of a strided transfer into the GPU's memory; 0 if unknown.
    pub row_to_gpu_ns: Option<Quantity>,
    /// Additional time per row of a strided transfer into the host's memory; 0 if unknown.
    pub row_to_host_ns: Option<Quantity>,
    /// Time of the kernel that converts arrived data to the compute kernels' layout; `None`
    /// if they read the host's layout.
    pub arrange: Option<Transfer>,
    /// Energy per byte transferred, in addition to that of the host's memory.
    pub picojoules_per_byte: Option<Quantity>,
}

/// The data of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTransfer {
    /// Total bytes.
    pub bytes: Bytes,
    /// Contiguous pieces in which the bytes lie; 1 for a whole tensor.
    pub pieces: u64,
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host's memory into the GPU's.
    ToGpu,
    /// From the GPU's memory into the host's.
    ToHost,
}

impl OwnMemory {
    /// Capacity of the memory.
    pub fn capacity(&self) -> Bytes {
        Bytes((self.capacity_gb.value * BYTES_PER_GIGABYTE) as u64)
    }
}

impl LinkTransfer {
    /// A transfer of one contiguous piece.
    pub fn whole(bytes: Bytes) -> Self {
        Self { bytes, pieces: 1 }
    }
}

impl Link {
    /// Time of one transfer without contention, until kernels can read the data; zero for no bytes.
    pub fn transfer(&self, transfer: LinkTransfer, direction: Direction) -> Picos {
        let LinkTransfer { bytes, pieces } = transfer;
        if bytes == Bytes::ZERO {
            return Picos::ZERO;
        }
        let (gigabytes_per_second, row) = match direction {
            Direction::ToGpu => (self.to_gpu_gbps.value, &self.row_to_gpu_ns),
            Direction::ToHost => (self.to_host_gbps.value, &self.row_to_host_ns),
        };
        let strided_ns = if pieces > 1 { pieces as f64 * Quantity::or_zero(row.as_ref()) } else { 0.0 };
        let arrange = self.arrange.as_ref().filter(|_| direction == Direction::ToGpu);
        // 1 GB/s is 1 byte per nanosecond.
        Picos::from_micros(self.latency_us.value)
            + Picos::from_nanos(bytes.0 as f64 / gigabytes_per_second + strided_ns)
            + arrange.map_or(Picos::ZERO, |arrange| arrange.cost(bytes))
    }

    /// Host time to enqueue `transfers` transfers.
    pub fn queueing(&self, transfers: u32) -> Picos {
        Picos::from_micros(f64::from(transfers) * Quantity::or_zero(self.queue_us.as_ref()))
    }

    /// Energy of transferring `bytes` over the link.
    pub fn energy(&self, bytes: Bytes) -> Joules {
        Joules(bytes.0 as f64 * Quantity::or_zero(self.picojoules_per_byte.as_ref()) / PICOJOULES_PER_JOULE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::check::Checker;

    fn memory() -> OwnMemory {
        let content = "source = \"test\"\nbandwidth_gbps = 4800.0\ncapacity_gb = 141.0\n[link]\n\
                       source = \"test\"\nlatency_us = 8.0\nto_gpu_gbps = 50.0\nto_host_gbps = 25.0\n";
        crate::input::from_toml(content).unwrap()
    }

    #[test]
    fn a_transfer_takes_its_latency_and_bytes_over_the_bandwidth_of_its_direction() {
        let link = memory().link;
        let transfer = LinkTransfer::whole(Bytes(1_000_000));
        assert_eq!(link.transfer(transfer, Direction::ToGpu), Picos::from_micros(28.0));
        assert_eq!(link.transfer(transfer, Direction::ToHost), Picos::from_micros(48.0));
        assert_eq!(link.transfer(LinkTransfer::whole(Bytes::ZERO), Direction::ToGpu), Picos::ZERO);
    }

    #[test]
    fn a_strided_transfer_takes_longer_than_the_same_bytes_in_one_piece() {
        let mut link = memory().link;
        let transfer = |pieces| LinkTransfer { bytes: Bytes(1_000_000), pieces };
        let times = |link: &Link| [1, 2_000].map(|pieces| link.transfer(transfer(pieces), Direction::ToHost));
        assert_eq!(times(&link), [Picos::from_micros(48.0); 2], "not known");
        link.row_to_host_ns = Some(Quantity::plain(10.0));
        assert_eq!(times(&link), [48.0, 68.0].map(Picos::from_micros));
        link.queue_us = Some(Quantity::plain(2.5));
        assert_eq!(link.queueing(2), Picos::from_micros(5.0));
    }

    #[test]
    fn only_transfers_to_the_gpu_are_rearranged() {
        let mut link = memory().link;
        link.arrange = Some(Transfer {
            source: "test".to_owned(),
            fixed_us: Quantity::plain(6.0),
            per_byte_ns: Quantity::plain(0.001),
        });
        let transfer = LinkTransfer::whole(Bytes(1_000_000));
        assert_eq!(link.transfer(transfer, Direction::ToGpu), Picos::from_micros(28.0 + 6.0 + 1.0));
        assert_eq!(link.transfer(transfer, Direction::ToHost), Picos::from_micros(48.0));
    }

    #[test]
    fn the_link_uses_energy_per_byte_if_known() {
        let mut link = memory().link;
        assert!(link.energy(Bytes(1_000)).0.abs() < f64::EPSILON);
        link.picojoules_per_byte = Some(Quantity::plain(50.0));
        assert!((link.energy(Bytes(1_000_000_000)).0 - 0.05).abs() < 1e-12);
    }

    #[test]
    fn invalid_values_are_reported_by_key() {
        let mut memory = memory();
        memory.capacity_gb = Quantity::plain(0.0);
        memory.link.to_host_gbps = Quantity::plain(-1.0);
        let mut checker = Checker::default();
        checker.table("gpu.memory", |checker| checker.values(&memory));
        let keys: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
        assert_eq!(keys, ["gpu.memory.capacity_gb", "gpu.memory.link.to_host_gbps"]);
    }
}
