//! Converting tensors from the host's layout to that of the kernels, in which neighbouring threads read
//! adjacent pixels (coalesced); in the host's, adjacent pixels are far apart.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::workload::{Layout, Shape};
use opencl3::event::Event;

use super::{LaunchGrid, Operand, Step};
use crate::cpu::Element;
use crate::opencl::{Home, Queued, Result, Source, Tensor, Timing, extent};

/// Largest work-group, along columns and along slices.
const MAX_COLUMNS: u32 = 32;
const MAX_SLICES: u32 = 8;

/// A tensor in the host's layout, its copy in another one, and the kernel between them.
pub(crate) struct Arrangement<T: Element> {
    step: Step<T>,
    from: Arc<Tensor<T>>,
    to: Arc<Tensor<T>>,
}

impl<T: Element> Arrangement<T> {
    /// The copy of `from`, which has the host's layout and thus any shape of as many elements, in another layout.
    /// Launches the kernel once, within `limit`.
    ///
    /// # Errors
    /// Where the device lacks memory, or does not answer.
    pub(crate) fn new(
        from: Arc<Tensor<T>>,
        (shape, layout): (Shape, Layout),
        limit: Duration,
    ) -> Result<Self> {
        let runtime = from.runtime();
        let to = Arc::new(Tensor::new(runtime, shape, layout, Home::Device)?);
        let mut source =
            Source::of_tensors("arrange", include_str!("../kernels/arrange.cl"), T::DATA_TYPE, layout);
        source.result(layout);
        if shape.batch > 1 {
            source.option("BATCHED");
        }
        let [columns, rows, slices, ..] = extent(shape);
        let threads = [columns, rows, slices];
        let group = |side: u32, most: u32| 1 << side.clamp(1, most).ilog2();
        let work_group = [group(columns, MAX_COLUMNS), 1, group(slices, MAX_SLICES)];
        let [read, written] = [&from, &to].map(|tensor| Operand { tensor: Arc::clone(tensor), shape });
        let arguments = vec![read.memory(), written.memory(), written.extent()];
        let grid = LaunchGrid { threads, work_group };
        let step = Step::new(runtime, (source, None), "arrange", grid, arguments)?;
        let arrangement = Self { step, from, to };
        arrangement.run(limit)?;
        Ok(arrangement)
    }

    /// Launches the kernel, with time stamps, and waits for its end within `limit`.
    pub(crate) fn run(&self, limit: Duration) -> Result<Timing> {
        Queued::new(self.to.runtime(), self.step.kernel.name, || Ok(vec![self.enqueue()?]))?.wait(limit)
    }

    /// Whether it is the copy of `tensor` under `shape`.
    pub(crate) fn is_of(&self, tensor: &Arc<Tensor<T>>, shape: Shape) -> bool {
        Arc::ptr_eq(&self.from, tensor) && self.to.shape() == shape
    }

    /// The copy.
    pub(crate) fn copy(&self) -> &Arc<Tensor<T>> {
        &self.to
    }

    /// Enqueues the kernel.
    pub(crate) fn enqueue(&self) -> Result<Event> {
        self.step.kernel.enqueue(self.to.runtime())
    }
}
