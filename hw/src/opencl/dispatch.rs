//! How a layer is launched: what the simulator's dispatch rules chose, or what a sweep
//! wants instead.

use coexec_sim::device::gpu::Gpu;
use coexec_sim::kernel::Unsupported;
use coexec_sim::kernel::gpu::{Kernel, Launch, execute};
use coexec_sim::workload::{Layer, Operator, Shape, slices};

/// Pixels along a side of a Winograd tile, F(4x4, 3x3).
pub(super) const WINOGRAD_TILE: u32 = 4;
/// Points of the transformed domain, 6 x 6.
pub(super) const WINOGRAD_POINTS: u32 = 36;

/// Which axes of a grid are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linearisation {
    /// Three axes: columns, rows, slices.
    #[default]
    None,
    /// Columns and rows joined.
    Spatial,
    /// All axes joined.
    All,
}

/// How a layer is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: Kernel,
    /// What a thread computes: columns, rows, slices.
    pub tile: [u32; 3],
    /// Threads of a work-group.
    pub work_group: [u32; 3],
    /// How the grid is laid out; only the kernels around the convolution join axes.
    pub linearisation: Linearisation,
}

impl Dispatch {
    /// What the rules of `gpu` choose for `layer`: for a part of a layer, the layer
    /// that computes only that part.
    ///
    /// # Errors
    /// Where the profile lacks the table of the kernel that is chosen.
    pub fn choose(layer: &Layer, gpu: &Gpu) -> Result<Self, Unsupported> {
        Ok(Self::of(layer, &execute(layer, gpu)?.detail))
    }

    /// The simulator's `launch` of `layer`.
    pub fn of(layer: &Layer, launch: &Launch) -> Self {
        let threads = threads(&layer.operator, launch);
        Self {
            kernel: launch.kernel,
            tile: launch.tile,
            work_group: launch.work_group,
            linearisation: threads.map_or(Linearisation::None, |threads| joined(threads, launch.grid)),
        }
    }

    /// The launched grid of `threads`.
    pub(super) fn grid(&self, [columns, rows, slices]: [u32; 3]) -> [u32; 3] {
        match self.linearisation {
            Linearisation::None => [columns, rows, slices],
            Linearisation::Spatial => [columns * rows, slices, 1],
            Linearisation::All => [columns * rows * slices, 1, 1],
        }
    }
}

/// Threads along each axis before axes are joined, for the kernels that join them.
fn threads(operator: &Operator, launch: &Launch) -> Option<[u32; 3]> {
    let output = operator.output();
    let [width, height] = match (launch.kernel, operator) {
        (Kernel::MatMul, Operator::MatMul(product)) => [product.m, product.batch],
        (Kernel::Winograd, _) => [
            (output.width * output.batch).div_ceil(WINOGRAD_TILE) * output.height.div_ceil(WINOGRAD_TILE),
            WINOGRAD_POINTS,
        ],
        (Kernel::ConvGeneric | Kernel::GroupedConv, _) => [output.width * output.batch, output.height],
        _ => return None,
    };
    Some(blocks([width, height, slices(output.channels)], launch.tile))
}

/// How many tiles cover `extent`.
pub(super) fn blocks(extent: [u32; 3], tile: [u32; 3]) -> [u32; 3] {
    [0, 1, 2].map(|axis| extent[axis].div_ceil(tile[axis].max(1)))
}

/// How `grid` lays out `threads`. Where axes of one make several answers right, they
/// are the same.
fn joined([columns, rows, slices]: [u32; 3], grid: [u32; 3]) -> Linearisation {
    if grid == [columns, rows, slices] {
        Linearisation::None
    } else if grid == [columns * rows, slices, 1] {
        Linearisation::Spatial
    } else {
        Linearisation::All
    }
}

/// The extent under which tensors of `operator` are kept: the products of a batch of
/// matrices are the rows of an image, as each has weights of its own.
pub(super) fn stored(operator: &Operator, shape: Shape) -> Shape {
    match operator {
        Operator::MatMul(_) => Shape { batch: 1, height: shape.batch, ..shape },
        _ => shape,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_axes_are_told_from_the_grid() {
        assert_eq!(joined([7, 3, 5], [7, 3, 5]), Linearisation::None);
        assert_eq!(joined([7, 3, 5], [21, 5, 1]), Linearisation::Spatial);
        assert_eq!(joined([7, 3, 5], [105, 1, 1]), Linearisation::All);
    }
}
