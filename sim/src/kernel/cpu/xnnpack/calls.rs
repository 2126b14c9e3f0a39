//! Calls of row-wise micro-kernels, whose overhead does not depend on the row's length.
//!
//! Responsible for: the number of calls per operator, which matters for short rows: images of three
//! channels are padded pixel by pixel. Not for: tiles of products, which have their own rate.

use crate::workload::{Class, Definition, Dimension, Movement, Operator, Pad, Reduction};

/// Cost of a padded row in calls: a loop over five dimensions, then zeros, a copy, zeros (LiteRT 2.3.0
/// on Zen 4: four times the time of a broadcast row).
const PADDED_ROW_CALLS: u64 = 4;
/// Cost of a softmax row in calls: maximum, exponentials and their sum, scaling, and the horizontal
/// reductions of vectors (LiteRT 2.3.0 on Zen 4: eight times the time of a broadcast row).
const SOFTMAX_ROW_CALLS: u64 = 8;

/// Calls of row-wise micro-kernels in `operator`.
pub(super) fn calls(operator: &Operator) -> u64 {
    let output = operator.output();
    let pixels = output.pixels();
    match operator.class() {
        Class::Depthwise(_) | Class::Pool(_) | Class::Movement(Movement::Resized(_)) => pixels,
        Class::Elementwise(elementwise) => u64::from(elementwise.is_broadcast()) * elementwise.runs(),
        Class::Reduction(Reduction::Exponentials) => pixels * SOFTMAX_ROW_CALLS,
        Class::Movement(Movement::Padded(pad)) => padded_rows(pad) * PADDED_ROW_CALLS,
        Class::Movement(Movement::Range(range)) => u64::from(range.dimension == Dimension::Channels) * pixels,
        Class::Movement(Movement::Joined(concat)) => {
            u64::from(concat.dimension == Dimension::Channels) * pixels * concat.extents.len() as u64
        }
        Class::Movement(Movement::Transposed(_) | Movement::Rearranged(_))
        | Class::Reduction(Reduction::Pixels { .. } | Reduction::Normalisation(_))
        | Class::Product(_)
        | Class::Convolution(_)
        | Class::Gather(_)
        | Class::Recurrent(_)
        | Class::Generic(_) => 0,
    }
}

/// Contiguous output rows of `pad`: XNNPACK merges a dimension with the one inside it only if neither
/// is padded.
fn padded_rows(pad: &Pad) -> u64 {
    let is_padded = |dimension: Dimension| {
        let side = dimension as usize;
        pad.before[side].max(pad.after[side]) > 0
    };
    let output = pad.output();
    let [batch, height, width] = [output.batch, output.height, output.width].map(u64::from);
    if is_padded(Dimension::Channels) || is_padded(Dimension::Width) {
        batch * height * width
    } else if is_padded(Dimension::Height) {
        batch * height
    } else {
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Elementwise, Function, Shape};

    fn padded(before: [u32; 4]) -> u64 {
        calls(&Pad { input: Shape::image(224, 224, 3), before, after: [0; 4] }.into()) / PADDED_ROW_CALLS
    }

    #[test]
    fn columns_of_zeros_make_a_row_of_each_pixel() {
        assert_eq!(padded([0, 2, 0, 0]), 226);
        assert_eq!(padded([0, 0, 2, 0]), 224 * 226);
        assert_eq!(padded([0, 0, 0, 5]), 224 * 224);
    }

    #[test]
    fn only_broadcasts_go_pixel_by_pixel() {
        let input = Shape::image(8, 8, 16);
        let of = |other| calls(&Elementwise { function: Function::Multiply, input, other }.into());
        assert_eq!(of(Some(Shape::image(1, 1, 16))), 64);
        assert_eq!(of(Some(input)), 0);
    }
}
