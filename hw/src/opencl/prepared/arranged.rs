//! Steps that bring what an operator reads into the layout its kernels like, where it comes
//! as the host has it: threads beside each other read pixels beside each other, which lie
//! far apart there.

use coexec_sim::workload::{Class, Layer};

use super::{Argument, Builder, LaunchGrid, TensorName};
use crate::cpu::Element;
use crate::opencl::{Extent, Home, Result, Tensor, stored};
use crate::operands::linked_operands;

/// Most threads of a work-group along columns and along slices.
const MAX_COLUMNS: u32 = 32;
const MAX_SLICES: u32 = 8;

/// Whether arranging what `layer` reads first pays off: it reads it again and again, and
/// nothing else in the same layout.
pub(super) fn pays_off(layer: &Layer) -> bool {
    let reads_again = match layer.operator.class() {
        Class::Product(product) => product.rows > 1 || !product.trained,
        Class::Convolution(_) | Class::Depthwise(_) | Class::Pool(_) => true,
        Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_)
        | Class::Gather(_)
        | Class::Recurrent(_)
        | Class::Generic(_) => false,
    };
    reads_again && linked_operands(layer) == 0
}

impl<T: Element> Builder<'_, T> {
    /// Makes the steps read arranged copies of the operator's inputs, and puts the steps that
    /// make those before them.
    pub(super) fn arrange(&mut self) -> Result<()> {
        let source = self.source("arrange", include_str!("../kernels/arrange.cl"));
        let first = self.inner.len();
        let mut steps = Vec::new();
        for (index, shape) in self.layer.operator.inputs().into_iter().enumerate() {
            let shape = stored(&self.layer.operator, shape);
            let extent = Extent::from(shape);
            let threads = [extent.width, extent.height, extent.slices].map(|side| side as u32);
            let group = |side: u32, most: u32| 1 << side.clamp(1, most).ilog2();
            let work_group = [group(threads[0], MAX_COLUMNS), 1, group(threads[2], MAX_SLICES)];
            self.inner.push(Tensor::new(self.runtime, shape, self.layout, Home::Device)?);
            let inner = first + index;
            let arguments = vec![
                Argument::Tensor(TensorName::Input(index)),
                Argument::Tensor(TensorName::Inner(inner)),
                Argument::Extent(TensorName::Inner(inner)),
            ];
            steps.push(self.step(&source, "arrange", LaunchGrid { threads, work_group }, arguments)?);
        }
        for step in &mut self.steps {
            step.read_inner(first);
        }
        self.steps.splice(0..0, steps);
        Ok(())
    }
}
