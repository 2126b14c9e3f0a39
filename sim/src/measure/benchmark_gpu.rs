//! Importer of the GPU table of the mobile-ml-benchmark data set: one row per
//! operation of a network, with the time and the kernel that TFLite 2.15 reported
//! on each phone.
//!
//! Responsible for: the CSV and which of its rows are runs. Not for: the operator that a
//! row stands for (`operators`), or the end-to-end tables. Invariant: no
//! file makes it panic; each row becomes a run or a [`LeftOut`].

pub(super) mod operators;

use std::path::Path;

use csv::StringRecord;

use super::{Family, GpuRun, LeftOut};
use crate::input::{InputError, Text};
use crate::workload::{DataType, Layer, check_operator};
use operators::{Feature, MAX_SIDE, linked, operator};

/// Names of the table inside a data folder: flat, and as the data set publishes it.
pub(super) const FILE_NAMES: [&str; 3] =
    ["tflite_cnn_ops_gpu.csv", "dataset/cnn/tflite_cnn_real_ops_gpu.csv", "tflite_cnn_real_ops_gpu.csv"];

/// What follows the device's name in the columns of its times.
const TIME_SUFFIX: &str = "|gpu|float";
/// What follows the device's name in the columns of its kernels.
const KERNEL_SUFFIX: &str = "|gpu|kernel";
/// Name of the Metal kernel that runs a depthwise convolution and the pointwise
/// one behind it: no single layer describes it.
pub(super) const FUSED_KERNEL: &str = "depthwise_conv_plus_1x1_conv";

/// The rows of one phone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuTable {
    /// Usable rows, in the order of the file.
    pub runs: Vec<GpuRun>,
    /// The others.
    pub left_out: Vec<LeftOut>,
}

/// Reads the table in `folder`, with the times of the phone whose columns are
/// called `device` (`pixel4` for `pixel4|gpu|float`).
///
/// # Errors
/// No such file, no table, or no such phone in it.
pub fn read(folder: &Path, device: &str) -> Result<GpuTable, InputError> {
    parse(&text_in(folder)?, device)
}

/// The phones that the table in `folder` has times of.
///
/// # Errors
/// No such file.
pub fn devices(folder: &Path) -> Result<Vec<String>, InputError> {
    let text = text_in(folder)?;
    let header = csv::Reader::from_reader(text.content.as_bytes()).headers().cloned().unwrap_or_default();
    Ok(header.iter().filter_map(|name| name.strip_suffix(TIME_SUFFIX)).map(str::to_owned).collect())
}

/// The table in `folder`, under the first of its names that is there.
fn text_in(folder: &Path) -> Result<Text, InputError> {
    let [flat, others @ ..] = FILE_NAMES;
    let mut text = Text::read(&folder.join(flat));
    for name in others {
        // The first error is the one to report where no name leads to a file.
        if matches!(text, Err(InputError::Unreadable { .. })) {
            text = Text::read(&folder.join(name)).or(text);
        }
    }
    text
}

/// Parses the table; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(text: &Text, device: &str) -> Result<GpuTable, InputError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.content.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let columns = Columns::find(&header, text, device)?;
    let mut table = GpuTable::default();
    for (index, record) in reader.records().enumerate() {
        // Without a position (the reader gives each record one), count rows after the header.
        let counted = index as u64 + 2;
        let (line, row) = match record {
            Ok(record) => {
                let line = record.position().map_or(counted, csv::Position::line);
                (line, columns.run(&record, line))
            }
            Err(error) => (counted, Err(error.to_string())),
        };
        match row {
            Ok(run) => table.runs.push(run),
            Err(reason) => table.left_out.push(LeftOut { line, reason }),
        }
    }
    Ok(table)
}

/// Where in a record things are.
pub(super) struct Columns {
    pub(super) network: usize,
    operation: usize,
    feature: usize,
    time: usize,
    /// Kernel name on the phone.
    pub(super) kernel: usize,
}

impl Columns {
    pub(super) fn find(header: &StringRecord, text: &Text, device: &str) -> Result<Self, InputError> {
        let column = |name: &str| header.iter().position(|column| column == name);
        let needed = |name: &str| {
            column(name).ok_or_else(|| {
                text.refuse(
                    "",
                    format!("there is no column {name:?}"),
                    "give the folder of the mobile-ml-benchmark data set, with its GPU table",
                )
            })
        };
        let (network, operation, feature) = (needed("model")?, needed("operation")?, needed("feature")?);
        let time = column(&format!("{device}{TIME_SUFFIX}"));
        let kernel = column(&format!("{device}{KERNEL_SUFFIX}"));
        let (Some(time), Some(kernel)) = (time, kernel) else {
            let known: Vec<&str> = header.iter().filter_map(|name| name.strip_suffix(TIME_SUFFIX)).collect();
            return Err(InputError::Option {
                option: "--device-column",
                found: format!("{device:?}"),
                expected: format!("one of the phones in {}: {}", text.name, known.join(", ")),
            });
        };
        Ok(Self { network, operation, feature, time, kernel })
    }

    fn run(&self, record: &StringRecord, line: u64) -> Result<GpuRun, String> {
        let field = |column: usize, name: &str| record.get(column).ok_or_else(|| format!("no {name}"));
        let network = field(self.network, "model")?;
        let kernel = field(self.kernel, "kernel")?;
        let time = field(self.time, "time")?;
        let measured_us = time
            .trim()
            .parse()
            .ok()
            .filter(|time: &f64| time.is_finite() && *time > 0.0)
            .ok_or_else(|| format!("the time is {time:?}, expected microseconds above 0"))?;
        if kernel.starts_with(FUSED_KERNEL) {
            return Err(format!("the kernel {FUSED_KERNEL} runs two operations at once"));
        }
        let (family, layer) = self.layer(record)?;
        Ok(GpuRun {
            network: network.to_owned(),
            family,
            layer,
            kernel: kernel.to_owned(),
            measured_us,
            line,
        })
    }

    /// The operator of a row, with what the phone's kernel links behind it.
    pub(super) fn layer(&self, record: &StringRecord) -> Result<(Family, Layer), String> {
        let field = |column: usize, name: &str| record.get(column).ok_or_else(|| format!("no {name}"));
        let feature = Feature(field(self.feature, "feature")?);
        let (family, operator) = operator(field(self.operation, "operation")?, &feature)?;
        check_operator(&operator).map_err(|error| error.to_string())?;
        let linked = linked(field(self.kernel, "kernel")?)?;
        Ok((family, Layer { operator, linked, data_type: DataType::F32 }))
    }

    /// Side of the image a row reads, padding included; 0 where it reads none.
    pub(super) fn input_side(&self, record: &StringRecord) -> u32 {
        Feature(record.get(self.feature).unwrap_or_default()).count("Input_shape", MAX_SIDE).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Function, Operator, Padding, Shape};

    const HEADER: &str = "model,operation,feature,pixel4|gpu|float,pixel4|gpu|kernel\n";

    fn table(rows: &str) -> GpuTable {
        parse(&Text { name: "gpu.csv".into(), content: format!("{HEADER}{rows}") }, "pixel4").unwrap()
    }

    fn row(operation: &str, feature: &str, time: &str, kernel: &str) -> String {
        format!("net,{operation},\"{{{feature}}}\",{time},{kernel}\n")
    }

    const CONV: &str = "'Input_shape': '31', 'Input_channel': 16, 'Output_shape': '15', 'Stride': '2', \
                        'Kernel': '3', 'Filter': '24', 'Group': '1'";

    #[test]
    fn a_convolution_of_a_padded_input_is_unpadded() {
        let table = table(&row("CONV_2D", CONV, "12.5", "convolution_2d_7_linked_:_add_8_linked_:_relu_9"));
        let run = &table.runs[0];
        let Operator::Conv2d(conv) = &run.layer.operator else { panic!("{run:?}") };
        assert_eq!((conv.padding, conv.output()), (Padding::NONE, Shape::image(15, 15, 24)));
        assert_eq!(run.layer.linked.functions(), [Function::Add, Function::Relu]);
        assert_eq!((run.measured_us, run.line), (12.5, 2));
    }

    #[test]
    fn a_padding_before_a_3x3_depthwise_convolution_is_part_of_it() {
        let feature = "'Input_shape': '58', 'Input_channel': 24, 'Output_shape': '56', 'Stride': '1', \
                       'Kernel': '3', 'Filter': '1', 'Group': '1'";
        let table = table(&row("DEPTHWISE_CONV_2D", feature, "9", "depthwise_convolution_1"));
        let Operator::DepthwiseConv2d(conv) = &table.runs[0].layer.operator else { panic!("{table:?}") };
        assert_eq!((conv.input.height, conv.padding), (56, Padding::symmetric(1, 1)));
    }

    #[test]
    fn each_row_that_cannot_be_used_says_its_line_and_why() {
        let good = row("CONV_2D", CONV, "1", "convolution_2d_1");
        let bad = [
            row("CONV_2D", CONV, "nan", "convolution_2d_1"),
            row("CONV_2D", CONV, "-1", "convolution_2d_1"),
            row("CONV_3D", CONV, "1", "convolution_2d_1"),
            row("CONV_2D", &CONV.replace("'3'", "'-'"), "1", "convolution_2d_1"),
            row("CONV_2D", &CONV.replace("'31'", "'99'"), "1", "convolution_2d_1"),
            row("CONV_2D", &CONV.replace("'Stride': '2',", ""), "1", "convolution_2d_1"),
            row("CONV_2D", CONV, "1", "convolution_2d_1_linked_:_erf_2"),
            row("CONV_2D", CONV, "1", "depthwise_conv_plus_1x1_conv_5_6_7"),
            "net,CONV_2D\n".to_owned(),
        ];
        let table = table(&(good.clone() + &bad.concat() + &good));
        assert_eq!(table.runs.len(), 2);
        let lines: Vec<u64> = table.left_out.iter().map(|row| row.line).collect();
        assert_eq!(lines, (3..12).collect::<Vec<u64>>());
        let words =
            ["\"nan\"", "\"-1\"", "CONV_3D", "Kernel is \"-\"", "not 15", "no Stride", "erf", "two", "no "];
        for (row, word) in table.left_out.iter().zip(words) {
            assert!(row.reason.contains(word), "{row:?} does not say {word}");
        }
    }

    #[test]
    fn a_phone_that_is_not_in_the_table_is_told_which_are() {
        let text = Text { name: "gpu.csv".into(), content: HEADER.into() };
        let error = parse(&text, "pixel5").unwrap_err();
        assert!(error.help().contains("pixel4"), "{}", error.help());
        let text = Text { name: "gpu.csv".into(), content: String::new() };
        assert!(parse(&text, "pixel4").unwrap_err().to_string().contains("model"));
    }
}
