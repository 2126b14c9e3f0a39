//! Conversion of tensors that the GPU receives in the host's layout.
//!
//! Responsible for: the tensor that each of the GPU's kernels reads, which tensors are converted, and before which
//! commands. Not for: the layouts (`super::build`). Invariant: a command that reads a converted copy reads what
//! the tensor contains then, and no tensor is converted twice without a change between.

use std::sync::Arc;

use coexec_sim::schedule::{Memory, Schedule, Tensor, What};
use coexec_sim::workload::{Layer, Layout, Shape};
use coexec_sim::{Operator, Processor};

use super::build::{FIRST_LAUNCH_LIMIT, Tensors};
use super::{Place, Places, Side};
use crate::cpu::Element;
use crate::opencl::events::Event;
use crate::opencl::prepared::arrangement::Arrangement;
use crate::opencl::{self, OpenClError, Result, stored};

/// The converted copies of a program's tensors.
pub(super) struct Arrangements<T: Element> {
    /// Each with the tensor.
    all: Vec<(usize, Arrangement<T>)>,
    /// By stage: those that it reads.
    read: Vec<Vec<usize>>,
    /// By command: those to convert before it.
    before: Vec<Vec<usize>>,
}

impl<T: Element> Arrangements<T> {
    /// None yet, of a workload of `stages` stages.
    pub(super) fn new(stages: usize) -> Self {
        Self { all: Vec::new(), read: vec![Vec::new(); stages], before: Vec::new() }
    }

    /// The kernels that convert what `command` reads and what has changed.
    pub(super) fn enqueue_before(&self, command: usize) -> impl Iterator<Item = Result<Event>> {
        self.before[command].iter().map(|&index| self.all[index].1.enqueue())
    }

    /// What the GPU's kernels of `stage` read: its tensors, or copies in the layout and under the shapes that
    /// these kernels read.
    pub(super) fn inputs(
        &mut self,
        (stage, layer): (usize, &Layer),
        tensors: &Tensors,
        places: &Places<T>,
    ) -> Result<Vec<Arc<opencl::Tensor<T>>>> {
        let reads = tensors.reads[stage].iter().zip(layer.read_shapes());
        let input = |(&read, shape)| {
            let own = on_device(places.of(Some(stage), read, Side::Device), &layer.operator)?;
            let read_as = (stored(&layer.operator, shape), tensors.read_in[stage]);
            if own.layout() == read_as.1 { Ok(own) } else { self.copy(stage, (read, own), read_as) }
        };
        reads.map(input).collect()
    }

    /// The copy of a tensor, which is made for the first stage that reads it so.
    fn copy(
        &mut self,
        stage: usize,
        (tensor, own): (usize, Arc<opencl::Tensor<T>>),
        read_as: (Shape, Layout),
    ) -> Result<Arc<opencl::Tensor<T>>> {
        let known = self.all.iter().position(|(_, arrangement)| arrangement.is_of(&own, read_as.0));
        if known.is_none() {
            self.all.push((tensor, Arrangement::new(own, read_as, FIRST_LAUNCH_LIMIT)?));
        }
        let index = known.unwrap_or(self.all.len() - 1);
        self.read[stage].push(index);
        Ok(Arc::clone(self.all[index].1.copy()))
    }

    /// Finds the commands before which tensors must be converted: the first that reads a tensor in a run, and
    /// the first after a change.
    pub(super) fn plan(&mut self, schedule: &Schedule, tensors: &Tensors) {
        let mut is_current = vec![false; self.all.len()];
        self.before = vec![Vec::new(); schedule.commands.len()];
        for (command, before) in schedule.commands.iter().zip(&mut self.before) {
            let changed: &[usize] = match command.what {
                What::Compute { .. } if command.by == Processor::Gpu => {
                    for &index in &self.read[command.stage] {
                        if !std::mem::replace(&mut is_current[index], true) {
                            before.push(index);
                        }
                    }
                    &[command.stage]
                }
                What::Move { tensor: Tensor::Result(result), to: Memory::Gpu, .. } => &[result],
                What::Move { tensor: Tensor::Inputs(reader), to: Memory::Gpu, .. } => &tensors.given[reader],
                What::Compute { .. }
                | What::Move { .. }
                | What::Submit
                | What::HandOver { .. }
                | What::Join { .. }
                | What::ReadBack => &[],
            };
            for ((tensor, _), is_current) in self.all.iter().zip(&mut is_current) {
                *is_current &= !changed.contains(tensor);
            }
        }
    }
}

/// The device's tensor of a place that a kernel of `operator` needs there.
pub(super) fn on_device<T: Element>(place: &Place<T>, operator: &Operator) -> Result<Arc<opencl::Tensor<T>>> {
    place.device().map(Arc::clone).ok_or_else(|| OpenClError::Unsupported {
        operator: operator.to_string(),
        reason: "one of its tensors is not on the device".to_owned(),
    })
}
