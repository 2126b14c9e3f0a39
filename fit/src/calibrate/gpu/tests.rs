//! Calibration against runs that the model itself made.

use super::*;
use crate::validate::figures;
use crate::validate::gpu::predict;
use crate::validate::score::score;
use coexec_sim::workload::{Conv2d, DataType, Layer, Linear, Shape, Window};
use coexec_sim::{Profile, Quantity};

fn pixel4() -> Gpu {
    coexec_sim::input::from_toml(include_str!("../../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
}

fn options() -> Options<'static> {
    Options { folds: 3, seed: 7, correctable: KernelTable::ALL, ..Options::of("runs the model made") }
}

fn conv(side: u32, channels: u32, output_channels: u32, window: u32, groups: u32) -> Operator {
    Operator::Conv2d(
        Conv2d::new(Shape::image(side, side, channels), output_channels, Window::same(window)).groups(groups),
    )
}

/// Runs of four networks on `gpu`.
fn runs(gpu: &Gpu) -> Vec<GpuRun> {
    let mut runs = Vec::new();
    for (number, side) in [56, 28, 14, 7].into_iter().enumerate() {
        for channels in [16, 24, 40, 64, 96, 160, 256] {
            let layers = [
                conv(side, channels, 2 * channels, 1, 1),
                conv(side, channels, channels + 8 * side, 3, 1),
                conv(side, channels, channels, 3, 4),
                Operator::Linear(Linear {
                    rows: 1,
                    input_features: channels * side,
                    output_features: 4 * channels,
                    bias: true,
                }),
            ];
            for operator in layers {
                let layer = Layer::new(operator, DataType::F32);
                let measured_us = predict(&layer, gpu).unwrap();
                runs.push(GpuRun {
                    network: format!("network{number}"),
                    what: layer,
                    measured_us,
                    deviation_us: None,
                    line: 1,
                });
            }
        }
    }
    runs
}

/// The phone with other values in the tables that [`runs`] uses. Its grouped convolution
/// differs from the generic one only by its launch, as the prior ties them together.
fn slower(gpu: &Gpu) -> Gpu {
    let mut gpu = gpu.clone();
    for table in [KernelTable::ConvGeneric, KernelTable::FullyConnected] {
        let factors = [1.6, 0.7, 1.3].into_iter().cycle();
        for ((_, quantity), factor) in gpu.parameters_mut(table).unwrap().quantities.into_iter().zip(factors)
        {
            quantity.value *= factor;
        }
    }
    let mut grouped = gpu.conv_generic.clone();
    grouped.launch_us.value *= 1.3;
    gpu.grouped_conv = Some(grouped);
    gpu
}

#[test]
fn the_model_is_recovered_from_its_own_runs() {
    let base = pixel4();
    let truth = slower(&base);
    let runs = runs(&truth);
    let calibrated = calibrate(&base, &runs, &options(), &|_, _| ());
    let pairs: Vec<(f64, f64)> =
        runs.iter().map(|run| (predict(&run.what, &calibrated.gpu).unwrap(), run.measured_us)).collect();
    let group = figures("all", &pairs);
    assert!(group.mape_percent < 0.3 && group.p95_ape_percent < 1.0, "{group:?}");
    let launch = &calibrated.gpu.conv_generic.launch_us;
    let [low, high] = launch.ci95.unwrap();
    assert!(low <= launch.value && launch.value <= high && high < 2.0 * low, "{launch:?}");
    let errors = score(&calibrated.held_out);
    assert!(errors.iter().all(|scored| scored.group.mape_percent < 5.0), "{errors:?}");
}

#[test]
fn a_calibration_is_the_same_for_any_number_of_threads() {
    let base = pixel4();
    let runs = runs(&slower(&base));
    let with_threads = |count| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap();
        pool.install(|| calibrate(&base, &runs[..60], &options(), &|_, _| ()))
    };
    assert_eq!(with_threads(1), with_threads(3));
}

#[test]
fn a_table_without_runs_and_a_parameter_of_zero_keep_their_values() {
    let mut base = pixel4();
    base.conv_generic.wave_us = Quantity::plain(0.0);
    let runs = runs(&base);
    let calibrated = calibrate(&base, &runs, &options(), &|_, _| ());
    assert_eq!(calibrated.gpu.mean, base.mean);
    assert_eq!(calibrated.gpu.conv_generic.wave_us, base.conv_generic.wave_us);
    assert!(calibrated.tables.iter().all(|fit| fit.table != KernelTable::Mean));
}

#[test]
fn one_network_is_not_validated_on_itself() {
    let base = pixel4();
    let mut runs = runs(&base);
    runs.retain(|run| run.network == "network0");
    assert!(calibrate(&base, &runs, &options(), &|_, _| ()).held_out.is_empty());
}

#[test]
fn a_table_that_only_one_network_uses_has_no_held_out_error() {
    let base = pixel4();
    let mut runs = runs(&slower(&base));
    runs.retain(|run| {
        let is_grouped = matches!(&run.what.operator, Operator::Conv2d(conv) if conv.groups > 1);
        !is_grouped || run.network == "network0"
    });
    let calibrated = calibrate(&base, &runs, &options(), &|_, _| ());
    let held_out = |table| calibrated.tables.iter().find(|fit| fit.table == table).unwrap().held_out;
    assert_eq!([KernelTable::GroupedConv, KernelTable::FullyConnected].map(held_out), [0, 28]);
    let is_grouped = |point: &Point| point.group == "gpu/grouped_conv2d".into();
    assert!(!calibrated.held_out.iter().any(is_grouped), "the base's predictions are not those of the fit");
    assert!(calibrated.spreads.iter().all(|spread| spread.table != KernelTable::GroupedConv));
}

#[test]
fn a_grouped_convolution_carried_over_to_the_device_is_the_centre_of_its_own_prior() {
    let mut base = pixel4();
    let mut own = base.conv_generic.clone();
    own.launch_us.value *= 1.3;
    base.grouped_conv = Some(own.clone());
    let runs = runs(&slower(&base));
    let mut centre_of = |basis: Basis| {
        base.grouped_conv.as_mut().unwrap().basis = basis;
        let calibrated = calibrate(&base, &runs, &Options { folds: 0, ..options() }, &|_, _| ());
        let fit = calibrated.tables.into_iter().find(|fit| fit.table == KernelTable::GroupedConv).unwrap();
        (fit.parameters[0].base, calibrated.gpu.conv_generic.launch_us.value)
    };
    assert_eq!(centre_of(Basis::Transferred).0.to_bits(), own.launch_us.value.to_bits());
    let (of_other_phone, generic) = centre_of(Basis::Measured);
    assert_eq!(of_other_phone.to_bits(), generic.to_bits());
}

#[test]
fn a_run_that_no_table_describes_is_named() {
    let mut base = pixel4();
    base.conv_constants = None;
    let mut runs = runs(&pixel4());
    runs.retain(|run| matches!(run.what.operator, Operator::Linear(_)));
    runs[3].what = Layer::new(conv(112, 3, 16, 3, 1), DataType::F32);
    runs[3].line = 44;
    let calibrated = calibrate(&base, &runs, &options(), &|_, _| ());
    assert_eq!(calibrated.left_out.len(), 1);
    assert_eq!(calibrated.left_out[0].line, 44);
    assert!(calibrated.left_out[0].reason.contains("conv_constants"), "{:?}", calibrated.left_out);
}

#[test]
fn few_runs_keep_the_base_fit_on_the_same_device_only() {
    let phone = Profile::load("pixel4").unwrap().gpu.unwrap();
    let learned = phone.residual.as_ref().and_then(|residual| residual.of(KernelTable::ConvGeneric));
    let fit = |truth: &Gpu| {
        let mut runs = runs(truth);
        runs.retain(|run| run.network == "network1");
        let calibrated = calibrate(&phone, &runs, &options(), &|_, _| ());
        let is_of_base = calibrated.tables.iter().map(|fit| (fit.table, fit.is_of_base)).collect::<Vec<_>>();
        (calibrated.gpu, is_of_base)
    };
    let (same, explained) = fit(&phone);
    assert!(explained.contains(&(KernelTable::ConvGeneric, Some(true))), "{explained:?}");
    assert_eq!(same.residual.as_ref().unwrap().of(KernelTable::ConvGeneric), learned);
    for run in runs(&phone) {
        let apart = predict(&run.what, &same).unwrap() / run.measured_us - 1.0;
        assert!(apart.abs() < 0.02, "{apart} {run:?}");
    }
    let (other, explained) = fit(&slower(&phone.without_residual()));
    assert!(explained.contains(&(KernelTable::ConvGeneric, Some(false))), "{explained:?}");
    assert!(other.residual.is_none_or(|residual| residual.of(KernelTable::ConvGeneric).is_none()));
}

#[test]
fn a_value_near_the_bases_keeps_the_bases_interval_unless_runs_inform_it() {
    let mut base = pixel4();
    let of_base = base.conv_generic.latency_us.value;
    base.conv_generic.basis = Basis::Measured;
    base.conv_generic.latency_us.ci95 = Some([0.01 * of_base, 100.0 * of_base]);
    let mut runs = runs(&base);
    runs.truncate(3);
    let calibrated = calibrate(&base, &runs, &options(), &|_, _| ());
    assert_eq!(calibrated.tables[0].is_of_base, Some(true));
    let [low, high] = calibrated.gpu.conv_generic.latency_us.ci95.unwrap();
    assert!(low < 0.1 * of_base && high > 10.0 * of_base, "{low} {high} {of_base}");
}
