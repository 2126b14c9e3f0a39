//! Calls of micro-kernels that are made row by row, whatever a row holds.
//!
//! Responsible for: how often an operator starts a kernel anew, which counts where its rows are short: pictures of three
//! channels are padded pixel by pixel. Not for: tiles of products, whose rate is of their own.

use crate::workload::{Class, Definition, Dimension, Movement, Operator, Pad, Reduction};

/// Calls for a row that is padded: a loop over five dimensions, zeros, a copy, zeros (LiteRT 2.3.0 on Zen 4 takes four
/// times what a row of a broadcast does).
const PADDED_ROW_CALLS: u64 = 4;
/// Calls for a row of a softmax: maximum, exponentials with their sum, scaling, and what brings a vector down to a number
/// (the same, eight times).
const SOFTMAX_ROW_CALLS: u64 = 8;

/// Calls that `operator` takes row by row.
pub(super) fn calls(operator: &Operator) -> u64 {
    let output = operator.output();
    let pixels = output.pixels();
    match operator.class() {
        Class::Depthwise(_) | Class::Pool(_) | Class::Movement(Movement::Resized(_)) => pixels,
        Class::Elementwise(elementwise) => u64::from(elementwise.is_broadcast()) * pixels,
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

/// Rows of what `pad` writes: dimensions are one only where neither they nor the one inside them are padded.
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
