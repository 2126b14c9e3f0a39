//! Fit of transferred kernel tables to the times of whole inferences alone.
//!
//! A few network times cannot identify the parameters of ten kernel tables. They do show whether the
//! device is faster or slower than expected: in general, in launches, latencies, arithmetic or memory
//! traffic, or in one class of kernels. Each of these is one factor on many parameters.
//!
//! Responsible for: these factors and the host path. Not for: kernels that are timed one by one
//! (`fit`), nor the errors of single launches, which network times do not determine. Invariant: a
//! held-out prediction comes from a fit that has not seen its network.

use super::deviations;
use rayon::prelude::*;

use crate::calibrate::change;
use crate::calibrate::least_squares::{LOSS_SCALE, Stop, minimise, pseudo_huber};
use crate::measure::GpuNetwork;
use crate::validate::host::{Predictor, predict};
use crate::validate::point::Point;
use coexec_sim::device::gpu::{Gpu, HostPath, KernelTable};
use coexec_sim::statistics::{VALUE_DIGITS, rounded};

/// The parameters that a factor multiplies, in the order of [`FACTORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// All times of all kernels.
    All,
    /// Launch overheads.
    Launches,
    /// Latencies of loops.
    Latencies,
    /// Times of arithmetic and reads.
    Throughput,
    /// Times per byte of memory traffic.
    Traffic,
    /// All times of convolutions, of depthwise convolutions, of other kernels.
    Convolutions,
    Depthwise,
    Others,
    /// Host path: time per inference, gaps between launches, and the factor on kernel times.
    Inference,
    Gaps,
    Kernels,
}

/// The factors with the prior standard deviations of their logarithms. The deviations of kernel classes
/// (of 0.1, 0.2 and 0.4) and [`NOISE`] (of 0.03, 0.06 and 0.1) were chosen on fits to 1, 3 and 10
/// networks of the six phones: with any of them the error after ten is 4.4 to 5.2 %.
const FACTORS: [(On, f64); 11] = [
    (On::All, deviations::COMMON),
    (On::Launches, deviations::LAUNCHES),
    (On::Latencies, deviations::LATENCIES),
    (On::Throughput, deviations::THROUGHPUT),
    (On::Traffic, deviations::TRAFFIC),
    (On::Convolutions, 0.1),
    (On::Depthwise, 0.1),
    (On::Others, 0.1),
    (On::Inference, deviations::INFERENCE),
    (On::Gaps, deviations::GAPS),
    (On::Kernels, deviations::KERNELS),
];

/// Expected log error of an inference after the fit.
const NOISE: f64 = 0.06;
/// Stops a fit: further iterations change no prediction by a tenth of a percent.
const STOP: Stop = Stop { iterations: 20, relative_decrease: 1e-4 };

/// `gpu` with its kernels and its host path fitted to the times of `networks`. None where it has no
/// host path, or can predict none of them.
pub fn fit(gpu: &Gpu, networks: &[GpuNetwork], source: &str) -> Option<Gpu> {
    let known: Vec<&GpuNetwork> = networks.iter().filter(|network| predict(network, gpu).is_ok()).collect();
    (gpu.host.is_some() && !known.is_empty()).then(|| solve(gpu, &known, source))
}

/// Leave-one-out: each network's measured time and its prediction by a fit to all others.
pub fn held_out(gpu: &Gpu, networks: &[GpuNetwork], source: &str) -> Vec<Point> {
    let point = |index: usize| {
        let mut others = networks.to_vec();
        let own = others.remove(index);
        let fitted = fit(gpu, &others, source)?;
        let point = Predictor::new(&fitted, others.iter()).point(&own).ok()?;
        Some(Point { unseen: true, ..point })
    };
    (0..networks.len()).into_par_iter().filter_map(point).collect()
}

fn solve(gpu: &Gpu, networks: &[&GpuNetwork], source: &str) -> Gpu {
    let solution = minimise(vec![0.0; FACTORS.len()], STOP, |logs| {
        let moved = moved(gpu, logs);
        let error = |network: &&GpuNetwork| {
            let micros = predict(network, &moved).unwrap_or(f64::NAN);
            pseudo_huber((micros / network.measured_us).ln(), LOSS_SCALE) / NOISE
        };
        let away = |(log, (_, deviation)): (&f64, (On, f64))| log / deviation;
        networks.iter().map(error).chain(logs.iter().zip(FACTORS).map(away)).collect()
    });
    let mut fitted = moved(gpu, &solution.parameters);
    for &table in KernelTable::ALL {
        let Some(parameters) = fitted.parameters_mut(table) else { continue };
        *parameters.source = format!("{}; moved by the {source}", parameters.source);
        for (_, quantity) in parameters.quantities {
            change(quantity, |value| rounded(value, VALUE_DIGITS));
        }
    }
    if let Some(host) = &mut fitted.host {
        source.clone_into(&mut host.source);
    }
    fitted
}

/// The GPU with its parameters multiplied by the factors of these logarithms.
fn moved(gpu: &Gpu, logs: &[f64]) -> Gpu {
    let factor = |on: On| logs[on as usize].exp();
    let mut moved = gpu.clone();
    for &table in KernelTable::ALL {
        let of_table = factor(On::All) * factor(kind(table));
        let Some(parameters) = moved.parameters_mut(table) else { continue };
        for (key, quantity) in parameters.quantities {
            let times = time(key).map_or(1.0, |on| of_table * factor(on));
            change(quantity, |value| value * times);
        }
    }
    if let Some(host) = &mut moved.host {
        for time in [&mut host.submit_us, &mut host.read_back_us] {
            change(time, |value| value * factor(On::Inference));
        }
        change(&mut host.gap_us, |value| value * factor(On::Gaps));
        let [least, most] = HostPath::KERNEL_FACTORS;
        change(&mut host.kernel_factor, |value| (value * factor(On::Kernels)).clamp(least, most));
    }
    moved
}

/// The factor of the table's class of kernels.
fn kind(table: KernelTable) -> On {
    match table {
        KernelTable::ConvGeneric
        | KernelTable::GroupedConv
        | KernelTable::Winograd
        | KernelTable::ConvConstants => On::Convolutions,
        KernelTable::Depthwise => On::Depthwise,
        KernelTable::FullyConnected
        | KernelTable::Pool
        | KernelTable::Mean
        | KernelTable::Concat
        | KernelTable::Elementwise => On::Others,
    }
}

/// The factor of a parameter that is a time; none for a factor or a number of bytes.
fn time(key: &str) -> Option<On> {
    if key == "launch_us" {
        Some(On::Launches)
    } else if key.ends_with("_us_per_byte") {
        Some(On::Traffic)
    } else if key.starts_with("latency_") && key.ends_with("_us") {
        Some(On::Latencies)
    } else {
        key.ends_with("_us").then_some(On::Throughput)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::Profile;
    use coexec_sim::workload::{fuse, network};

    fn phone() -> Gpu {
        Profile::load("pixel4").unwrap().gpu.unwrap()
    }

    /// Bundled networks as a GPU predicts them.
    fn networks(gpu: &Gpu) -> Vec<GpuNetwork> {
        let of = |name: &&str| {
            let what = fuse(&network(name).unwrap()).into_iter().map(|stage| stage.layer).collect();
            let run = GpuNetwork {
                network: (*name).to_owned(),
                what,
                measured_us: 1.0,
                deviation_us: None,
                line: 1,
            };
            GpuNetwork { measured_us: predict(&run, gpu).unwrap(), ..run }
        };
        ["mobilenet-v2", "resnet18", "resnet50", "vgg16", "inception-v3"].iter().map(of).collect()
    }

    #[test]
    fn each_factor_is_at_the_place_of_its_parameters() {
        assert!(FACTORS.iter().enumerate().all(|(place, (on, _))| *on as usize == place));
    }

    #[test]
    fn all_times_are_scaled_by_the_factor_on_them() {
        let slow = moved(&phone(), &[2_f64.ln(), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let bare = |gpu: &Gpu| Gpu { host: None, residual: None, ..gpu.clone() };
        for (slow, fast) in networks(&bare(&slow)).iter().zip(networks(&bare(&phone()))) {
            assert!((slow.measured_us / fast.measured_us - 2.0).abs() < 1e-3, "{}", slow.network);
        }
    }

    #[test]
    fn a_device_that_is_slower_is_found_to_be() {
        let logs: Vec<f64> = FACTORS.iter().map(|(on, _)| if *on == On::All { 0.5 } else { 0.0 }).collect();
        let slow = moved(&phone(), &logs);
        let runs = networks(&slow);
        let fitted = fit(&phone(), &runs[..4], "test").unwrap();
        let error = |gpu: &Gpu| (predict(&runs[4], gpu).unwrap() / runs[4].measured_us - 1.0).abs();
        assert!(error(&phone()) > 0.2, "{}", error(&phone()));
        assert!(error(&fitted) < 0.05, "{}", error(&fitted));
        assert_eq!(held_out(&phone(), &runs, "test").len(), runs.len());
    }

    #[test]
    fn nothing_moves_where_everything_is_as_expected() {
        let fitted = fit(&phone(), &networks(&phone()), "test").unwrap();
        let texel = |gpu: &Gpu| gpu.conv_generic.throughput_texel_us.value;
        assert!((texel(&fitted) / texel(&phone()) - 1.0).abs() < 1e-3);
    }
}
