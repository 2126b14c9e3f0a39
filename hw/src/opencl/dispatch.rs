//! How a layer is launched: what the simulator's dispatch rules chose, or what a sweep
//! wants instead.

use coexec_sim::kernel::gpu::{Kernel, Launch, Linearisation};
use coexec_sim::{Operator, Shape};

/// How a layer is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: Kernel,
    /// What a thread computes: columns, rows, slices.
    pub tile: [u32; 3],
    /// Threads of a work-group.
    pub work_group: [u32; 3],
    /// How the grid is laid out.
    pub linearisation: Linearisation,
}

impl From<&Launch> for Dispatch {
    fn from(launch: &Launch) -> Self {
        let &Launch { kernel, tile, work_group, linearisation, .. } = launch;
        Self { kernel, tile, work_group, linearisation }
    }
}

/// The extent under which tensors of `operator` are kept: the products of a batch of
/// matrices are the rows of an image, as each has weights of its own.
pub(super) fn stored(operator: &Operator, shape: Shape) -> Shape {
    if operator.multiplies_activations() {
        Shape { batch: 1, height: shape.batch * shape.height, ..shape }
    } else {
        shape
    }
}
