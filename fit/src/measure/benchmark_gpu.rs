//! Importer of the GPU table of the mobile-ml-benchmark data set: one row per
//! operation of a network, with the time and the kernel that TFLite 2.15 reported
//! on each phone.
//!
//! Responsible for: the table and which of its rows are runs. Not for: the operator of a
//! row (`operators`), or the end-to-end table. Invariant: no file makes it panic; each
//! row becomes a run or a [`SkippedRow`].

pub(super) mod operators;

use std::collections::BTreeMap;
use std::path::Path;

use csv::StringRecord;

use super::benchmark_table::{self, OPERATIONS, Table};
use super::gaps::{Gap, Gaps};
use super::{GpuRun, Run, Runs, SkippedRow, no_such_device, time_in, usable};
use coexec_sim::workload::{DataType, Layer, Linked, Operator};
use coexec_sim::{InputError, Text};
use operators::{Feature, MAX_SIDE, linked, operator};

/// Suffix of the names of a device's column of times.
const TIME_SUFFIX: &str = "|gpu|float";
/// Suffix of the names of a device's column of kernels.
pub(super) const KERNEL_SUFFIX: &str = "|gpu|kernel";
/// Name of the Metal kernel that runs a depthwise convolution and the pointwise one
/// after it. No single layer describes it.
pub(super) const FUSED_KERNEL: &str = "depthwise_conv_plus_1x1_conv";

/// Reads the table in `folder`, with the times of the phone whose columns start with
/// `device` (`pixel4` for `pixel4|gpu|float`).
///
/// # Errors
/// The file does not exist, is not such a table, or has no such phone.
pub fn read(folder: &Path, device: &str) -> Result<Runs<Layer>, InputError> {
    parse(&benchmark_table::read(folder, OPERATIONS)?, device)
}

/// Whether `folder` holds such a table.
pub fn is_in(folder: &Path) -> bool {
    benchmark_table::is_in(folder, &OPERATIONS)
}

/// The phones with times in the table in `folder`.
///
/// # Errors
/// The file does not exist.
pub fn devices(folder: &Path) -> Result<Vec<String>, InputError> {
    let text = benchmark_table::read(folder, OPERATIONS)?;
    Ok(phones(&Table::of(&text)?).into_iter().map(str::to_owned).collect())
}

/// The phones with times in a table.
fn phones<'a>(table: &'a Table<'_>) -> Vec<&'a str> {
    table.header.iter().filter_map(|name| name.strip_suffix(TIME_SUFFIX)).collect()
}

/// Parses the table; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(text: &Text, device: &str) -> Result<Runs<Layer>, InputError> {
    let table = Table::of(text)?;
    let (columns, time) = Columns::of_phone(&table, device)?;
    let runs = table.records.iter().map(|(line, record)| (*line, columns.run(record, time, *line)));
    let (runs, left_out) = usable(runs);
    Ok(Runs { runs, left_out })
}

/// Indices of a record's cells.
pub(super) struct Columns {
    network: usize,
    operation: usize,
    feature: usize,
    kernel: usize,
}

impl Columns {
    /// The columns, with kernel names in column `kernel`.
    pub(super) fn of(table: &Table<'_>, kernel: usize) -> Result<Self, InputError> {
        let needed = |name: &str| table.needed(name);
        let (network, operation, feature) = (needed("model")?, needed("operation")?, needed("feature")?);
        Ok(Self { network, operation, feature, kernel })
    }

    /// The columns with the kernel names of a phone, and the column of its times.
    pub(super) fn of_phone(table: &Table<'_>, device: &str) -> Result<(Self, usize), InputError> {
        // Checks first that this is such a table, so that the error for an unknown phone lists phones.
        let columns = Self::of(table, 0)?;
        let Some(time) = table.column(&format!("{device}{TIME_SUFFIX}")) else {
            return Err(no_such_device(table.text, device, "phones", phones(table)));
        };
        let kernel = table.needed(&format!("{device}{KERNEL_SUFFIX}"))?;
        Ok((Self { kernel, ..columns }, time))
    }

    /// Name of a row's network.
    fn network<'a>(&self, record: &'a StringRecord) -> &'a str {
        record.get(self.network).unwrap_or_default()
    }

    /// Name of the kernel that ran a row.
    fn kernel<'a>(&self, record: &'a StringRecord) -> Result<&'a str, String> {
        record.get(self.kernel).ok_or_else(|| "no kernel".to_owned())
    }

    fn run(&self, record: &StringRecord, time: usize, line: u64) -> Result<GpuRun, String> {
        let kernel = self.kernel(record)?;
        let time = time_in(record.get(time).ok_or("no time")?)?;
        if kernel.starts_with(FUSED_KERNEL) {
            return Err(format!("the kernel {FUSED_KERNEL} runs two operations at once"));
        }
        let operator = self.operator(record)?;
        let layer = Layer { operator, linked: linked(kernel)?, data_type: DataType::F32 };
        Ok(Run::timed(self.network(record), (time, None), line)?.of(layer))
    }

    /// The operator of a row.
    fn operator(&self, record: &StringRecord) -> Result<Operator, String> {
        let feature = Feature(record.get(self.feature).ok_or("no feature")?);
        let operator = operator(record.get(self.operation).ok_or("no operation")?, &feature)?;
        operator.check().map_err(|error| error.to_string())?;
        Ok(operator)
    }

    /// A row as a part of its network; `gaps` is the state after the rows before. The kernel names in
    /// `names` determine the missing operations.
    fn part<'a>(&self, record: &'a StringRecord, names: &Self, gaps: &mut Gaps) -> Result<Part<'a>, String> {
        let kernel = self.kernel(record)?;
        let operator = self.operator(record)?;
        let linked = linked(kernel)?;
        let input_side = self.input_side(record);
        let gap = gaps.before(&operator, input_side, names.kernel(record)?)?;
        let channels = operator.input_shapes().next().map_or(0, |input| input.channels);
        Ok(Part { operator, input_side, channels, kernel, linked, gap })
    }

    /// Side of the image that a row reads, padding included; 0 where it reads none.
    fn input_side(&self, record: &StringRecord) -> u32 {
        Feature(record.get(self.feature).unwrap_or_default()).count("Input_shape", MAX_SIDE).unwrap_or(0)
    }
}

/// A row as a part of its network.
pub(super) struct Part<'a> {
    pub(super) operator: Operator,
    /// Side of the image it reads, padding included; 0 where it reads none.
    pub(super) input_side: u32,
    /// Channels that it reads.
    pub(super) channels: u32,
    /// Name of the kernel that ran it, and the functions that it links.
    pub(super) kernel: &'a str,
    pub(super) linked: Linked,
    /// The gap before it.
    pub(super) gap: Gap,
}

/// Each network whose rows are all usable, by name, built from its rows by `add`, and the
/// unusable rows, which exclude their networks. The kernel names in column `names` determine the
/// missing operations.
pub(super) fn whole_networks<N: Default>(
    table: &Table<'_>,
    columns: &Columns,
    names: usize,
    add: impl Fn(&mut N, Part<'_>),
) -> (BTreeMap<String, N>, Vec<SkippedRow>) {
    let names = Columns { kernel: names, ..*columns };
    let (mut networks, mut broken) = (BTreeMap::<String, (N, Gaps)>::new(), Vec::new());
    let mut left_out = Vec::new();
    for &(line, ref record) in &table.records {
        let name = columns.network(record);
        let (network, gaps) = networks.entry(name.to_owned()).or_default();
        match columns.part(record, &names, gaps) {
            Ok(part) => add(network, part),
            Err(reason) => {
                broken.push(name);
                left_out.push(SkippedRow { line, reason: format!("{name} is not used: {reason}") });
            }
        }
    }
    networks.retain(|name, _| !broken.contains(&name.as_str()));
    (networks.into_iter().map(|(name, (network, _))| (name, network)).collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::workload::{Function, Padding, Shape};

    const HEADER: &str = "model,operation,feature,pixel4|gpu|float,pixel4|gpu|kernel\n";

    fn table(rows: &str) -> Runs<Layer> {
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
        let Operator::Conv2d(conv) = &run.what.operator else { panic!("{run:?}") };
        assert_eq!((conv.window.padding, conv.output()), (Padding::NONE, Shape::image(15, 15, 24)));
        assert_eq!(run.what.linked.functions(), [Function::Add, Function::Relu]);
        assert_eq!((run.measured_us, run.line), (12.5, 2));
    }

    #[test]
    fn a_padding_before_a_3x3_depthwise_convolution_is_part_of_it() {
        let feature = "'Input_shape': '58', 'Input_channel': 24, 'Output_shape': '56', 'Stride': '1', \
                       'Kernel': '3', 'Filter': '1', 'Group': '1'";
        let table = table(&row("DEPTHWISE_CONV_2D", feature, "9", "depthwise_convolution_1"));
        let Operator::DepthwiseConv2d(conv) = &table.runs[0].what.operator else { panic!("{table:?}") };
        assert_eq!((conv.input.height, conv.window.padding), (56, Padding::symmetric(1, 1)));
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
        let table = table(&(good.clone() + &bad.concat() + &good.replace(",1,", ",2,")));
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
    fn an_unknown_phone_lists_those_in_the_table() {
        let text = Text { name: "gpu.csv".into(), content: HEADER.into() };
        let error = parse(&text, "pixel5").unwrap_err();
        assert!(error.help().contains("pixel4"), "{}", error.help());
        let text = Text { name: "gpu.csv".into(), content: HEADER.replace(",pixel4|gpu|kernel", "") };
        assert!(parse(&text, "pixel4").unwrap_err().to_string().contains("no column \"pixel4|gpu|kernel\""));
        let text = Text { name: "gpu.csv".into(), content: String::new() };
        assert!(parse(&text, "pixel4").unwrap_err().to_string().contains("model"));
    }
}
