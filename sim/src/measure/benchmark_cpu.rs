//! Importer of the end-to-end table of the mobile-ml-benchmark data set: one row
//! per network, with mean and deviation for each phone, core set and number
//! format.
//!
//! Responsible for: the CSV, in its flat and its published place. Not for: what
//! operators a network consists of (`operators`), or which cores a core set
//! names on a phone. Invariant: no file makes it panic; a cell that is no time
//! is handed back with its line and the reason.

mod operators;

use std::path::Path;

use csv::StringRecord;

use super::LeftOut;
use crate::input::{InputError, Text};
use crate::workload::{DataType, Layer, Operator};

/// Names of the end-to-end table inside a data folder: flat, and as the data set
/// publishes it.
pub(super) const FILE_NAMES: [&str; 3] =
    ["tflite_cnn_e2e.csv", "dataset/cnn/tflite_cnn_real_e2e.csv", "tflite_cnn_real_e2e.csv"];
/// Core set under which the table lists the GPU.
pub(super) const GPU: &str = "gpu";

/// One network timed from end to end on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuRun {
    /// Network: what cross-validation keeps together.
    pub network: String,
    /// Core set as the table names it: `1large2med`.
    pub core_set: String,
    /// Number format of the model: [`DataType::F32`] or [`DataType::I8`].
    pub data_type: DataType,
    /// Mean time of an inference, in microseconds.
    pub measured_us: f64,
    /// Standard deviation over the repetitions, in microseconds.
    pub deviation_us: Option<f64>,
    /// Line of the file it comes from, from 1.
    pub line: u64,
}

/// A network as the CPU runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuNetwork {
    /// Name in the tables.
    pub name: String,
    /// Its operators in order, each running as a pass of its own; activations
    /// that the operator before applies for free are not listed.
    pub operators: Vec<Operator>,
}

impl CpuNetwork {
    /// The operators as layers of that number format.
    pub fn layers(&self, data_type: DataType) -> Vec<Layer> {
        self.operators.iter().map(|operator| Layer::new(operator.clone(), data_type)).collect()
    }
}

/// The CPU runs of one phone, and the networks they ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuTable {
    /// Usable runs, in the order of the file.
    pub runs: Vec<CpuRun>,
    /// Networks whose operators are known, by name.
    pub networks: Vec<CpuNetwork>,
    /// Cells that hold no time, and rows of operators that cannot be used; each
    /// with the line of its own file.
    pub left_out: Vec<LeftOut>,
}

/// Reads the end-to-end table in `folder` for the phone whose columns are called
/// `device` (`pixel4` for `pixel4|1large|float|mean`), and the operators of its
/// networks from the GPU table beside it.
///
/// # Errors
/// No such file, no table, or no such phone in it.
pub fn read(folder: &Path, device: &str) -> Result<CpuTable, InputError> {
    let mut table = parse(&first_readable(folder, &FILE_NAMES)?, device)?;
    let (networks, left_out) =
        operators::recover(&first_readable(folder, &super::benchmark_gpu::FILE_NAMES)?)?;
    table.networks = networks;
    table.left_out.extend(left_out);
    Ok(table)
}

/// Whether `folder` holds an end-to-end table.
pub fn is_in(folder: &Path) -> bool {
    FILE_NAMES.iter().any(|name| folder.join(name).is_file())
}

/// The first of these files that is there; the error of the first where none is.
pub(super) fn first_readable(folder: &Path, names: &[&str; 3]) -> Result<Text, InputError> {
    let mut found = Text::read(&folder.join(names[0]));
    for name in &names[1..] {
        if !matches!(found, Err(InputError::Unreadable { .. })) {
            break;
        }
        let next = Text::read(&folder.join(name));
        if !matches!(next, Err(InputError::Unreadable { .. })) {
            found = next;
        }
    }
    found
}

/// Parses the end-to-end table; see [`read`]. It names no operators.
///
/// # Errors
/// No table, or no such phone in it.
pub fn parse(text: &Text, device: &str) -> Result<CpuTable, InputError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.content.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let Some(network) = header.iter().position(|name| name == "model") else {
        return Err(text.refuse(
            "",
            "there is no column \"model\"",
            "give the folder of the mobile-ml-benchmark data set, with its end-to-end table",
        ));
    };
    let columns = Column::find(&header, text, device)?;
    let mut table = CpuTable::default();
    for (index, record) in reader.records().enumerate() {
        // Without a position (the reader gives each record one), count rows after the header.
        let counted = index as u64 + 2;
        match record {
            Ok(record) => {
                let line = record.position().map_or(counted, csv::Position::line);
                for column in &columns {
                    match column.run(&record, network, line) {
                        Ok(run) => table.runs.extend(run),
                        Err(reason) => table.left_out.push(LeftOut { line, reason }),
                    }
                }
            }
            Err(error) => table.left_out.push(LeftOut { line: counted, reason: error.to_string() }),
        }
    }
    Ok(table)
}

/// The columns of one core set and number format.
struct Column {
    core_set: String,
    data_type: DataType,
    mean: usize,
    deviation: Option<usize>,
}

impl Column {
    /// The columns of a phone's core sets: `pixel4|1large|float|mean`.
    fn find(header: &StringRecord, text: &Text, device: &str) -> Result<Vec<Self>, InputError> {
        let mut columns = Vec::new();
        let mut known: Vec<&str> = Vec::new();
        for (mean, name) in header.iter().enumerate() {
            let parts: Vec<&str> = name.split('|').collect();
            let [phone, core_set, format, "mean"] = parts[..] else { continue };
            let data_type = match format {
                "float" => DataType::F32,
                "quant" => DataType::I8,
                _ => continue,
            };
            if !known.contains(&phone) {
                known.push(phone);
            }
            if phone == device && core_set != GPU {
                let deviation = format!("{phone}|{core_set}|{format}|std");
                columns.push(Self {
                    core_set: core_set.to_owned(),
                    data_type,
                    mean,
                    deviation: header.iter().position(|column| column == deviation),
                });
            }
        }
        if columns.is_empty() {
            return Err(InputError::Option {
                option: "--device-column",
                found: format!("{device:?}"),
                expected: format!("one of the phones in {}: {}", text.name, known.join(", ")),
            });
        }
        Ok(columns)
    }

    /// The run in a row; none where the cell is empty: not measured.
    fn run(&self, record: &StringRecord, network: usize, line: u64) -> Result<Option<CpuRun>, String> {
        let name = record.get(network).map_or("", str::trim);
        if name.is_empty() {
            return Err("no model".to_owned());
        }
        let Some(mean) = record.get(self.mean) else {
            return Err(format!("{name}: the row ends before {}", self.core_set));
        };
        if mean.trim().is_empty() {
            return Ok(None);
        }
        let time =
            |cell: &str| cell.trim().parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
        let measured_us = time(mean).filter(|&time| time > 0.0).ok_or_else(|| {
            format!("{name}: the time on {} is {mean:?}, expected microseconds above 0", self.core_set)
        })?;
        Ok(Some(CpuRun {
            network: name.to_owned(),
            core_set: self.core_set.clone(),
            data_type: self.data_type,
            measured_us,
            deviation_us: self.deviation.and_then(|column| record.get(column)).and_then(time),
            line,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(content: &str, device: &str) -> Result<CpuTable, InputError> {
        parse(&Text { name: "e2e.csv".into(), content: content.into() }, device)
    }

    const HEADER: &str = "model,FLOPS,size,a|1large|float|mean,a|1large|float|std,a|2small|quant|mean,\
                          a|gpu|float|mean,b|1large|float|mean\n";

    #[test]
    fn each_cell_of_a_phones_cores_is_a_run_and_the_gpu_is_none() {
        let table = table(&format!("{HEADER}net,1,2,10.5,0.5,20,30,40\n"), "a").unwrap();
        let runs: Vec<(&str, DataType, f64, Option<f64>)> = table
            .runs
            .iter()
            .map(|run| (run.core_set.as_str(), run.data_type, run.measured_us, run.deviation_us))
            .collect();
        assert_eq!(runs, [("1large", DataType::F32, 10.5, Some(0.5)), ("2small", DataType::I8, 20.0, None)]);
    }

    #[test]
    fn a_cell_that_is_no_time_says_its_line_and_an_empty_one_was_not_measured() {
        let rows = "x,1,2,nan,0,,0,0\n,1,2,3,4,5,6,7\ny,1,2,-3,0,8,0,0\nz,1\n";
        let table = table(&format!("{HEADER}{rows}"), "a").unwrap();
        assert_eq!(table.runs.len(), 1);
        let lines: Vec<u64> = table.left_out.iter().map(|cell| cell.line).collect();
        assert_eq!(lines, [2, 3, 3, 4, 5, 5]);
        assert!(table.left_out[0].reason.contains("\"nan\""), "{:?}", table.left_out[0]);
        assert!(table.left_out[4].reason.contains("ends before 1large"), "{:?}", table.left_out[4]);
    }

    #[test]
    fn a_phone_that_is_not_in_the_table_is_told_which_are() {
        let error = table(HEADER, "c").unwrap_err();
        assert!(error.help().contains("a, b"), "{}", error.help());
        assert!(table("", "a").unwrap_err().to_string().contains("model"));
    }
}
