//! Importer of the end-to-end table of the mobile-ml-benchmark data set: one row
//! per network, with mean and deviation for each phone, core set and number
//! format.
//!
//! Responsible for: which of its cells are runs on CPU cores. Not for: the operators of a
//! network (`operators`), the cells themselves (`benchmark_table`), or the cores of a core
//! set.

mod operators;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::benchmark_table::{self, GPU, OPERATIONS, TIMES, end_to_end};
use super::{OnCores, Runs};
use coexec_sim::{DataType, InputError, Layer, Operator, Text};
pub use operators::Networks;

/// Reads the end-to-end table in `folder` for the phone whose columns start with
/// `device` (`pixel4` for `pixel4|1large|float|mean`), and the operators of its
/// networks from the GPU table in the same folder.
///
/// # Errors
/// A file does not exist, is not such a table, or has no such phone.
pub fn read(folder: &Path, device: &str) -> Result<Runs<OnCores>, InputError> {
    let mut table = parse(&benchmark_table::read(folder, TIMES)?, device)?;
    let (networks, left_out) = networks(folder)?;
    table.left_out.extend(left_out);
    let mut known: HashMap<(String, DataType), Arc<[Layer]>> = HashMap::new();
    for run in &mut table.runs {
        let Some(operators) = networks.get(&run.network) else { continue };
        let layers = known
            .entry((run.network.clone(), run.what.data_type))
            .or_insert_with(|| layers(operators, run.what.data_type));
        run.what.layers = Arc::clone(layers);
    }
    Ok(table)
}

/// The operators that a CPU runs for each network of the GPU table in `folder`, by name, and the
/// unusable rows.
///
/// # Errors
/// The file does not exist, or is not such a table.
pub fn networks(folder: &Path) -> Result<Networks, InputError> {
    operators::recover(&benchmark_table::read(folder, OPERATIONS)?)
}

/// Operators as layers in a number format.
pub(super) fn layers(operators: &[Operator], data_type: DataType) -> Arc<[Layer]> {
    operators.iter().map(|operator| Layer::new(operator.clone(), data_type)).collect()
}

/// Whether `folder` holds an end-to-end table.
pub fn is_in(folder: &Path) -> bool {
    benchmark_table::is_in(folder, &TIMES)
}

/// Parses the end-to-end table, without the operators; see [`read`].
///
/// # Errors
/// The text is not such a table, or has no such phone.
pub fn parse(text: &Text, device: &str) -> Result<Runs<OnCores>, InputError> {
    end_to_end(text, device, |core_set, _| core_set != GPU)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(content: &str, device: &str) -> Result<Runs<OnCores>, InputError> {
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
            .map(|run| (run.what.core_set.as_str(), run.what.data_type, run.measured_us, run.deviation_us))
            .collect();
        assert_eq!(runs, [("1large", DataType::F32, 10.5, Some(0.5)), ("2small", DataType::I8, 20.0, None)]);
    }

    #[test]
    fn an_invalid_time_names_its_line_and_an_empty_cell_is_unmeasured() {
        let rows = "x,1,2,nan,0,,0,0\n,1,2,3,4,5,6,7\ny,1,2,-3,0,8,0,0\nz,1\n";
        let table = table(&format!("{HEADER}{rows}"), "a").unwrap();
        assert_eq!(table.runs.len(), 1);
        let lines: Vec<u64> = table.left_out.iter().map(|cell| cell.line).collect();
        assert_eq!(lines, [2, 3, 3, 4, 5, 5]);
        assert!(table.left_out[0].reason.contains("\"nan\""), "{:?}", table.left_out[0]);
        assert!(table.left_out[4].reason.contains("ends before 1large"), "{:?}", table.left_out[4]);
    }

    #[test]
    fn an_unknown_phone_lists_those_in_the_table() {
        let error = table(HEADER, "c").unwrap_err();
        assert!(error.help().contains("a, b"), "{}", error.help());
        assert!(table("", "a").unwrap_err().to_string().contains("model"));
    }
}
