//! Prices of both parts of every cut of one operator, without contention.

use super::{Candidate, Price, SearchOptions, StartDelays, price};
use crate::device::{Direction, LinkTransfer, Profile};
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Processor, Region, Span};
use crate::schedule::{pieces, result_bytes};
use crate::simulate::{Result, SimulateError, Simulator, copying, has_own_memory};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Operator, Stage};

/// Most cuts of one operator that a search prices: more than any layer of a network has channels,
/// and a tenth of a second of work.
pub(super) const MAX_CUTS: u32 = 1 << 16;

/// Most cuts along an operator's height: a part's time is about linear in its rows.
const MAX_ROW_CUTS: u32 = 128;

impl Axis {
    /// Channels or rows of `operator`; `None` if a search does not cut it along this axis.
    pub(super) fn cuttable(self, operator: &Operator) -> Option<u32> {
        match self {
            Self::Channels => operator.splittable_channels(),
            Self::Height => operator.splittable_rows(),
        }
    }

    /// Channels or rows between neighbouring cuts of `all`.
    pub(super) fn step(self, all: u32, options: &SearchOptions) -> u32 {
        match self {
            Self::Channels => options.step.max(1),
            Self::Height => all.div_ceil(MAX_ROW_CUTS).max(1),
        }
    }
}

/// The price of both parts at every grid point, without contention and start delays.
///
/// The points are those of [`Axis::step`], as a strategy cuts at no others. `optimal` does not use this grid: its
/// `CutTable` has every row or channel, and the parts' traffic, from which it bounds contention.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) axis: Axis,
    /// Channels or rows of the CPU's part, ascending, from none to all.
    pub(super) cpu_extent: Vec<u32>,
    /// All channels or rows.
    pub(super) all: u32,
    /// Price of the GPU's part, the rest; `None` without a kernel and at the last point, where it is
    /// empty.
    pub(super) gpu: Vec<Option<Price>>,
    /// Time to copy the GPU's part to the CPU's; zero if they share the memory.
    pub(super) gathering: Vec<Picos>,
    /// Price of the CPU's part on each core set; `None` without a kernel and at the first point, where
    /// it is empty.
    pub(super) cpu: Vec<(CoreSet, Vec<Option<Price>>)>,
}

impl Grid {
    /// # Errors
    /// [`SimulateError::GridTooFine`] for more than [`MAX_CUTS`] points.
    pub(super) fn new(
        simulator: &Simulator<'_>,
        stage: &Stage,
        options: &SearchOptions,
        axis: Axis,
    ) -> Result<Self> {
        let layer = &stage.layer;
        let (cpu_extent, all) = match axis.cuttable(&layer.operator) {
            Some(all) => {
                let step = axis.step(all, options);
                let points = all.div_ceil(step).saturating_add(1);
                if points > MAX_CUTS {
                    let operator = layer.operator.to_string();
                    return Err(SimulateError::GridTooFine { operator, points, most: MAX_CUTS });
                }
                let mut grid: Vec<u32> = (0..all).step_by(step as usize).collect();
                grid.push(all);
                (grid, all)
            }
            // An operator that cannot be cut has two points: all of it on the GPU, or on the CPU.
            None => (vec![0, 1], 1),
        };
        let time = |by, span: Span| {
            if span.is_empty() {
                return None;
            }
            let part = Region::along(axis, span).part_of(layer);
            let part = if span.length() == all { layer } else { &part };
            price(simulator, part, by, options.objective)
        };
        let gpu = cpu_extent.iter().map(|&cpu| time(Processor::Gpu, Span::new(cpu, all))).collect();
        let gathering =
            cpu_extent.iter().map(|&cpu| gather_time(simulator.device(), layer, axis, [cpu, all]));
        let gathering = gathering.collect();
        let cpu = options
            .core_sets
            .iter()
            .map(|&cores| {
                (
                    cores,
                    cpu_extent.iter().map(|&cpu| time(Processor::Cpu(cores), Span::new(0, cpu))).collect(),
                )
            })
            .collect();
        Ok(Self { axis, cpu_extent, all, gpu, gathering, cpu })
    }

    /// Every placement of the operator, with a lower bound of its latency.
    pub(super) fn candidates(&self, lead: StartDelays, overhead: Picos) -> impl Iterator<Item = Candidate> {
        let gpu_only = self.gpu.first().copied().flatten().map(|gpu| gpu.time).map(|gpu| Candidate {
            placement: Placement::GPU,
            cpu: Picos::ZERO,
            gpu,
            latency: lead.launch + lead.gpu + gpu + lead.after_gpu,
            energy: None,
        });
        let last = self.cpu_extent.len() - 1;
        gpu_only.into_iter().chain(self.cpu.iter().flat_map(move |(cores, times)| {
            let cores = *cores;
            (1..=last).filter_map(move |index| {
                let cpu = times[index]?.time;
                if index == last {
                    let latency = lead.cpu + cpu;
                    let placement = Placement::cpu(cores);
                    return Some(Candidate { placement, cpu, gpu: Picos::ZERO, latency, energy: None });
                }
                let gpu = self.gpu[index]?.time;
                let first = self.cpu_extent[index];
                Some(Candidate {
                    placement: Placement::cpu_and_gpu(self.axis, cores, [first, self.all - first]),
                    cpu,
                    gpu,
                    latency: overhead
                        + lead.launch
                        + (lead.cpu + cpu).max(lead.gpu + gpu + self.gathering[index]),
                    energy: None,
                })
            })
        }))
    }
}

/// Time to copy the GPU's part to the host, where the CPU has the first `cpu` of `all`
/// channels or rows.
fn gather_time(device: &Profile, layer: &Layer, axis: Axis, [cpu, all]: [u32; 2]) -> Picos {
    if !has_own_memory(device) {
        return Picos::ZERO;
    }
    let part = u128::from(result_bytes(layer).0) * u128::from(all - cpu) / u128::from(all.max(1));
    let transfer = LinkTransfer { bytes: Bytes(part as u64), pieces: pieces(layer, Some(axis)) };
    copying(device, transfer, Direction::ToHost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Library;
    use crate::workload::{Conv2d, DataType, Shape, Window};

    #[test]
    fn a_whole_operator_costs_the_same_along_either_axis() {
        let device = Profile::load("pixel4").unwrap();
        let simulator = Simulator::new(&device, Library::Xnnpack);
        let (options, window) = (SearchOptions::on(&device), Window::valid(1).stride(2));
        // As a part, it would not read the last row, which no window reaches.
        let conv = Conv2d::new(Shape::image(56, 56, 64), 128, window);
        let stage = Stage::single("conv".to_owned(), Layer::new(conv.into(), DataType::F32));
        let [channels, rows] = Axis::ALL.map(|axis| Grid::new(&simulator, &stage, &options, axis).unwrap());
        assert_eq!(channels.gpu[0], rows.gpu[0]);
        assert_eq!(channels.cpu[0].1.last(), rows.cpu[0].1.last());
    }
}
