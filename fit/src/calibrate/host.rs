//! Fit of the host path to the times of whole inferences.
//!
//! Responsible for: the parameters of `[gpu.host]`, given the kernel models, and the
//! predictions of networks held out of both fits. Not for: the kernel models (`gpu`).
//! Invariant: neither the kernel fit nor the host fit behind a held-out prediction has
//! seen the network.

use std::collections::BTreeMap;

use super::conformal::factor_interval;
use super::gpu::{Fitted, Fold};
use super::least_squares::{LOSS_SCALE, Stop, log_deviation, minimise, pseudo_huber};
use super::{Options, SAME_DEVICE_ERROR, mean_error};
use crate::measure::{GpuNetwork, SkippedRow, usable};
use crate::validate::host::{Launches, Predictor};
use crate::validate::point::Point;
use coexec_sim::device::gpu::{Gpu, HostPath, InferenceSpread};

/// Expected error of a good fit, which weighs the prior against the runs: the median
/// variation between repetitions of an inference on the six phones of the data set
/// (0.8 to 9 %).
const EXPECTED_ERROR: f64 = 0.025;

/// Smallest prior deviation of a log parameter around a value that was measured on the device
/// itself: clock and temperature change from day to day.
const MIN_SAME_DEVICE_DEVIATION: f64 = 0.02;

/// Prior of a parameter.
struct Prior {
    key: &'static str,
    /// Centre, where the base has no host path.
    value: f64,
    /// Standard deviation of its logarithm.
    deviation: f64,
    /// Values that a profile may hold.
    range: [f64; 2],
}

/// Key of the host time of an inference apart from its launches: end-to-end times
/// determine only the sum of submission and read-back.
const INFERENCE: &str = "submit_us + read_back_us";

/// No bounds on a time.
const UNBOUNDED: [f64; 2] = [0.0, f64::INFINITY];

/// The parameters, in the order of the search. The centres are typical of Adreno, Mali,
/// `PowerVR` and Apple phones: 0.6 to 3.8 ms per inference, launches up to 1.26 times as
/// long as alone, gaps shorter than a launch, and traffic at 100 GB/s.
const PRIORS: [Prior; 4] = [
    Prior { key: INFERENCE, value: 1500.0, deviation: 1.5, range: UNBOUNDED },
    Prior { key: "kernel_factor", value: 1.05, deviation: 0.15, range: HostPath::KERNEL_FACTORS },
    Prior { key: "gap_us", value: 2.0, deviation: 2.0, range: UNBOUNDED },
    Prior { key: "traffic_us_per_byte", value: 1e-5, deviation: 2.0, range: UNBOUNDED },
];

/// A fitted host path.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFit {
    /// The parameters.
    pub host: HostPath,
    /// The parameters with their intervals. Submission and read-back are fitted as their
    /// sum, which `host` divides in the base's proportion, or in halves without a base.
    pub parameters: Vec<Fitted>,
    /// Whether the base was measured on the device of these runs, which it predicts well.
    pub is_of_base: bool,
    /// Networks with a launch that the profile does not describe.
    pub left_out: Vec<SkippedRow>,
}

/// Fits the host path of `gpu` to the times of `networks`, by robust least squares on
/// log times. The host path of `gpu`, if any, is the centre of the prior. None where no
/// network can be used.
pub fn fit(gpu: &Gpu, networks: &[GpuNetwork], options: &Options<'_>) -> Option<HostFit> {
    let (evidence, left_out) = evidence(gpu, networks);
    (!evidence.is_empty()).then(|| HostFit { left_out, ..solve(gpu, &evidence, options) })
}

/// Predictions of networks that neither the kernel fit nor the host fit has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// Measured and predicted time of each network that a fold holds out, in the order of the
    /// table. The 90 % interval comes from the errors of the other folds.
    pub points: Vec<Point>,
    /// Interval of the prediction error, from all `points`; none of too few networks.
    pub spread: Option<InferenceSpread>,
}

/// Predicts each network by the fold that holds it out: the host path is fitted, with
/// that fold's kernels, to the other networks.
pub fn held_out(folds: &[Fold], networks: &[GpuNetwork], options: &Options<'_>) -> HeldOut {
    let predict = |(number, fold): (usize, &Fold)| -> Vec<(usize, (usize, Point))> {
        let is_held_out = |network: &GpuNetwork| fold.held_out.contains(&network.network);
        let seen: Vec<&GpuNetwork> = networks.iter().filter(|network| !is_held_out(network)).collect();
        let (evidence, _) = evidence(&fold.gpu, seen.iter().copied());
        if evidence.is_empty() {
            return Vec::new();
        }
        let host = solve(&fold.gpu, &evidence, options).host;
        let gpu = Gpu { host: Some(host), ..fold.gpu.clone() };
        let predictor = Predictor::new(&gpu, seen);
        let members = networks.iter().enumerate().filter(|(_, network)| is_held_out(network));
        // A network without a kernel in the fold is left out of the fit to all networks too.
        let point = |(index, network)| {
            let point = predictor.point(network).ok()?;
            Some((index, (number, Point { unseen: true, ..point })))
        };
        members.filter_map(point).collect()
    };
    // By index of the network, with the number of the fold.
    let predicted: BTreeMap<usize, (usize, Point)> = folds.iter().enumerate().flat_map(predict).collect();
    let bounded = |(fold, point): &(usize, Point)| {
        let others = predicted.values().filter(|(other, _)| other != fold);
        let spread = spread(others.map(|(_, point)| point));
        point.clone().within(|predicted| Some(spread?.interval(predicted)))
    };
    let points: Vec<Point> = predicted.values().map(bounded).collect();
    HeldOut { spread: spread(&points), points }
}

/// Interval of the prediction errors of `points`, each of a network held out; none of too few.
pub fn spread<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<InferenceSpread> {
    let factors: Vec<f64> = points.into_iter().map(|point| point.measured_us / point.predicted_us).collect();
    let networks = factors.len() as u32;
    let [low_factor, high_factor] = factor_interval(factors)?;
    Some(InferenceSpread { networks, low_factor, high_factor })
}

/// An observation of the host path: a network's launches and log time.
type Evidence = (Launches, f64);

fn evidence<'a>(
    gpu: &Gpu,
    networks: impl IntoIterator<Item = &'a GpuNetwork>,
) -> (Vec<Evidence>, Vec<SkippedRow>) {
    usable(networks.into_iter().map(|network| {
        let launches = Launches::of(network, gpu);
        (network.line, launches.map(|launches| (launches, network.measured_us.ln())))
    }))
}

/// The parameters of a host path, in the order of [`PRIORS`].
fn values(host: &HostPath) -> [f64; PRIORS.len()] {
    [host.inference_us(), host.kernel_factor.value, host.gap_us.value, host.traffic_us_per_byte.value]
}

/// The centre of the prior, in the order of [`PRIORS`], and the share of submission in
/// submission plus read-back.
fn centre(base: Option<&HostPath>) -> ([f64; PRIORS.len()], f64) {
    const HALF: f64 = 0.5;
    let Some(host) = base else { return (PRIORS.map(|prior| prior.value), HALF) };
    let (inference, mut centre) = (host.inference_us(), PRIORS.map(|prior| prior.value));
    // A value of 0 has no logarithm.
    centre
        .iter_mut()
        .zip(values(host))
        .filter(|(_, known)| *known > 0.0)
        .for_each(|(value, known)| *value = known);
    (centre, if inference > 0.0 { host.submit_us.value / inference } else { HALF })
}

/// Whether the base has a measured host path that predicts these runs well enough to be of their device.
fn is_of_base(base: Option<&HostPath>, evidence: &[Evidence]) -> bool {
    base.filter(|host| host.kernel_factor.ci95.is_some()).is_some_and(|host| {
        let pair = |&(launches, log_us): &Evidence| (inference_us(&values(host), launches), log_us.exp());
        mean_error(&evidence.iter().map(pair).collect::<Vec<_>>()) <= SAME_DEVICE_ERROR
    })
}

/// Prior deviations of the log parameters around a path that was measured on this device, in the order of
/// [`PRIORS`]: those of its own fit.
fn deviations(host: &HostPath) -> [f64; PRIORS.len()] {
    let quantities = [&host.submit_us, &host.kernel_factor, &host.gap_us, &host.traffic_us_per_byte];
    std::array::from_fn(|index| {
        let ends = quantities[index].ci95.filter(|[low, _]| *low > 0.0);
        let fitted = ends.map_or(f64::INFINITY, log_deviation);
        fitted.clamp(MIN_SAME_DEVICE_DEVIATION, PRIORS[index].deviation)
    })
}

/// Fits the parameters to at least one network.
fn solve(gpu: &Gpu, evidence: &[Evidence], options: &Options<'_>) -> HostFit {
    let (centre, before) = centre(gpu.host.as_ref());
    let is_of_base = !options.from_scratch && is_of_base(gpu.host.as_ref(), evidence);
    let measured = gpu.host.as_ref().filter(|_| is_of_base);
    let deviations = measured.map_or(PRIORS.map(|prior| prior.deviation), deviations);
    let solution = minimise(vec![0.0; PRIORS.len()], Stop::default(), |coordinates| {
        let values = std::array::from_fn(|index| {
            let [least, most] = PRIORS[index].range;
            (centre[index] * coordinates[index].exp()).clamp(least, most)
        });
        let error = |&(launches, log_us): &Evidence| {
            pseudo_huber(inference_us(&values, launches).ln() - log_us, LOSS_SCALE)
        };
        let away = |(coordinate, deviation): (&f64, &f64)| EXPECTED_ERROR * coordinate / deviation;
        evidence.iter().map(error).chain(coordinates.iter().zip(&deviations).map(away)).collect()
    });
    let fitted = |(index, Prior { key, range, .. }): (usize, &Prior)| {
        let known = solution.posterior(index, (deviations[index], EXPECTED_ERROR), evidence.len());
        Fitted::of(key, centre[index], known).within(*range)
    };
    let parameters: Vec<Fitted> = PRIORS.iter().enumerate().map(fitted).collect();
    let quantity = |index: usize, part: f64| parameters[index].quantity(options.source, part);
    let host = HostPath {
        source: options.source.to_owned(),
        submit_us: quantity(0, before),
        read_back_us: quantity(0, 1.0 - before),
        kernel_factor: quantity(1, 1.0),
        gap_us: quantity(2, 1.0),
        traffic_us_per_byte: quantity(3, 1.0),
    };
    HostFit { host, parameters, is_of_base, left_out: Vec::new() }
}

/// The equation of [`HostPath`] for values in the order of [`PRIORS`].
fn inference_us(values: &[f64; PRIORS.len()], launches: Launches) -> f64 {
    let [inference, factor, gap, traffic] = values;
    let Launches { alone_us, bytes, count, copies_us } = launches;
    copies_us + inference + factor * alone_us + gap * f64::from(count) + traffic * bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::host::predict;
    use crate::validate::score::score;
    use coexec_sim::device::quantity::Quantity;
    use coexec_sim::workload::{DataType, Elementwise, Function, Layer, Linear, Operator, Shape};

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    const OPTIONS: Options<'_> = Options::of("runs the model made");

    fn host(submit_us: f64) -> HostPath {
        HostPath {
            source: "test".to_owned(),
            submit_us: Quantity::plain(submit_us),
            read_back_us: Quantity::plain(400.0),
            kernel_factor: Quantity::plain(1.1),
            gap_us: Quantity::plain(6.0),
            traffic_us_per_byte: Quantity::plain(2e-5),
        }
    }

    /// Networks of different mixes of compute, bytes and launches, timed by the
    /// model with `host`.
    fn networks(host: &HostPath) -> Vec<GpuNetwork> {
        let gpu = Gpu { host: Some(host.clone()), ..pixel4() };
        (1..=40_u32)
            .map(|number| {
                let linear = Linear {
                    rows: 1 + 100 * (number % 7),
                    input_features: 128 * (1 + number % 5),
                    output_features: 1024,
                    bias: true,
                };
                let input = Shape::image(14 * (1 + number % 4), 56, 64);
                let relu = Elementwise { function: Function::Relu, input, other: None };
                let layer = |operator| Layer::new(operator, DataType::F32);
                let mut layers = vec![layer(Operator::Linear(linear)); 1 + (number % 11) as usize];
                layers.extend(vec![layer(Operator::Elementwise(relu)); (number % 13) as usize]);
                let network = GpuNetwork {
                    network: format!("net{number}"),
                    what: layers.into_iter().collect(),
                    measured_us: 1.0,
                    deviation_us: None,
                    line: u64::from(number),
                };
                GpuNetwork { measured_us: predict(&network, &gpu).unwrap(), ..network }
            })
            .collect()
    }

    #[test]
    fn the_host_path_that_made_the_times_is_found() {
        let fit = fit(&pixel4(), &networks(&host(600.0)), &OPTIONS).unwrap();
        assert!(fit.left_out.is_empty(), "{fit:?}");
        for (found, made) in fit.parameters.iter().zip([1000.0, 1.1, 6.0, 2e-5]) {
            assert!((found.value / made - 1.0).abs() < 0.25, "{found:?}, made with {made}");
            assert!(found.ci95[0] <= found.value && found.value <= found.ci95[1], "{found:?}");
        }
        assert!((fit.host.submit_us.value - fit.host.read_back_us.value).abs() < 1e-9, "in halves");
    }

    #[test]
    fn any_times_give_a_valid_host_path() {
        let made = networks(&host(600.0));
        for factor in [1.0 / 3.0, 3.0] {
            let others =
                made.iter().map(|run| GpuNetwork { measured_us: factor * run.measured_us, ..run.clone() });
            let fit = fit(&pixel4(), &others.collect::<Vec<_>>(), &OPTIONS).unwrap();
            let [least, most] = HostPath::KERNEL_FACTORS;
            let end = if factor > 1.0 { most } else { least };
            assert_eq!(fit.host.kernel_factor.value.to_bits(), end.to_bits(), "{fit:?}");
            let [low, high] = fit.host.kernel_factor.ci95.unwrap();
            assert!(least <= low && low <= end && end <= high && high <= most, "{fit:?}");
        }
    }

    #[test]
    fn only_the_sum_of_submission_and_read_back_is_fitted() {
        let base = Gpu { host: Some(host(1200.0)), ..pixel4() };
        let found = fit(&base, &networks(&host(600.0)), &OPTIONS).unwrap().host;
        assert!((found.submit_us.value / found.read_back_us.value - 3.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn no_network_makes_no_fit_and_few_stay_near_the_prior() {
        assert_eq!(fit(&pixel4(), &[], &OPTIONS), None);
        let few = fit(&pixel4(), &networks(&host(600.0))[..2], &OPTIONS).unwrap();
        assert!(few.parameters.iter().any(|parameter| !parameter.informed), "{few:?}");
        assert!((0.7..1.5).contains(&few.host.kernel_factor.value), "{few:?}");
    }

    #[test]
    fn few_inferences_keep_the_base_host_path_on_the_same_device_only() {
        let known = fit(&pixel4(), &networks(&host(600.0)), &OPTIONS).unwrap().host;
        let measured = Gpu { host: Some(known.clone()), ..pixel4() };
        let moved = |runs: &[GpuNetwork], options| {
            let parameters = fit(&measured, runs, options).unwrap().parameters;
            let known = centre(Some(&known)).0;
            let moved = parameters.iter().zip(known).map(|(found, known)| (found.value / known).ln().abs());
            moved.fold(0.0, f64::max)
        };
        // Each 4 % off the path, in turns.
        let few = |factor: f64| -> Vec<GpuNetwork> {
            let off = |(run, factor): (GpuNetwork, f64)| GpuNetwork {
                measured_us: run.measured_us * factor,
                ..run
            };
            networks(&host(600.0)).into_iter().take(2).zip([1.04 * factor, 0.96 * factor]).map(off).collect()
        };
        let is_of_base = |factor| fit(&measured, &few(factor), &OPTIONS).unwrap().is_of_base;
        assert_eq!([1.0, 1.5].map(is_of_base), [true, false]);
        assert!(moved(&few(1.0), &OPTIONS) < 0.05, "{}", moved(&few(1.0), &OPTIONS));
        assert!(moved(&few(1.0), &Options { from_scratch: true, ..OPTIONS }) > 0.1);
        assert!(moved(&few(1.5), &OPTIONS) > 0.2);
    }

    #[test]
    fn each_network_is_predicted_by_the_fold_without_it() {
        let gpu = pixel4();
        let networks = networks(&host(600.0));
        let part = |remainder: usize| {
            let names = networks.iter().enumerate().filter(move |(index, _)| index % 4 == remainder);
            Fold { gpu: gpu.clone(), held_out: names.map(|(_, network)| network.network.clone()).collect() }
        };
        let HeldOut { points, spread } = held_out(&(0..4).map(part).collect::<Vec<_>>(), &networks, &OPTIONS);
        assert_eq!(points.len(), networks.len());
        assert!(points.iter().all(|point| point.unseen && point.flops_linear_us.is_some()));
        assert!(points.iter().all(|point| point.low_us < point.high_us));
        assert_eq!(spread.unwrap().networks, 40);
        let errors = score(&points);
        assert!(errors[0].group.mape_percent < 1.0, "{errors:?}");
    }

    #[test]
    fn too_few_networks_give_no_interval() {
        let gpu = pixel4();
        let networks = &networks(&host(600.0))[..6];
        let names = |part: &[GpuNetwork]| part.iter().map(|network| network.network.clone()).collect();
        let folds =
            [&networks[..3], &networks[3..]].map(|part| Fold { gpu: gpu.clone(), held_out: names(part) });
        let held_out = held_out(&folds, networks, &OPTIONS);
        assert_eq!((held_out.points.len(), held_out.spread), (6, None));
        assert!(held_out.points.iter().all(|point| point.low_us.is_none()));
    }
}
