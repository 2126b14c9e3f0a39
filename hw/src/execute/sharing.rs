//! The memory that both processors share, probed before use.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::Region;
use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::workload::{DataType, Elementwise, Function, Layer, Layout, Operator, Shape};

use super::Home;
use crate::opencl::{Dispatch, Linearisation, OpenClError, Prepared, Runtime, Tensor};
use crate::operands::Weights;
use crate::sync::Mechanism;

/// Shape of the tensor handed over in a trial.
const EXTENT: Shape = Shape::image(4, 4, 64);
/// Trials, to catch a driver that copies only occasionally.
const TRIALS: u32 = 3;
/// Time limit of a trial, kernel build included.
const LIMIT: Duration = Duration::from_secs(20);

/// The best memory for `mechanism`: fine-grained shared virtual memory, else buffers that stay
/// mapped, if both sides see each other's results in them, else copies. For a mechanism that maps
/// results, mappable buffers come first.
pub(super) fn choose(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Home {
    let fine = runtime.device().polls_shared_memory;
    let maps = mechanism.modelled().maps();
    if fine && !maps {
        Home::Shared
    } else if is_seen_by_both(runtime).unwrap_or(false) {
        Home::Mapped
    } else if fine {
        Home::Shared
    } else {
        Home::Device
    }
}

/// Whether the device reads what the host wrote to a buffer that stays mapped, and the host what
/// the device wrote.
fn is_seen_by_both(runtime: &Arc<Runtime>) -> Result<bool, OpenClError> {
    let function = Elementwise { function: Function::Relu, input: EXTENT, other: None };
    let layer = Layer::new(Operator::Elementwise(function), DataType::F32);
    let dispatch = Dispatch {
        kernel: Kernel::Elementwise,
        tile: [1; 3],
        work_group: [4, 1, 1],
        linearisation: Linearisation::None,
    };
    let whole = Region::of(layer.operator.output());
    let tensor = || Tensor::<f32>::new(runtime, EXTENT, Layout::Buffer, Home::Mapped).map(Arc::new);
    let (input, output) = (tensor()?, tensor()?);
    let count = EXTENT.elements() as usize;
    let (Some(from), Some(to)) = (input.shared_ptr(), output.shared_ptr()) else { return Ok(false) };
    let weights = Weights::default();
    let relu = Prepared::new(&layer, &weights, whole, (std::slice::from_ref(&input), &output), dispatch)?;
    for trial in 1..=TRIALS {
        for index in 0..count {
            // SAFETY: both tensors have `count` elements, and no kernel is running.
            unsafe {
                from.add(index).write_volatile((trial as usize * count + index) as f32);
                to.add(index).write_volatile(-1.0);
            }
        }
        relu.run(LIMIT)?;
        let seen = (0..count).all(|index| {
            // SAFETY: as above.
            let found = unsafe { to.add(index).read_volatile() };
            found.to_bits() == ((trial as usize * count + index) as f32).to_bits()
        });
        if !seen {
            return Ok(false);
        }
    }
    Ok(true)
}
