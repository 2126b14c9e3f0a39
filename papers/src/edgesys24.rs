//! `EdgeSys`'24: the runs behind its published numbers.
//!
//! The errors of its linear fits depend on measurements alone: they are recomputed from the
//! data set if its folder is given, and otherwise not reproduced. A model of ours is used only
//! for the convolutions' share of latency.

use super::{Comparison, Inputs, Result, fastest};
use coexec_fit::measure::benchmark_cpu;
use coexec_fit::measure::benchmark_table::{self, Table};
use coexec_fit::validate::figures;
use coexec_fit::validate::flops_linear::FlopsLinear;
use coexec_sim::kernel::cpu::{CoreSet, Library, execute};
use coexec_sim::statistics::median;
use coexec_sim::{Cpu, DataType, InputError, Layer, Operator};

/// Table of the synthetic networks: its path in a flat folder, and in the published data set.
const SYNTHETIC: [&str; 2] = ["tflite_nas_e2e.csv", "dataset/cnn/tflite_cnn_synthetic_e2e.csv"];
/// Column of the networks' FLOPs.
const FLOPS: &str = "FLOPS";

/// Linear fits of times to FLOPs: the name in ids of facts, and the environment of the times.
const FROM_FLOPS: [(&str, &str); 3] = [
    ("pixel-4-cpu", "pixel4|1large|float"),
    ("iphone-xs-cpu", "iphonexs|1large|float"),
    ("gpu-device-in-figure", "pixel4|gpu|float"),
];
/// Linear fits between the times in two environments: the name in ids of facts, and the environments.
const ENVIRONMENT_PAIRS: [(&str, &str, &str); 4] = [
    ("cpu-vs-gpu-tflite", "pixel4|1large|float", "pixel4|gpu|float"),
    ("cpu-vs-gpu-ios", "iphonexs|1large|float", "iphonexs|gpu|float"),
    ("one-small-core-vs-three-small-cores", "pixel4|1small|float", "pixel4|3small|float"),
    ("float-vs-int8", "pixel4|1large|float", "pixel4|1large|quant"),
];

/// The column of the times in an environment.
fn mean_times(environment: &str) -> String {
    format!("{environment}|mean")
}

/// Compares ours with the published numbers.
///
/// # Errors
/// A file of the data set cannot be read, or a run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let Some(folder) = &inputs.benchmark else { return Ok(()) };
    let text = benchmark_table::read(folder, SYNTHETIC)?;
    let table = Table::of(&text)?;
    for (id, environment) in FROM_FLOPS {
        let id = format!("{id}/tflite/flops-linear-fit-mape-end-to-end-latency");
        comparison.row(id, linear_fit_mape_percent(&pairs(&table, FLOPS, &mean_times(environment))?));
    }
    for (id, from, to) in ENVIRONMENT_PAIRS {
        let pairs = pairs(&table, &mean_times(from), &mean_times(to))?;
        comparison
            .row(format!("all/{id}/linear-fit-mape-between-environments"), linear_fit_mape_percent(&pairs));
    }
    comparison.row("all/dataset/synthetic-cnns", table.numbers(FLOPS)?.len() as f64);
    let cpu = &inputs.profile("pixel4")?.cpu;
    let cores = fastest(inputs.profile("pixel4")?, 1)?;
    let (networks, _) = benchmark_cpu::networks(folder)?;
    let shares: Vec<f64> = networks.values().filter_map(|network| share(network, cpu, cores)).collect();
    let share = median(&shares).unwrap_or(f64::NAN);
    comparison.row("pixel-4-cpu/102-cnns-tflite/median-conv-share-of-latency", share);
    Ok(())
}

/// The convolutions' share of a network's predicted time on `cores`, in percent; none if an operator
/// has no kernel.
fn share(network: &[Operator], cpu: &Cpu, cores: CoreSet) -> Option<f64> {
    let (mut convolutions, mut all) = (0.0, 0.0);
    for operator in network {
        let layer = Layer::new(operator.clone(), DataType::F32);
        let micros = execute(&layer, cpu, &cores, Library::Ruy).ok()?.phases.duration().as_micros();
        if matches!(layer.operator, Operator::Conv2d(_) | Operator::DepthwiseConv2d(_)) {
            convolutions += micros;
        }
        all += micros;
    }
    (all > 0.0).then(|| 100.0 * convolutions / all)
}

/// Pairs of numbers from the table's rows in which both columns have one.
fn pairs(table: &Table<'_>, from: &str, to: &str) -> Result<Vec<(f64, f64)>, InputError> {
    let pairs = table.numbers(from)?.into_iter().zip(table.numbers(to)?);
    Ok(pairs.filter_map(|(from, to)| Some((from?, to?))).collect())
}

/// MAPE of an ordinary least-squares line with an intercept, in percent.
fn linear_fit_mape_percent(pairs: &[(f64, f64)]) -> f64 {
    let Some(line) = FlopsLinear::fit_absolute(pairs.iter().copied()) else { return f64::NAN };
    let predicted: Vec<(f64, f64)> = pairs.iter().map(|&(from, to)| (line.predict(from), to)).collect();
    figures("", &predicted).mape_percent
}

#[cfg(test)]
mod tests {
    use coexec_sim::input::Text;

    use super::*;

    #[test]
    fn a_line_is_fitted_without_error_and_a_bend_is_not() {
        let line: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        assert!(linear_fit_mape_percent(&line) < 1e-9);
        // The best line through these is level at 2: relative errors of 1, 1/2 and 1.
        let bend = [(1.0, 1.0), (2.0, 4.0), (3.0, 1.0)];
        assert!((linear_fit_mape_percent(&bend) - (100.0 + 50.0 + 100.0) / 3.0).abs() < 1e-9);
    }

    #[test]
    fn cells_without_a_time_are_left_out_and_a_missing_column_is_named() {
        let content = "model,FLOPS,a\none,1,2\ntwo,2,\nthree,3,6\n".to_owned();
        let text = Text { name: "t.csv".into(), content };
        let table = Table::of(&text).unwrap();
        assert_eq!(pairs(&table, FLOPS, "a").unwrap(), [(1.0, 2.0), (3.0, 6.0)]);
        let error = pairs(&table, FLOPS, "b").unwrap_err();
        assert!(error.to_string().contains("\"b\""), "{error}");
    }
}
