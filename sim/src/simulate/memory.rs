//! The memory of a profile as the engine shares it.
//!
//! Responsible for: the capacity of the shared memory, and which curve of
//! interference a processor's traffic follows. Not for: who gets what (`engine`).
//! Invariant: without interference in the profile, processors share by max-min
//! alone.

use super::Processor;
use crate::device::cpu::MAX_CLUSTERS;
use crate::device::memory::{Interference, Memory};
use crate::device::profile::Profile;
use crate::engine::{self, Capacity, ClientId};
use crate::kernel::cpu::CoreSet;
use crate::units::BytesPerSecond;

/// How the profile's interference calls each processor, in their order.
const CLIENTS: [&str; Processor::ALL.len()] = ["cpu", "gpu", "npu"];

/// The memory's capacity for one, two and three processors at once, and what they
/// lose to each other.
pub(crate) fn capacity(device: &Profile) -> Capacity {
    let clusters = device.cpu.clusters.iter().take(MAX_CLUSTERS).map(|cluster| cluster.name.as_str());
    let clients = CLIENTS.into_iter().chain(clusters);
    (0..).zip(clients).fold(totals(&device.memory), |capacity, (client, name)| {
        match device.memory.interference_of(name) {
            Some(interference) => capacity.with_interference(ClientId(client), curve(interference)),
            None => capacity,
        }
    })
}

/// What one, two and three processors move together.
pub(crate) fn totals(memory: &Memory) -> Capacity {
    let clients = 1..=Processor::ALL.len();
    let curve: Vec<BytesPerSecond> = clients.map(|clients| memory.capacity(clients)).collect();
    Capacity::new(&curve)
}

/// The curve of a client.
pub(crate) fn curve(interference: &Interference) -> engine::Interference {
    let rate = BytesPerSecond::from_gigabytes;
    let Interference { onset_gbps, saturation_gbps, alone_gbps, crowded_gbps, .. } = interference;
    engine::Interference::new(
        [rate(onset_gbps.value), rate(saturation_gbps.value)],
        [rate(alone_gbps.value), rate(crowded_gbps.value)],
        interference.crowded_slowdown_factor.value,
    )
}

/// Whose curve the traffic of `cores` follows, where it is not the CPU's: that of
/// the cluster of the main thread.
pub(super) fn cluster_client(device: &Profile, cores: &CoreSet) -> Option<ClientId> {
    let cluster = cores.cluster(0)?;
    device.memory.interference_of(device.cpu.clusters.get(cluster)?.name.as_str())?;
    Some(ClientId((CLIENTS.len() + cluster) as u8))
}
