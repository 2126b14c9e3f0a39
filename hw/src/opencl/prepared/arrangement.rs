//! Converting tensors from the host's layout to that of the kernels, in which neighbouring threads read
//! adjacent pixels (coalesced); in the host's, adjacent pixels are far apart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::workload::{Layout, Shape};
use opencl3::event::Event;

use super::step::{Argument, LaunchGrid, Step, TensorName};
use crate::cpu::Element;
use crate::opencl::{Extent, Home, Result, Runtime, Source, Tensor, Timing, wait};

/// Largest work-group, along columns and along slices.
const MAX_COLUMNS: u32 = 32;
const MAX_SLICES: u32 = 8;

/// A tensor in the host's layout, its copy in another one, and the kernel between them.
pub(crate) struct Arrangement<T: Element> {
    runtime: Arc<Runtime>,
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
        let runtime = Arc::clone(from.runtime());
        let to = Arc::new(Tensor::new(&runtime, shape, layout, Home::Device)?);
        let mut source =
            Source::of_tensors("arrange", include_str!("../kernels/arrange.cl"), T::DATA_TYPE, layout);
        source.result(layout);
        if shape.batch > 1 {
            source.option("BATCHED");
        }
        let extent = Extent::from(shape);
        let threads = [extent.width, extent.height, extent.slices].map(|side| side as u32);
        let group = |side: u32, most: u32| 1 << side.clamp(1, most).ilog2();
        let work_group = [group(threads[0], MAX_COLUMNS), 1, group(threads[2], MAX_SLICES)];
        let arguments = vec![
            Argument::Tensor(TensorName::Input(0)),
            Argument::Tensor(TensorName::Output),
            Argument::Extent(TensorName::Output),
        ];
        let grid = LaunchGrid { threads, work_group };
        let step = Step::new(&runtime, (source, None), "arrange", grid, arguments)?;
        step.bind((std::slice::from_ref(&from), &[extent]), (&to, extent), &[])?;
        let arrangement = Self { runtime, step, from, to };
        arrangement.launch(limit)?;
        Ok(arrangement)
    }

    fn launch(&self, limit: Duration) -> Result<Event> {
        let event = self.enqueue()?;
        wait(&self.runtime, &event, self.step.kernel.name, limit)?;
        Ok(event)
    }

    /// Launches the kernel, with time stamps, and waits for its end within `limit`.
    pub(crate) fn run(&self, limit: Duration) -> Result<Timing> {
        let started = Instant::now();
        let event = self.launch(limit)?;
        Timing::of(&[event], started.elapsed())
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
        self.step.kernel.enqueue(&self.runtime)
    }
}
