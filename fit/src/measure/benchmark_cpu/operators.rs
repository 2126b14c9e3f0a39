//! The operators that a CPU runs for a network, recovered from the rows of the GPU table.
//!
//! The GPU delegate fuses operations that TFLite's CPU kernels run one by one. Three kinds
//! of operations have no row of their own: padding, recognised by an input side that no
//! earlier tensor has; functions linked in a kernel's name; and merged operations that only
//! leave a gap in the numbers of kernel names (CPU model, recovery of hidden operations).
//!
//! Responsible for: recovering them. Not for: times. Invariant: a network is listed whole
//! or, with the reason, not at all.

use std::collections::BTreeMap;

use super::super::SkippedRow;
use super::super::benchmark_gpu::{Columns, Part, whole_networks};
use super::super::benchmark_table::Table;
use super::super::gaps::most_linked_column;
use coexec_sim::workload::{Elementwise, Function, Operator, Shape, Slice};
use coexec_sim::{InputError, Text};

/// The operators of each network in order, by name, and the rows that cannot be used.
pub type Networks = (BTreeMap<String, Vec<Operator>>, Vec<SkippedRow>);

/// The networks of the GPU table, by name.
///
/// # Errors
/// The text is not such a table.
pub(super) fn recover(text: &Text) -> Result<Networks, InputError> {
    let table = Table::of(text)?;
    // The kernel names of the most informative phone serve for all.
    let names = most_linked_column(&table)?;
    Ok(whole_networks(&table, &Columns::of(&table, names)?, names, add))
}

/// Adds the operator of a row, with the hidden operations before it and the functions linked to it.
fn add(operators: &mut Vec<Operator>, part: Part<'_>) {
    let Part { operator, input_side, channels, linked, gap, .. } = part;
    if gap.padded {
        let input = Shape::image(input_side, input_side, channels);
        // Padding copies as much as a slice of the whole tensor.
        operators.push(Operator::Slice(Slice::of_channels(input, 0, channels)));
    }
    let side = gap.side.max(1);
    for _ in 0..hidden_operations(gap.missing) {
        operators.push(element_wise(Function::Multiply, Shape::image(side, side, channels)));
    }
    let output = operator.output();
    let mut fuses = !matches!(operator, Operator::Concat(_));
    operators.push(operator);
    for &function in linked.functions() {
        if !(fuses && function == Function::Relu) {
            operators.push(element_wise(function, output));
        }
        fuses = function.is_binary();
    }
}

/// Number of element-wise passes among the missing numbers. One of three to five is an
/// activation that the operation before it applies for free.
fn hidden_operations(missing: u32) -> u32 {
    match missing {
        0..=2 => missing,
        3..=5 => missing - 1,
        more => more,
    }
}

/// A function of a tensor of that extent. The CPU model does not depend on the second
/// operand.
fn element_wise(function: Function, input: Shape) -> Operator {
    let other = match function {
        Function::Add => Some(input),
        // The products of the data set are squeeze-and-excitation scales.
        Function::Multiply => Some(Shape { height: 1, width: 1, ..input }),
        _ => None,
    };
    Operator::Elementwise(Elementwise { function, input, other })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovered(rows: &[(&str, &str, &str)]) -> Networks {
        let header = "model,operation,feature,a|gpu|float,a|gpu|kernel\n".to_owned();
        let row = |&(operation, feature, kernel): &(&str, &str, &str)| {
            format!("net,{operation},\"{{{feature}}}\",1,{kernel}\n")
        };
        let content = std::iter::once(header).chain(rows.iter().map(row)).collect();
        recover(&Text { name: "gpu.csv".into(), content }).unwrap()
    }

    fn names(rows: &[(&str, &str, &str)]) -> Vec<String> {
        let (networks, left_out) = recovered(rows);
        assert_eq!(left_out, []);
        networks["net"].iter().map(ToString::to_string).collect()
    }

    const FIRST: &str = "'Input_shape': '224', 'Input_channel': 3, 'Output_shape': '112', 'Stride': '2', \
                         'Kernel': '3', 'Filter': '8', 'Group': '1'";
    const DEPTHWISE: &str = "'Input_shape': '114', 'Input_channel': 8, 'Output_shape': '112', 'Stride': '1', \
                             'Kernel': '3', 'Filter': '1', 'Group': '1'";
    const POINTWISE: &str = "'Input_shape': '112', 'Input_channel': 8, 'Output_shape': '112', 'Stride': '1', \
                             'Kernel': '1', 'Filter': '8', 'Group': '1'";

    #[test]
    fn a_side_that_no_tensor_has_was_padded() {
        let rows = [
            ("CONV_2D", FIRST, "convolution_2d_0_linked_:_relu_1"),
            ("DEPTHWISE_CONV_2D", DEPTHWISE, "depthwise_convolution_3"),
        ];
        let names = names(&rows);
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[1], "slice -> 114x114x8");
    }

    #[test]
    fn a_missing_number_is_a_multiplication_of_the_input() {
        let rows = [("CONV_2D", FIRST, "convolution_2d_0"), ("CONV_2D", POINTWISE, "convolution_2d_2")];
        assert_eq!(names(&rows)[1], "element-wise -> 112x112x8");
    }

    #[test]
    fn activations_are_free_after_operators_that_clamp() {
        let kernel = "convolution_2d_0_linked_:_add_1_linked_:_relu_2_linked_:_hard_swish_3_linked_:_relu_4";
        let names = names(&[("CONV_2D", FIRST, kernel)]);
        // The sum, the hard swish and the relu after it run; the first relu does not.
        assert_eq!(names.len(), 4, "{names:?}");
    }

    #[test]
    fn a_network_with_a_row_that_cannot_be_used_is_not_listed() {
        let rows = [("CONV_2D", FIRST, "convolution_2d_0"), ("CONV_3D", FIRST, "convolution_3d_1")];
        let (networks, left_out) = recovered(&rows);
        assert_eq!((networks.len(), left_out.len()), (0, 1));
        assert_eq!(left_out[0].line, 3);
    }
}
