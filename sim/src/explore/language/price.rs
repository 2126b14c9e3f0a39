//! Latency of one placement of a product: the cost function of the solver.
//!
//! `max(T_gpu, T_npu) + T_sync + T_copy` if both compute; the NPU alone includes the hand-overs
//! to it and back (`HeteroInfer`, SOSP'25, section 4.4). This is the engine's answer as long as
//! the two do not contend for memory.

use crate::device::Profile;
use crate::kernel::Library;
use crate::plan::{GraphCover, Mechanism, Placement, Plan, Processor, Region};
use crate::simulate::{Result, SimulateError, Simulator, accelerator_costs, execute};
use crate::units::{Bytes, PICOS_PER_SECOND, Picos};
use crate::workload::{Layer, Stage};

/// Memory clients while GPU and NPU share a product.
const CLIENTS: usize = 2;

/// Predicts the latency of products on a device.
#[derive(Clone, Copy, Debug)]
pub struct ProductPrices<'a> {
    device: &'a Profile,
    library: Library,
    mechanism: Mechanism,
}

impl<'a> ProductPrices<'a> {
    /// Prices on `device`, with processors that synchronise by `mechanism`.
    pub fn new(device: &'a Profile, library: Library, mechanism: Mechanism) -> Self {
        Self { device, library, mechanism }
    }

    /// The device.
    pub fn device(&self) -> &'a Profile {
        self.device
    }

    /// Latency on the GPU alone, with the input on the GPU.
    ///
    /// # Errors
    /// The device has no GPU or kernel for `layer`.
    pub fn gpu(&self, layer: &Layer) -> Result<Picos> {
        Ok(execute(layer, self.device, self.library, Processor::Gpu)?.0.duration())
    }

    /// Time and traffic of the NPU's part, `region`; `None` if no graphs cover its rows.
    fn npu(
        &self,
        layer: &Layer,
        (region, cover): (Region, GraphCover),
        hides_dispatch: bool,
    ) -> Result<Option<(Picos, Bytes)>> {
        let npu = self.device.systolic().ok_or_else(|| SimulateError::absent("NPU", self.device))?;
        let Some(graphs) = cover.graphs(region.rows.length(), npu) else { return Ok(None) };
        let (mut sum, mut bytes) = (Picos::ZERO, Bytes::ZERO);
        let part = layer.with_output_channels(region.channels.length());
        let engine = Simulator::new(self.device, self.library).product_by_product();
        for rows in graphs {
            let part = part.with_output_rows(0..rows);
            let (phases, _) = engine.layer(&part, Processor::NPU)?;
            let phases = if hides_dispatch { phases.without_launch() } else { phases };
            sum += phases.duration();
            bytes += phases.bytes();
        }
        Ok(Some((sum, bytes)))
    }

    /// Lower bound of the latency of `split`, from an input on the GPU to a result that the GPU
    /// may read; `None` if no graphs cover the NPU's rows. The bound is exact unless the
    /// processors slow each other down below the memory's capacity.
    ///
    /// # Errors
    /// The device lacks a processor, or a kernel for `layer`.
    pub fn split(&self, layer: &Layer, split: &Placement) -> Result<Option<Picos>> {
        let whole = Region::of(layer.operator.output());
        let hides_dispatch = self.mechanism.hides_dispatch(split);
        let (mut npu, mut gpu, mut bytes) = (Picos::ZERO, Picos::ZERO, Bytes::ZERO);
        for part in split.parts() {
            let region = part.region.common(whole);
            if let Processor::Npu(graphs) = part.by {
                let Some((time, moved)) = self.npu(layer, (region, graphs), hides_dispatch)? else {
                    return Ok(None);
                };
                (npu, bytes) = (npu + time, bytes + moved);
            } else {
                let (phases, _) = execute(&region.part_of(layer), self.device, self.library, part.by)?;
                (gpu, bytes) = (gpu + phases.duration(), bytes + phases.bytes());
            }
        }
        let [to_npu, back, join] = accelerator_costs(self.device, self.mechanism, layer);
        if !split.is_cut() {
            return Ok(Some(to_npu + npu + back));
        }
        let moved = bytes.0 as f64 / self.device.memory.capacity(CLIENTS).0 * PICOS_PER_SECOND;
        let moving = Picos::from_nanos(moved / 1e3);
        Ok(Some(gpu.max(to_npu + npu).max(moving) + join))
    }

    /// Simulated latency of `split`, from and to the GPU as in [`Self::split`].
    ///
    /// # Errors
    /// As [`Self::split`].
    pub fn simulated(&self, stage: &Stage, split: &Placement) -> Result<Picos> {
        let plan = Plan::new(self.mechanism, vec![*split]);
        let mut simulator = Simulator::new(self.device, self.library).product_by_product().inside();
        let alone = simulator.latency(std::slice::from_ref(&stage.isolated()), &plan)?;
        let [to_npu, back, _] = accelerator_costs(self.device, self.mechanism, &stage.layer);
        Ok(alone + to_npu + if split.is_cut() { Picos::ZERO } else { back })
    }
}
