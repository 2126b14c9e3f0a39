//! coexec's own CPU kernels, which the crate `coexec-hw` runs on real hardware.
//!
//! Responsible for: the work units of an operator in these kernels' loops, and their time:
//! `operator + makespan(work . rates) + fork`, with the profile's rates. Weights are packed
//! ahead of time, windows read through pointers, and the depth of a product is blocked for
//! the cache; partial tiles are computed whole and copied in part. Threads share products
//! and depthwise convolutions; everything else runs on the calling thread. Not for: the
//! kernels themselves, which take their tiles, division and blocks from here.

mod depth_blocks;
mod division;
mod product;
mod time;
mod work;

use arrayvec::ArrayVec;

use super::tally::Shares;
use super::{CoreSet, Library, Member, NANOS_PER_MICRO, Tally, Team, unsupported};
use crate::device::Cpu;
use crate::device::cpu::{CoexecRates, CoexecUnit};
use crate::kernel::Result;
use crate::workload::{DataType, Layer};

pub use depth_blocks::{DEPTH_BLOCK_BYTES, DepthBlock, DepthBlocks, MAX_SEGMENTS};
pub use division::{Block, Division, Extent};
pub use time::Costs;
pub use work::{Caches, Work, depthwise_threads};
use work::{Sharing, beyond};

/// Cost of `layer` on `cores`.
pub(super) fn execute(layer: &Layer, cpu: &Cpu, cores: &CoreSet) -> Result<Tally> {
    if layer.data_type != DataType::F32 {
        let reason = format!("coexec's own kernels compute in f32, not in {}", layer.data_type);
        return Err(unsupported(layer, reason));
    }
    let key = (Library::Coexec, DataType::F32);
    let team = Team::new(layer, (cpu, None), cores, key, |cluster| cluster.coexec_f32.as_ref())?;
    let threads = team.threads() as usize;
    let main = team.main();
    let costs = Costs::of(main.rates);
    let caches = Caches::of(main.cluster);
    let mut tally = Tally::new(super::Kernel::Nothing);
    for (index, work) in Work::of_layer(layer, &caches, threads).enumerate() {
        if index == 0 {
            (tally.kernel, tally.tile) = (work.kernel, work.tile);
            (tally.blocks, tally.threads) = (work.pieces() as u64, work.threads() as u32);
        }
        if matches!(work.sharing, Sharing::Alone) {
            tally.serial += costs.operator_ns() + costs.nanos(&work);
            continue;
        }
        tally.serial += costs.operator_ns();
        let mut per_thread: ArrayVec<f64, { super::MAX_THREADS }> = ArrayVec::new();
        for member in &team.members {
            let costs = Costs::of(member.rates);
            let nanos = costs.nanos(&work);
            let own = (work.threads() - per_thread.len()).min(member.threads as usize);
            per_thread.extend((0..own).map(|thread| nanos * costs.stretch(thread, own)));
        }
        tally.add_parallel(&work.makespan(&per_thread), &shares(&work, &costs));
        if work.threads() > 1 {
            let fork_us = |member: &Member<'_, CoexecRates>| {
                Costs::of(member.rates).fork_ns(work.threads()) / NANOS_PER_MICRO
            };
            tally.fork += team.fork_us(fork_us) * NANOS_PER_MICRO;
        }
    }
    tally.scale(team.slowdown(0.0));
    Ok(tally)
}

/// The single-core time of `work`, by category.
fn shares(work: &Work, costs: &Costs) -> Shares {
    let of = |units: &[CoexecUnit]| -> f64 { units.iter().map(|&unit| costs.of_unit(work, unit)).sum() };
    let packing = of(&[CoexecUnit::CopiedInput, CoexecUnit::CopiedElement, CoexecUnit::StridedElement]);
    let memory = of(&[
        CoexecUnit::VectorWeight,
        CoexecUnit::FarWeightByte,
        CoexecUnit::DepthwiseBeyondL1Byte,
        CoexecUnit::StreamedByte,
        CoexecUnit::BeyondL2Byte,
    ]);
    Shares { compute: costs.nanos(work) - packing - memory, packing, memory }
}

#[cfg(test)]
mod tests;
