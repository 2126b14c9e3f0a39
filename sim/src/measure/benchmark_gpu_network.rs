//! Importer of whole networks timed on a GPU: the launches of each, from the GPU
//! table of the mobile-ml-benchmark data set, beside the time of an inference,
//! from its end-to-end table.
//!
//! Responsible for: the launches in order, with those that have no row of their
//! own. Element-wise operations that the delegate merges into no neighbour show
//! only as numbers that kernel names skip; Metal's merged depthwise and pointwise
//! convolution has two rows, each with the time of the whole. Not for: times of
//! single launches (`benchmark_gpu`). Invariant: a network is listed with all its
//! launches or, with line and reason, not at all.

use std::collections::HashMap;
use std::path::Path;

use csv::StringRecord;

use super::LeftOut;
use super::benchmark_cpu::{FILE_NAMES as TIME_FILES, GPU, first_readable};
use super::benchmark_gpu::{Columns, FILE_NAMES as OPERATION_FILES, FUSED_KERNEL};
use super::gaps::{Gaps, most_linked_column};
use crate::input::{InputError, Text};
use crate::workload::{DataType, Elementwise, Function, Layer, Linked, Operator, Shape};

/// Element-wise operations that one launch merges: a product and a sum (a scaled
/// residual, or a normalisation by trained statistics) and the activation behind
/// them. With this count the sums of Mi 8 SE, whose times repeat best, explain its
/// inferences to 0.7 %; with a launch for each operation they do to 0.75 %.
const MERGED: usize = 3;
/// What such a launch runs, in order.
const MERGED_FUNCTIONS: [Function; MERGED] = [Function::Multiply, Function::Add, Function::Relu];

/// One network timed from end to end on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuNetwork {
    /// Name in the tables: what cross-validation keeps together.
    pub name: String,
    /// Its launches, in order.
    pub layers: Vec<Layer>,
    /// Mean time of an inference, in microseconds.
    pub measured_us: f64,
    /// Standard deviation over the repetitions, in microseconds.
    pub deviation_us: Option<f64>,
    /// Line of the end-to-end table it comes from, from 1.
    pub line: u64,
}

/// The networks of one phone's GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuNetworkTable {
    /// Networks with their times, in the order of the end-to-end table.
    pub networks: Vec<GpuNetwork>,
    /// What cannot be used; each with the line of its own file.
    pub left_out: Vec<LeftOut>,
}

/// Reads the two tables in `folder`, flat or as the data set publishes them, for
/// the phone whose columns are called `device` (`pixel4` for `pixel4|gpu|kernel`
/// and `pixel4|gpu|float|mean`).
///
/// # Errors
/// No such file, no table, or no such phone in it.
pub fn read(folder: &Path, device: &str) -> Result<GpuNetworkTable, InputError> {
    let operations = first_readable(folder, &OPERATION_FILES)?;
    parse(&operations, &first_readable(folder, &TIME_FILES)?, device)
}

/// Parses the two tables; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(operations: &Text, times: &Text, device: &str) -> Result<GpuNetworkTable, InputError> {
    let (mut launches, mut left_out) = launches(operations, device)?;
    let mut networks = Vec::new();
    for row in time_rows(times, device)? {
        match row.and_then(|time| {
            let reason = format!("the launches of {} are not known", time.network);
            let layers = launches.remove(&time.network).ok_or(LeftOut { line: time.line, reason })?;
            Ok(GpuNetwork {
                name: time.network,
                layers,
                measured_us: time.measured_us,
                deviation_us: time.deviation_us,
                line: time.line,
            })
        }) {
            Ok(network) => networks.push(network),
            Err(unusable) => left_out.push(unusable),
        }
    }
    Ok(GpuNetworkTable { networks, left_out })
}

/// The records of a table with their lines; a broken one is left out.
fn records(text: &Text) -> (StringRecord, Vec<(u64, StringRecord)>, Vec<LeftOut>) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.content.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let (mut good, mut left_out) = (Vec::new(), Vec::new());
    for (index, record) in reader.records().enumerate() {
        // Without a position (the reader gives each record one), count rows after the header.
        let counted = index as u64 + 2;
        match record {
            Ok(record) => good.push((record.position().map_or(counted, csv::Position::line), record)),
            Err(error) => left_out.push(LeftOut { line: counted, reason: error.to_string() }),
        }
    }
    (header, good, left_out)
}

/// The launches of each network that is known whole, and the rows that broke others.
type Launches = (HashMap<String, Vec<Layer>>, Vec<LeftOut>);

/// The launches of each network, from the GPU table.
fn launches(text: &Text, device: &str) -> Result<Launches, InputError> {
    let (header, records, mut left_out) = records(text);
    let columns = Columns::find(&header, text, device)?;
    let rows: Vec<StringRecord> = records.iter().map(|(_, record)| record.clone()).collect();
    // The phone's own kernel column is one of those searched.
    let telling = most_linked_column(&header, &rows).unwrap_or(columns.kernel);
    let mut networks: HashMap<String, Network> = HashMap::new();
    for (line, record) in &records {
        let name = record.get(columns.network).unwrap_or_default();
        let network = networks.entry(name.to_owned()).or_default();
        if let Err(reason) = network.add(&columns, telling, record) {
            network.broken = true;
            left_out.push(LeftOut { line: *line, reason: format!("{name} is not used: {reason}") });
        }
    }
    let whole = networks.into_iter().filter(|(_, network)| !network.broken);
    Ok((whole.map(|(name, network)| (name, network.layers)).collect(), left_out))
}

/// The launches of one network so far.
#[derive(Default)]
struct Network {
    layers: Vec<Layer>,
    gaps: Gaps,
    /// The merged kernel of the row before, whose second row is yet to come.
    merged: Option<String>,
    broken: bool,
}

impl Network {
    /// Adds the launch of a row, after those that have no row. `telling` is the
    /// column whose kernel names say what is missing.
    fn add(&mut self, columns: &Columns, telling: usize, record: &StringRecord) -> Result<(), String> {
        let kernel = record.get(columns.kernel).ok_or("no kernel")?;
        let (_, layer) = columns.layer(record)?;
        let name = record.get(telling).ok_or("the row ends before its kernels")?;
        let gap = self.gaps.before(&layer.operator, columns.input_side(record), name)?;
        let channels = layer.operator.inputs().first().map_or(0, |input| input.channels);
        let side = gap.side.max(1);
        let mut missing = gap.missing as usize;
        while missing > 0 {
            let functions = missing.min(MERGED);
            self.layers.push(element_wise(Shape::image(side, side, channels), functions));
            missing -= functions;
        }
        if self.merged.take().is_some_and(|merged| merged == kernel) {
            return Ok(());
        }
        if kernel.starts_with(FUSED_KERNEL) {
            self.merged = Some(kernel.to_owned());
        }
        self.layers.push(layer);
        Ok(())
    }
}

/// A launch of the first `functions` of [`MERGED_FUNCTIONS`] on a tensor. The
/// second operands are one value a channel, which move next to nothing.
fn element_wise(input: Shape, functions: usize) -> Layer {
    let [first, behind @ ..] = MERGED_FUNCTIONS;
    let other = Some(Shape { height: 1, width: 1, ..input });
    let operator = Operator::Elementwise(Elementwise { function: first, input, other });
    let linked: Linked = behind.into_iter().take(functions.saturating_sub(1)).collect();
    Layer { operator, linked, data_type: DataType::F32 }
}

/// The time of one network.
struct Time {
    network: String,
    measured_us: f64,
    deviation_us: Option<f64>,
    line: u64,
}

/// The rows of the end-to-end table that have a time on the phone's GPU.
fn time_rows(text: &Text, device: &str) -> Result<Vec<Result<Time, LeftOut>>, InputError> {
    let (header, records, broken) = records(text);
    let column = |name: &str| header.iter().position(|column| column == name);
    let suffix = format!("|{GPU}|float|mean");
    let (Some(network), Some(mean)) = (column("model"), column(&format!("{device}{suffix}"))) else {
        let known: Vec<&str> = header.iter().filter_map(|name| name.strip_suffix(suffix.as_str())).collect();
        return Err(InputError::Option {
            option: "--device-column",
            found: format!("{device:?}"),
            expected: format!("one of the phones with a GPU in {}: {}", text.name, known.join(", ")),
        });
    };
    let deviation = column(&format!("{device}|{GPU}|float|std"));
    let time = |cell: &str| cell.trim().parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
    let row = |(line, record): (u64, StringRecord)| {
        let name = record.get(network).map_or("", str::trim);
        let refuse = |reason: String| Some(Err(LeftOut { line, reason }));
        let cell = match record.get(mean) {
            _ if name.is_empty() => return refuse("no model".to_owned()),
            None => return refuse(format!("{name}: the row ends before the GPU's time")),
            // Not measured.
            Some(cell) if cell.trim().is_empty() => return None,
            Some(cell) => cell,
        };
        let Some(measured_us) = time(cell).filter(|&time| time > 0.0) else {
            return refuse(format!("{name}: the time on the GPU is {cell:?}, expected microseconds above 0"));
        };
        let deviation_us = deviation.and_then(|column| record.get(column)).and_then(time);
        Some(Ok(Time { network: name.to_owned(), measured_us, deviation_us, line }))
    };
    Ok(broken.into_iter().map(Err).chain(records.into_iter().filter_map(row)).collect())
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
    fn table(rows: &[[&str; 4]], times: &str) -> GpuNetworkTable {
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
        table.networks[0].layers.iter().map(|layer| layer.operator.to_string()).collect()
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
    fn what_one_phone_leaves_unnamed_another_names() {
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
        assert_eq!(table_of_bad.networks, []);
        let lines: Vec<u64> = table_of_bad.left_out.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 2]);
        assert!(table_of_bad.left_out[0].reason.contains("CONV_3D"), "{table_of_bad:?}");

        let unmeasured = table(&[good], "net,1,,\nnet,1,-3,\n,1,2,3\nnet,1\nother,1,5,\n");
        assert_eq!(unmeasured.networks, []);
        let lines: Vec<u64> = unmeasured.left_out.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
    }

    #[test]
    fn a_phone_without_a_gpu_column_is_told_which_have_one() {
        let times = Text { name: "e2e.csv".into(), content: "model,b|gpu|float|mean\n".into() };
        let header = "model,operation,feature,a|gpu|float,a|gpu|kernel\n";
        let operations = Text { name: "gpu.csv".into(), content: header.into() };
        let error = parse(&operations, &times, "a").unwrap_err();
        assert!(error.help().contains('b'), "{}", error.help());
    }
}
