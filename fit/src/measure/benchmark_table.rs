//! The tables of the mobile-ml-benchmark data set: their files, records and columns, and
//! the cells of the end-to-end table.
//!
//! Responsible for: finding them in a folder, flat or as the data set publishes them, and
//! rejecting other files. Not for: the operator of a row. Invariant: no file makes it
//! panic; a cell that is not a time is returned with its line and the reason.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use csv::{Position, StringRecord};

use super::{CpuRun, OnCores, Run, Runs, no_such_device, time_in, usable};
use crate::csv_rows::help_on;
use coexec_sim::{DataType, InputError, Text};

/// Names of the table of operations on GPUs.
pub(super) const OPERATIONS: [&str; 3] =
    ["tflite_cnn_ops_gpu.csv", "dataset/cnn/tflite_cnn_real_ops_gpu.csv", "tflite_cnn_real_ops_gpu.csv"];
/// Names of the end-to-end table.
pub(super) const TIMES: [&str; 3] =
    ["tflite_cnn_e2e.csv", "dataset/cnn/tflite_cnn_real_e2e.csv", "tflite_cnn_real_e2e.csv"];
/// Core set under which the end-to-end table lists the GPU.
pub(super) const GPU: &str = "gpu";

/// Whether one of these files exists.
pub(super) fn is_in(folder: &Path, names: &[&str]) -> bool {
    names.iter().any(|name| folder.join(name).is_file())
}

/// The first of these files that exists; the error of the first where none does.
///
/// # Errors
/// None exists, or one cannot be read.
pub fn read<const NAMES: usize>(folder: &Path, names: [&str; NAMES]) -> Result<Text, InputError> {
    let mut text = Text::read(&folder.join(names[0]));
    for name in &names[1..] {
        if matches!(text, Err(InputError::Unreadable { .. })) {
            text = Text::read(&folder.join(name)).or(text);
        }
    }
    text
}

/// A table with its records and their lines.
#[derive(Debug)]
pub struct Table<'a> {
    pub(super) text: &'a Text,
    pub(super) header: StringRecord,
    pub(super) records: Vec<(u64, StringRecord)>,
}

impl<'a> Table<'a> {
    /// The records of `text`; their cells are unchecked.
    ///
    /// # Errors
    /// A row is there twice, which would double its network.
    pub fn of(text: &'a Text) -> Result<Self, InputError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.content.as_bytes());
        let header = reader.headers().cloned().unwrap_or_default();
        // No record of a text is an error: any length is allowed, and the bytes are UTF-8.
        let records = reader.into_records().filter_map(Result::ok);
        let records: Vec<(u64, StringRecord)> =
            records.map(|record| (record.position().map_or(0, Position::line), record)).collect();
        check_distinct(text, &records)?;
        Ok(Self { text, header, records })
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }

    /// A required column; an error where it is missing.
    pub(super) fn needed(&self, name: &str) -> Result<usize, InputError> {
        self.column(name).ok_or_else(|| {
            let help = "give the folder of the mobile-ml-benchmark data set, with its tables";
            self.text.refuse("", format!("there is no column {name:?}"), help_on(&self.header, help))
        })
    }

    /// The numbers of a column by record; none for a cell without a number above 0.
    ///
    /// # Errors
    /// There is no such column.
    pub fn numbers(&self, name: &str) -> Result<Vec<Option<f64>>, InputError> {
        let column = self.needed(name)?;
        let number = |record: &StringRecord| {
            let value = record.get(column)?.trim().parse().ok();
            value.filter(|&value: &f64| value.is_finite() && value > 0.0)
        };
        Ok(self.records.iter().map(|(_, record)| number(record)).collect())
    }
}

/// Checks that no row with times is there twice.
fn check_distinct(text: &Text, records: &[(u64, StringRecord)]) -> Result<(), InputError> {
    let mut known: HashMap<Vec<&str>, u64> = HashMap::new();
    let holds_times = |record: &StringRecord| record.iter().any(|cell| cell.trim().parse::<f64>().is_ok());
    for (line, record) in records.iter().filter(|(_, record)| holds_times(record)) {
        if let Some(first) = known.insert(record.iter().collect(), *line) {
            let network = record.get(0).unwrap_or_default();
            let message = format!("this row of {network} is the same as that on line {first}");
            return Err(text.refuse_at(None, *line, message, "remove the rows that are there twice"));
        }
    }
    Ok(())
}

/// The columns of one core set and number format.
struct Column<'a> {
    core_set: &'a str,
    data_type: DataType,
    mean: usize,
    deviation: Option<usize>,
}

/// The runs of `device` in the end-to-end table, on the core sets and in the number formats
/// that are wanted, and the cells that are not times. The runs have no layers yet.
///
/// # Errors
/// The text is not such a table, or has no such column of the phone.
pub(super) fn end_to_end(
    text: &Text,
    device: &str,
    is_wanted: impl Fn(&str, DataType) -> bool,
) -> Result<Runs<OnCores>, InputError> {
    let table = Table::of(text)?;
    let network = table.needed("model")?;
    let (mut columns, mut phones) = (Vec::new(), Vec::new());
    for (mean, name) in table.header.iter().enumerate() {
        let parts: Vec<&str> = name.split('|').collect();
        let (phone, core_set, format, data_type) = match parts[..] {
            [phone, core_set, "float", "mean"] => (phone, core_set, "float", DataType::F32),
            [phone, core_set, "quant", "mean"] => (phone, core_set, "quant", DataType::I8),
            _ => continue,
        };
        if !is_wanted(core_set, data_type) {
            continue;
        }
        if !phones.contains(&phone) {
            phones.push(phone);
        }
        if phone == device {
            let deviation = table.column(&format!("{phone}|{core_set}|{format}|std"));
            columns.push(Column { core_set, data_type, mean, deviation });
        }
    }
    if columns.is_empty() {
        return Err(no_such_device(text, device, "phones", phones));
    }
    let cells = table.records.iter().flat_map(|row| columns.iter().map(move |column| (column, row)));
    let runs = cells.filter_map(|(column, (line, record))| {
        column.run(record, network, *line).transpose().map(|run| (*line, run))
    });
    let (runs, left_out) = usable(runs);
    Ok(Runs { runs, left_out })
}

impl Column<'_> {
    /// The run in a row; none where the cell is empty, as the run was not measured.
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
        let deviation_us = self.deviation.and_then(|column| record.get(column)?.trim().parse().ok());
        let run = time_in(mean).and_then(|mean| Run::timed(name, (mean, deviation_us), line));
        let run = run.map_err(|reason| format!("{name} on {}: {reason}", self.core_set))?;
        let (core_set, data_type) = (self.core_set.to_owned(), self.data_type);
        Ok(Some(run.of(OnCores { core_set, data_type, layers: Arc::default() })))
    }
}
