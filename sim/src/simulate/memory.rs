//! Builds the engine's memory from a device profile.
//!
//! Responsible for: the capacity of the shared memory, and the interference curve of
//! each processor's traffic. Not for: how bandwidth is shared (`engine`).
//! Invariant: without interference in the profile, processors are subject to max-min
//! sharing alone.

use super::Detail;
use crate::device::{Interference, MAX_CLUSTERS, Memory, ProcessorKind, Profile};
use crate::engine::{self, Capacity, ClientId};
use crate::kernel::CoreSet;
use crate::units::BytesPerSecond;

/// The memory's capacity for one, two and three active processors, with weights and
/// interference curves.
pub(crate) fn capacity(device: &Profile) -> Capacity {
    let accelerators = [ProcessorKind::Gpu, ProcessorKind::Npu].into_iter().zip(weights(&device.memory));
    let weighted = accelerators.fold(totals(&device.memory), |capacity, (processor, weight)| {
        capacity.with_weight(ClientId(processor as u8), weight)
    });
    let clusters = device.cpu.clusters.iter().take(MAX_CLUSTERS).map(|cluster| cluster.name.as_str());
    let clients = ProcessorKind::ALL.map(ProcessorKind::name).into_iter().chain(clusters);
    (0..).zip(clients).fold(weighted, |capacity, (client, name)| match device.memory.interference_of(name) {
        Some(interference) => capacity.with_interference(ClientId(client), curve(interference)),
        None => capacity,
    })
}

/// The number of equal streams that the traffic of a task on `by` counts as in max-min sharing.
pub(crate) fn streams_of(device: &Profile, detail: &Detail, by: ProcessorKind) -> u32 {
    let weights = weights(&device.memory);
    match by {
        ProcessorKind::Cpu => detail.streams(),
        ProcessorKind::Gpu => weights[0],
        ProcessorKind::Npu => weights[1],
    }
}

/// The max-min weights of a stream of the GPU and of the NPU.
fn weights(memory: &Memory) -> [u32; 2] {
    memory.streams.as_ref().map_or([1, 1], |streams| [streams.gpu, streams.npu])
}

/// The total bandwidth of one, two and three active processors, without weights or interference.
pub fn totals(memory: &Memory) -> Capacity {
    let clients = 1..=ProcessorKind::ALL.len();
    let curve: Vec<BytesPerSecond> = clients.map(|clients| memory.capacity(clients)).collect();
    Capacity::new(&curve).with_peak(BytesPerSecond::from_gigabytes(memory.peak_bandwidth_gbps.value))
}

/// The engine's interference curve of a client.
pub fn curve(interference: &Interference) -> engine::Interference {
    let rate = BytesPerSecond::from_gigabytes;
    let Interference { onset_gbps, saturation_gbps, alone_gbps, crowded_gbps, .. } = interference;
    engine::Interference::new(
        [rate(onset_gbps.value), rate(saturation_gbps.value)],
        [rate(alone_gbps.value), rate(crowded_gbps.value)],
        interference.crowded_slowdown_factor.value,
    )
}

/// The client of the main thread's cluster, where that cluster has an interference curve
/// of its own; `None` where the traffic of `cores` follows the CPU's curve.
pub(super) fn cluster_client(device: &Profile, cores: &CoreSet) -> Option<ClientId> {
    let cluster = cores.cluster(0)?;
    device.memory.interference_of(device.cpu.clusters.get(cluster)?.name.as_str())?;
    Some(ClientId((ProcessorKind::ALL.len() + cluster) as u8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Engine, NoTrace, Program, TaskId, Work};
    use crate::units::{Bytes, Picos};

    /// End times in seconds of one task each on the GPU and the NPU, given as gigabytes
    /// moved and standalone rate.
    fn ends([gpu, npu]: [(f64, f64); 2]) -> [f64; 2] {
        let device = Profile::load("snapdragon-8gen3").unwrap();
        let mut program = Program::default();
        for (processor, (gigabytes, rate)) in [(ProcessorKind::Gpu, gpu), (ProcessorKind::Npu, npu)] {
            let duration = Picos::from_micros(gigabytes / rate * 1e6);
            program.task(processor.id(), 1, [Work { duration, bytes: Bytes((gigabytes * 1e9) as u64) }]);
        }
        let mut engine = Engine::default();
        engine.run(&program, &capacity(&device), &mut NoTrace);
        [0, 1].map(|task| engine.finish(TaskId(task)).as_seconds())
    }

    #[test]
    fn next_to_the_gpu_the_npu_gets_the_shared_bandwidth_less_the_gpus_standalone_rate() {
        // HeteroInfer, section 5.4: 43.3 GB/s with the GPU alone, 59.5 with both.
        let [gpu, npu] = ends([(43.3, 43.3), (16.2, 31.5)]);
        assert!((gpu - 1.0).abs() < 2e-3 && (npu - 1.0).abs() < 2e-3, "{gpu} {npu}");
    }

    #[test]
    fn a_gpu_that_computes_leaves_the_npu_its_own_ceiling() {
        let [_, npu] = ends([(5.0, 5.0), (40.0, 40.0)]);
        assert!((npu - 1.0).abs() < 1e-3, "{npu}");
    }

    #[test]
    fn decode_gains_about_a_fifth_from_the_npu_s_bandwidth() {
        // Llama-3-8B reads 7.5 G weights per token: half a byte each on the GPU, one byte on
        // the NPU, which computes 15.8 % of them. HeteroInfer, section 5.4: 22 % faster.
        let weights = 7.5;
        let share = 0.158;
        let [alone, _] = ends([(0.5 * weights, 43.3), (1e-9, 31.5)]);
        let together = ends([(0.5 * weights * (1.0 - share), 43.3), (weights * share, 31.5)]);
        let gain = alone / together[0].max(together[1]) - 1.0;
        assert!((0.17..0.22).contains(&gain), "{gain}");
    }

    proptest! {
        #[test]
        fn processors_together_move_no_more_than_the_peak(
            seconds in [0.1_f64..2.0, 0.1..2.0],
            rates in [1.0_f64..68.0, 1.0..68.0],
        ) {
            let [one, other] = [0, 1].map(|task| seconds[task] * rates[task]);
            let [first, second] = ends([(one, rates[0]), (other, rates[1])]);
            let together = (one + other) / first.max(second);
            prop_assert!(together <= 68.0 * (1.0 + 1e-6), "{together} GB/s of 68");
        }
    }
}
