//! Importer of whole networks timed on a GPU: the launches of each, from the GPU
//! table of the mobile-ml-benchmark data set, with the time of an inference from its
//! end-to-end table.
//!
//! Element-wise operations that the delegate does not merge into a neighbour appear only
//! as gaps in the numbers of kernel names. Metal's merged depthwise and pointwise
//! convolution has two rows, each with the time of the whole.
//!
//! Responsible for: the launches in order, including those without a row. Not for: times
//! of single launches (`benchmark_gpu`). Invariant: a network is listed with all its
//! launches or, with line and reason, not at all.

use std::path::Path;

use super::benchmark_gpu::{Columns, FUSED_KERNEL, Part, whole_networks};
use super::benchmark_table::{self, GPU, OPERATIONS, TIMES, Table, end_to_end};
use super::gaps::most_linked_column;
use super::{OnGpu, Runs, usable};
use coexec_sim::workload::{DataType, Elementwise, Function, Layer, Linked, Operator, SecondOperand, Shape};
use coexec_sim::{InputError, Text};

/// Element-wise operations that one launch merges: a product and a sum (a scaled
/// residual, or a normalisation by trained statistics) and the activation after them.
/// With this number, sums of launches explain the inferences of the Mi 8 SE, whose
/// times repeat best, to 0.7 %; with one launch per operation, to 0.75 %.
const MERGED: usize = 3;
/// The functions of such a launch, in order.
const MERGED_FUNCTIONS: [Function; MERGED] = [Function::Multiply, Function::Add, Function::Relu];

/// Reads the two tables in `folder`, flat or as the data set publishes them, for
/// the phone whose columns start with `device` (`pixel4` for `pixel4|gpu|kernel`
/// and `pixel4|gpu|float|mean`).
///
/// # Errors
/// A file does not exist, is not such a table, or has no such phone.
pub fn read(folder: &Path, device: &str) -> Result<Runs<OnGpu>, InputError> {
    let operations = benchmark_table::read(folder, OPERATIONS)?;
    parse(&operations, &benchmark_table::read(folder, TIMES)?, device)
}

/// Parses the two tables; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(operations: &Text, times: &Text, device: &str) -> Result<Runs<OnGpu>, InputError> {
    let table = Table::of(operations)?;
    let (columns, _) = Columns::of_phone(&table, device)?;
    let names = most_linked_column(&table)?;
    let (mut launches, mut left_out) = whole_networks(&table, &columns, names, Network::add);
    let is_gpu = |core_set: &str, data_type| core_set == GPU && data_type == DataType::F32;
    let times = end_to_end(times, device, is_gpu)?;
    left_out.extend(times.left_out);
    let (runs, unknown) = usable(times.runs.into_iter().map(|run| {
        let network = launches.remove(&run.network);
        let network = network.ok_or_else(|| format!("the launches of {} are not known", run.network));
        (run.line, network.map(|network| run.of(network.layers.into_iter().collect())))
    }));
    left_out.extend(unknown);
    Ok(Runs { runs, left_out })
}

/// The launches of one network so far.
#[derive(Default)]
struct Network {
    layers: Vec<Layer>,
    /// The merged kernel of the row before, if its second row is still to come.
    merged: Option<String>,
}

impl Network {
    /// Adds the launch of a row, after the launches without a row before it.
    fn add(&mut self, part: Part<'_>) {
        let Part { operator, channels, kernel, linked, gap, .. } = part;
        let side = gap.side.max(1);
        let mut missing = gap.missing as usize;
        while missing > 0 {
            let functions = missing.min(MERGED);
            self.layers.push(element_wise(Shape::image(side, side, channels), functions));
            missing -= functions;
        }
        if self.merged.take().is_some_and(|merged| merged == kernel) {
            return;
        }
        if kernel.starts_with(FUSED_KERNEL) {
            self.merged = Some(kernel.to_owned());
        }
        self.layers.push(Layer { operator, linked, data_type: DataType::F32 });
    }
}

/// A launch of the first `functions` of [`MERGED_FUNCTIONS`] on a tensor. The second
/// operands have one value per channel and hardly any traffic.
fn element_wise(input: Shape, functions: usize) -> Layer {
    let [first, rest @ ..] = MERGED_FUNCTIONS;
    let other = Some(Shape { height: 1, width: 1, ..input });
    let operator = Operator::Elementwise(Elementwise { function: first, input, other });
    let mut linked = Linked::default();
    for function in rest.into_iter().take(functions.saturating_sub(1)) {
        linked.push(function, SecondOperand::PER_CHANNEL);
    }
    Layer { operator, linked, data_type: DataType::F32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "'Input_shape': '224', 'Input_channel': 3, 'Output_shape': '112', 'Stride': '2', \
                         'Kernel': '3', 'Filter': '8', 'Group': '1'";
    const DEPTHWISE: &str = "'Input_shape': '114', 'Input_channel': 8, 'Output_shape': '112', 'Stride': '1', \
                             'Kernel': '3', 'Filter': '1', 'Group': '1'";
    const POINTWISE: &str = "'Input_shape': '112', 'Input_channel': 8, 'Output_shape': '112', 'Stride': '1', \
                             'Kernel': '1', 'Filter': '8', 'Group': '1'";

    /// Rows of operation, feature, kernel on the phone and kernel on another phone.
    fn table(rows: &[[&str; 4]], times: &str) -> Runs<OnGpu> {
        let header = "model,operation,feature,a|gpu|float,a|gpu|kernel,b|gpu|float,b|gpu|kernel\n".to_owned();
        let row = |[operation, feature, own, other]: &[&str; 4]| {
            format!("net,{operation},\"{{{feature}}}\",1,{own},1,{other}\n")
        };
        let content = std::iter::once(header).chain(rows.iter().map(row)).collect();
        let times = format!("model,a|1large|float|mean,a|gpu|float|mean,a|gpu|float|std\n{times}");
        let text = |name: &str, content: String| Text { name: name.into(), content };
        parse(&text("gpu.csv", content), &text("e2e.csv", times), "a").unwrap()
    }

    fn names(rows: &[[&str; 4]]) -> Vec<String> {
        let table = table(rows, "net,1,2000,30\n");
        assert_eq!(table.left_out, []);
        table.runs[0].what.launches.iter().map(|layer| layer.operator.to_string()).collect()
    }

    #[test]
    fn padding_is_no_launch_of_its_own() {
        let names = names(&[
            ["CONV_2D", FIRST, "convolution_2d_0_linked_:_relu_1", "convolution_2d_0_linked_:_relu_1"],
            ["DEPTHWISE_CONV_2D", DEPTHWISE, "depthwise_convolution_3", "depthwise_convolution_3"],
        ]);
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn three_missing_operations_are_one_launch_and_five_are_two() {
        let first = ["CONV_2D", FIRST, "convolution_2d_0", "convolution_2d_0"];
        for (next, launches) in [(2, 1), (4, 1), (6, 2)] {
            let kernel = format!("convolution_2d_{next}");
            let names = names(&[first, ["CONV_2D", POINTWISE, &kernel, &kernel]]);
            assert_eq!(names.len(), 2 + launches, "{names:?}");
            assert_eq!(names[1], "element-wise -> 112x112x8");
        }
    }

    #[test]
    fn a_kernel_name_missing_on_one_phone_is_taken_from_another() {
        let names = names(&[
            ["CONV_2D", FIRST, "convolution_winograd_4x4_6x6_0", "convolution_2d_0_linked_:_relu_1"],
            ["CONV_2D", POINTWISE, "convolution_2d_2", "convolution_2d_2"],
        ]);
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn a_merged_kernel_is_one_launch() {
        let merged = "depthwise_conv_plus_1x1_conv_2_3_linked_:_relu_4";
        let names = names(&[
            ["CONV_2D", FIRST, "convolution_2d_0", "convolution_2d_0"],
            ["DEPTHWISE_CONV_2D", DEPTHWISE, merged, "depthwise_convolution_2"],
            ["CONV_2D", POINTWISE, merged, "convolution_2d_3_linked_:_relu_4"],
        ]);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[1].starts_with("depthwise"), "{names:?}");
    }

    #[test]
    fn a_network_that_is_not_known_whole_or_has_no_time_says_why() {
        let good = ["CONV_2D", FIRST, "convolution_2d_0", "convolution_2d_0"];
        let bad = ["CONV_3D", FIRST, "convolution_3d_1", "convolution_3d_1"];
        let table_of_bad = table(&[good, bad], "net,1,2000,30\n");
        assert_eq!(table_of_bad.runs, []);
        let lines: Vec<u64> = table_of_bad.left_out.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 2]);
        assert!(table_of_bad.left_out[0].reason.contains("CONV_3D"), "{table_of_bad:?}");

        let unmeasured = table(&[good], "net,1,,\nnet,1,-3,\n,1,2,3\nnet,1\nother,1,5,\n");
        assert_eq!(unmeasured.runs, []);
        let lines: Vec<u64> = unmeasured.left_out.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
    }

    #[test]
    fn a_phone_without_a_gpu_column_lists_those_with_one() {
        let times = Text { name: "e2e.csv".into(), content: "model,b|gpu|float|mean\n".into() };
        let header = "model,operation,feature,a|gpu|float,a|gpu|kernel\n";
        let operations = Text { name: "gpu.csv".into(), content: header.into() };
        let error = parse(&operations, &times, "a").unwrap_err();
        assert!(error.help().contains('b'), "{}", error.help());
    }
}
