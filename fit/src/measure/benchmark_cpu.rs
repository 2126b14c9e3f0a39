//! Importer of the end-to-end table of the mobile-ml-benchmark data set: one row
//! per network, with mean and deviation for each phone, core set and number
//! format.
//!
//! Responsible for: which of its cells are runs on CPU cores. Not for: what operators a
//! network consists of (`operators`), the cells themselves (`benchmark_table`), or which
//! cores a core set names on a phone.

mod operators;

use std::path::Path;

use super::SkippedRow;
use super::benchmark_table::{self, GPU, OPERATIONS, TIMES, end_to_end};
use coexec_sim::input::{InputError, Text};
use coexec_sim::workload::{DataType, Layer, Operator};

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
    pub left_out: Vec<SkippedRow>,
}

/// Reads the end-to-end table in `folder` for the phone whose columns are called
/// `device` (`pixel4` for `pixel4|1large|float|mean`), and the operators of its
/// networks from the GPU table beside it.
///
/// # Errors
/// No such file, no table, or no such phone in it.
pub fn read(folder: &Path, device: &str) -> Result<CpuTable, InputError> {
    let mut table = parse(&benchmark_table::read(folder, TIMES)?, device)?;
    let (networks, left_out) = operators::recover(&benchmark_table::read(folder, OPERATIONS)?)?;
    table.networks = networks;
    table.left_out.extend(left_out);
    Ok(table)
}

/// Whether `folder` holds an end-to-end table.
pub fn is_in(folder: &Path) -> bool {
    TIMES.iter().any(|name| folder.join(name).is_file())
}

/// Parses the end-to-end table; see [`read`]. It names no operators.
///
/// # Errors
/// No table, or no such phone in it.
pub fn parse(text: &Text, device: &str) -> Result<CpuTable, InputError> {
    let (runs, left_out) = end_to_end(text, device, |core_set, _| core_set != GPU)?;
    Ok(CpuTable { runs, networks: Vec::new(), left_out })
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
