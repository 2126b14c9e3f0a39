//! Latency of one placement of a product: the cost function of the solver.
//!
//! `max(T_gpu, T_npu) + T_sync + T_copy` if both compute; the NPU alone includes the hand-overs
//! to it and back (`HeteroInfer`, SOSP'25, section 4.4). This is the engine's answer as long as
//! the two do not contend for memory.

use crate::device::Profile;
use crate::kernel::Library;
use crate::plan::{Mechanism, Placement, Plan, Processor};
use crate::simulate::{Result, SimulateError, Simulator, accelerator_costs, execute};
use crate::units::{PICOS_PER_SECOND, Picos};
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

    /// Lower bound of the latency of `split`, from an input on the GPU to a result that the GPU
    /// may read; `None` if no graphs cover the NPU's rows. The bound is exact unless the
    /// processors slow each other down below the memory's capacity.
    ///
    /// # Errors
    /// The device lacks a processor, or a kernel for the layer.
    pub fn split(&self, stage: &Stage, split: &Placement) -> Result<Option<Picos>> {
        let plan = Plan::new(self.mechanism, vec![*split]);
        let simulator = Simulator::new(self.device, self.library).product_by_product();
        let [cpu, gpu, npu] = match simulator.computing(&[stage.isolated()], &plan) {
            Err(SimulateError::NoGraph { .. }) => return Ok(None),
            computing => computing?,
        };
        let [to_npu, back, join] = accelerator_costs(self.device, self.mechanism, &stage.layer);
        if !split.is_cut() {
            return Ok(Some(to_npu + npu.0 + back));
        }
        let bytes = cpu.1 + gpu.1 + npu.1;
        let moved = bytes.0 as f64 / self.device.memory.capacity(CLIENTS).0 * PICOS_PER_SECOND;
        let moving = Picos::from_nanos(moved / 1e3);
        Ok(Some(gpu.0.max(to_npu + npu.0).max(moving) + join))
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
