//! Binding of the GPU's kernels to tensors, and conversion of those that it receives in the host's layout.
//!
//! Responsible for: the tensor that each kernel reads, which tensors are converted, and before which commands.
//! Not for: the layouts (`super::super::build`). Invariant: a command that reads a converted copy reads what
//! the tensor contains then, and no tensor is converted twice without a change between.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::Processor;
use coexec_sim::schedule::{Memory, Tensor, What};
use coexec_sim::workload::Shape;

use crate::cpu::Element;
use crate::execute::build::shapes_read;
use crate::execute::{Control, Place, Program, Result, Side};
use crate::opencl::prepared::arrangement::Arrangement;
use crate::opencl::{self, OpenClError};

/// Time limit of an operator's first launch, which may include compilation.
const FIRST_LAUNCH_LIMIT: Duration = Duration::from_mins(1);

/// The converted copies of a program's tensors.
pub(in crate::execute) struct Arrangements<T: Element> {
    /// Each with the tensor.
    all: Vec<(usize, Arrangement<T>)>,
    /// By stage: those that it reads.
    read: Vec<Vec<usize>>,
    /// By command: those to convert before it.
    pub(super) before: Vec<Vec<usize>>,
}

impl<T: Element> Default for Arrangements<T> {
    fn default() -> Self {
        Self { all: Vec::new(), read: Vec::new(), before: Vec::new() }
    }
}

impl<T: Element> Arrangements<T> {
    /// The kernel of a conversion.
    pub(super) fn enqueue(&self, index: usize) -> opencl::Result<opencl::events::Event> {
        self.all[index].1.enqueue()
    }
}

impl<T: Element> Program<T> {
    /// Binds each of the GPU's kernels to its tensors, and launches it once.
    pub(super) fn bind(&mut self, control: &Control) -> Result<()> {
        for stage in 0..self.operations.len() {
            control.check()?;
            let operation = &self.operations[stage];
            if operation.gpu().next().is_none() {
                continue;
            }
            let tensor = |place: &Place<T>| {
                place.device().map(Arc::clone).ok_or_else(|| OpenClError::Unsupported {
                    operator: operation.layer.operator.to_string(),
                    reason: "one of its tensors is not on the device".to_owned(),
                })
            };
            let shapes = shapes_read(operation);
            let read = |(&read, shape): (&usize, Shape)| {
                Ok((read, shape, tensor(self.place(Some(stage), read, Side::Device))?))
            };
            let inputs = operation.reads.iter().zip(shapes).map(read).collect::<Result<Vec<_>>>()?;
            let output = tensor(&self.places[stage])?;
            let arranged = |(read, shape, memory)| self.arranged(stage, (read, shape), memory);
            let inputs = inputs.into_iter().map(arranged).collect::<Result<Vec<_>>>()?;
            for gpu in self.operations[stage].parts.iter_mut().filter_map(|part| part.gpu.as_mut()) {
                gpu.prepared.bind(inputs.clone(), Arc::clone(&output))?;
                // Drivers finish compiling at a kernel's first launch, which may take longer than
                // the other side's time limit.
                gpu.prepared.run(FIRST_LAUNCH_LIMIT)?;
            }
        }
        self.arrange();
        Ok(())
    }

    /// What `stage` reads of `tensor`: itself, or a copy in the layout and under the shape that the stage's kernels
    /// read.
    fn arranged(
        &mut self,
        stage: usize,
        (tensor, shape): (usize, Shape),
        memory: Arc<opencl::Tensor<T>>,
    ) -> Result<Arc<opencl::Tensor<T>>> {
        let layout = self.operations[stage].read_in;
        if memory.layout() == layout {
            return Ok(memory);
        }
        let Arrangements { all, read, .. } = &mut self.arrangements;
        let known = all.iter().position(|(_, arrangement)| arrangement.is_of(&memory, shape));
        if known.is_none() {
            all.push((tensor, Arrangement::new(memory, (shape, layout), FIRST_LAUNCH_LIMIT)?));
        }
        let index = known.unwrap_or(all.len() - 1);
        read.resize(self.operations.len(), Vec::new());
        read[stage].push(index);
        Ok(Arc::clone(all[index].1.copy()))
    }

    /// Finds the commands before which tensors must be converted: the first that reads a tensor in a run, and
    /// the first after a change.
    fn arrange(&mut self) {
        let Arrangements { all, read, .. } = &self.arrangements;
        let mut is_current = vec![false; all.len()];
        let mut before = vec![Vec::new(); self.schedule.commands.len()];
        for (command, before) in self.schedule.commands.iter().zip(&mut before) {
            let changed: &[usize] = match command.what {
                What::Compute { .. } if command.by == Processor::Gpu => {
                    for &index in read.get(command.stage).into_iter().flatten() {
                        if !std::mem::replace(&mut is_current[index], true) {
                            before.push(index);
                        }
                    }
                    &[command.stage]
                }
                What::Move { tensor: Tensor::Result(result), to: Memory::Gpu, .. } => &[result],
                What::Move { tensor: Tensor::Inputs(reader), to: Memory::Gpu, .. } => {
                    &self.operations[reader].given
                }
                What::Compute { .. }
                | What::Move { .. }
                | What::Submit
                | What::HandOver { .. }
                | What::Join { .. }
                | What::ReadBack => &[],
            };
            for ((tensor, _), is_current) in all.iter().zip(&mut is_current) {
                *is_current &= !changed.contains(tensor);
            }
        }
        self.arrangements.before = before;
    }
}
