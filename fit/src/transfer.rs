//! Kernel times of an unmeasured device, transferred from measured ones (donors).
//!
//! Runs do not identify the parameters of kernel models (a latency trades off against a throughput), so
//! averages of several phones' parameters predict badly. Averages of their predictions predict well:
//! each donor's kernels are scaled by clock, arithmetic rate and bandwidth, their log times for a
//! sample of launches are averaged, and one set of parameters is fitted to the averages, which it
//! reproduces. A learned correction gains nothing here.
//!
//! Responsible for: the times of kernels and of the host path, and their errors. Not for: the device's
//! hardware ([`crate::specification`]). Invariant: nothing measured on the device is used.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use coexec_sim::device::calibration::Computed;
use coexec_sim::device::gpu::HostPath;
use coexec_sim::input::from_toml;
use coexec_sim::statistics::{self, VALUE_DIGITS, rounded};
use coexec_sim::workload::Conv2d;
use coexec_sim::{Basis, Cpu, Gpu, KernelTable, Layer, Library, Operator, ProcessorKind, Profile, Quantity};

use crate::calibrate::gpu::design::bundled_layers;
use crate::calibrate::gpu::prior::{MissingConstant, Phone, Prior};
use crate::calibrate::{Options, cpu, gpu};
use crate::measure::{ByProcessor, CpuRun, GpuNetwork, GpuRun, draw};
use crate::validate::gpu::predict;
use crate::validate::point::Point;
use crate::validate::{ErrorGroup, Group, validate};

/// Weight of a donor's GPU of the same maker; others have 1 (six-phone study).
const SAME_MAKER_WEIGHT: f64 = 8.0;
/// Exponent of the fastest core's arithmetic rate with which the host time of an inference falls (same
/// study).
const HOST_POWER: f64 = 0.75;
/// Number of groups of the sample's grouped convolutions, which bundled networks lack.
const GROUPS: u32 = 8;

/// The launches whose predictions are averaged: the distinct ones of the bundled networks, and grouped
/// variants of their dense convolutions.
static SAMPLE: LazyLock<Vec<GpuRun>> = LazyLock::new(|| {
    let mut known = HashSet::new();
    let layers = bundled_layers().flat_map(|layer| {
        let grouped = grouped(&layer);
        [Some(layer), grouped].into_iter().flatten()
    });
    let run = |what| GpuRun { network: String::new(), what, measured_us: 0.0, deviation_us: None, line: 0 };
    layers.filter(|layer| known.insert(layer.clone())).map(run).collect()
});

/// The grouped variant of a convolution; none where its channels do not divide into groups of whole
/// slices.
fn grouped(layer: &Layer) -> Option<Layer> {
    let Operator::Conv2d(conv) = &layer.operator else { return None };
    let divides = |channels: u32| channels.is_multiple_of(4 * GROUPS);
    let whole = divides(conv.input.channels) && divides(conv.output_channels);
    whole.then(|| Layer { operator: Operator::Conv2d(Conv2d { groups: GROUPS, ..*conv }), ..layer.clone() })
}

/// The bundled devices whose CPU and GPU kernels and whole inferences were measured under TFLite.
///
/// # Panics
/// Never: a test holds that bundled profiles parse.
pub fn donors() -> Vec<Profile> {
    let bundled = Profile::bundled().expect("bundled profiles parse");
    let is_measured = |profile: &Profile| {
        let gpu = profile.gpu.as_ref().filter(|gpu| gpu.conv_generic.basis == Basis::Measured);
        gpu.is_some_and(|gpu| gpu.host.is_some()) && !profile.cpu.has_only_coexec()
    };
    bundled.into_iter().filter(is_measured).collect()
}

/// The pooled errors of transferred profiles, each measured device held out from the donors in turn, as
/// `coexec profile error` computes them.
///
/// # Panics
/// Never: a test checks that the bundled file is the output of the command.
pub fn errors() -> Vec<Group> {
    let table: Errors = from_toml(include_str!("transfer/errors.toml")).expect("a bundled file parses");
    table.error
}

/// Additional MAPE due to unverified hardware constants, in percent. Assumed: sources of such constants
/// conflict by 8 to 67 % (`data/socs`), and times depend on them only in part.
const UNVERIFIED_PERCENT: f64 = 20.0;
/// Ratios of the 95th percentile and of the median to the mean of the absolute value of a normal
/// variable.
const P95_OVER_MEAN: f64 = 2.456;
const MEDIAN_OVER_MEAN: f64 = 0.845;

/// [`errors`], widened for each processor whose specification `is_unverified`.
pub fn errors_of(is_unverified: impl Fn(ProcessorKind) -> bool) -> Vec<Group> {
    let mut errors = errors();
    for kind in ProcessorKind::ALL.into_iter().filter(|kind| is_unverified(*kind)) {
        for group in errors.iter_mut().filter(|group| group.name.processor() == Some(kind)) {
            let wider = |percent: f64, over_mean: f64| {
                rounded(percent.hypot(over_mean * UNVERIFIED_PERCENT), VALUE_DIGITS)
            };
            let mape_percent = wider(group.mape_percent, 1.0);
            // The density of errors near zero falls in proportion to their spread.
            group.within_10_percent =
                rounded(group.within_10_percent * group.mape_percent / mape_percent, VALUE_DIGITS);
            group.mape_percent = mape_percent;
            group.median_ape_percent = wider(group.median_ape_percent, MEDIAN_OVER_MEAN);
            group.p95_ape_percent = wider(group.p95_ape_percent, P95_OVER_MEAN);
        }
    }
    errors
}

/// A file of errors.
#[derive(Debug, Serialize, Deserialize)]
pub struct Errors {
    /// By group, worst first.
    pub error: Vec<Group>,
}

/// `sheet`, of which only the hardware is used, with kernel times transferred from `donors`.
///
/// # Errors
/// A profile lacks a hardware constant of its GPU.
pub fn transfer(sheet: &Profile, donors: &[Profile]) -> Result<Profile, MissingConstant> {
    let names: Vec<&str> = donors.iter().map(|donor| donor.name.as_str()).collect();
    let source = format!("predicted by {}, carried over by the hardware", names.join(", "));
    let cpus: Vec<Cpu> = donors.iter().map(|donor| donor.cpu.clone()).collect();
    let mut gpu = sheet.gpu.as_ref().map(|gpu| kernels(sheet, gpu, donors, &source)).transpose()?;
    if let Some(gpu) = &mut gpu {
        gpu.host = host(sheet, donors, &source);
    }
    let cpu = cpu::transfer(&sheet.cpu, &cpus, &source);
    Ok(Profile { cpu, gpu, calibration: None, used_fact: Vec::new(), ..sheet.clone() })
}

/// 95 % quantile of Student's t distribution with five degrees of freedom, the number of other measured
/// devices.
const STUDENT_95: f64 = 2.015;

/// Leave-one-out validation: the profile that [`transfer`] makes of each device with the others as
/// donors is fitted to whole inferences of `networks` networks, drawn with each of `seeds`, on GPU and
/// CPU; it then predicts the device's runs of all other networks. Returns points by draw, then by
/// device. The 90 % intervals come from the errors on the other devices: their bias, and the spread
/// around it (six-phone study).
///
/// # Errors
/// As [`transfer`].
pub fn leave_one_out(
    devices: &[(Profile, ByProcessor)],
    networks: usize,
    seeds: Range<u64>,
) -> Result<Vec<Vec<Vec<Point>>>, MissingConstant> {
    let made = |(profile, _): &(Profile, ByProcessor)| {
        let others = devices.iter().map(|(other, _)| other).filter(|other| other.name != profile.name);
        transfer(profile, &others.cloned().collect::<Vec<_>>())
    };
    let made: Vec<Profile> = devices.par_iter().map(made).collect::<Result<_, _>>()?;
    let of_draw = |seed| {
        let predicted = |(made, (_, runs)): (&Profile, &(Profile, ByProcessor))| -> Vec<Point> {
            let names = runs.gpu_networks.iter().map(|run| run.network.as_str());
            let drawn = draw::networks(names, networks, seed);
            let made = made.clone();
            let fitted = if drawn.is_empty() { made } else { fitted(made, runs, &drawn) };
            let mut points = validate(&fitted, runs, None, Library::Ruy).points;
            points.retain(|point| !drawn.contains(point.network.as_str()));
            points.into_iter().map(|point| Point { unseen: true, ..point }).collect()
        };
        within_the_errors_of_others(&made.par_iter().zip(devices).map(predicted).collect::<Vec<_>>())
    };
    Ok(seeds.into_par_iter().map(of_draw).collect())
}

/// The points of each device with intervals from the errors on the others.
fn within_the_errors_of_others(points: &[Vec<Point>]) -> Vec<Vec<Point>> {
    let within = |(index, own): (usize, &Vec<Point>)| {
        let others =
            || points.iter().enumerate().filter(move |(other, _)| *other != index).map(|(_, points)| points);
        let mut widths: HashMap<&ErrorGroup, Option<f64>> = HashMap::new();
        for point in own {
            widths.entry(&point.group).or_insert_with(|| half_width(others(), &error_class(&point.group)));
        }
        let bounded = |point: &Point| {
            let factor = widths[&point.group].map(f64::exp);
            point.clone().within(|predicted| factor.map(|by| [predicted / by, predicted * by]))
        };
        own.iter().map(bounded).collect()
    };
    points.iter().enumerate().map(within).collect()
}

/// The profile, fitted to whole inferences of these networks.
fn fitted(made: Profile, runs: &ByProcessor, networks: &BTreeSet<&str>) -> Profile {
    let gpu_networks: Vec<GpuNetwork> =
        runs.gpu_networks.iter().filter(|run| networks.contains(run.network.as_str())).cloned().collect();
    let cpu: Vec<CpuRun> =
        runs.cpu.iter().filter(|run| networks.contains(run.network.as_str())).cloned().collect();
    let source = "drawn networks";
    let options = Options { folds: 2, from_scratch: true, library: Library::Ruy, ..Options::of(source) };
    let gpu = made.gpu.map(|gpu| gpu::inferences::fit(&gpu, &gpu_networks, source).unwrap_or(gpu));
    Profile { cpu: cpu::calibrate(&made.cpu, &cpu, &options, &|_, _| {}).cpu, gpu, ..made }
}

/// The class of errors from which a group's interval is made: the group itself, except on a CPU, where all
/// core sets of a number format are one class.
fn error_class(group: &ErrorGroup) -> ErrorGroup {
    match group.clone() {
        ErrorGroup::On { processor: processor @ ProcessorKind::Cpu, runs, .. } => {
            ErrorGroup::On { processor, what: Computed::Kind(String::new()), runs }
        }
        other => other,
    }
}

/// Half-width of the interval in log time, from the errors of these devices' points; none without
/// points of the class.
fn half_width<'a>(devices: impl Iterator<Item = &'a Vec<Point>>, of: &ErrorGroup) -> Option<f64> {
    let squares = devices.filter_map(|points| {
        let alike = points.iter().filter(|point| error_class(&point.group) == *of);
        let errors: Vec<f64> = alike.map(|point| (point.measured_us / point.predicted_us).ln()).collect();
        // The mean square is squared bias plus variance.
        (!errors.is_empty())
            .then(|| errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64)
    });
    let squares: Vec<f64> = squares.collect();
    (!squares.is_empty()).then(|| STUDENT_95 * (squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
}

/// The GPU with kernel tables fitted to the donors' average predictions.
fn kernels(sheet: &Profile, gpu: &Gpu, donors: &[Profile], source: &str) -> Result<Gpu, MissingConstant> {
    let bare = Gpu { residual: None, residency: Vec::new(), ..gpu.clone() };
    let centre = |others: Vec<Profile>, base: &Gpu| {
        Prior::Profiles(others).centre(Phone { gpu: base, memory: &sheet.memory }, &SAMPLE)
    };
    let mut carried: Vec<(f64, Gpu)> = Vec::new();
    for donor in donors {
        let Some(own) = &donor.gpu else { continue };
        // The donor's residency was fitted together with its times.
        let base = Gpu { residency: own.residency.clone(), ..bare.clone() };
        let weight =
            if own.family.rules().maker == gpu.family.rules().maker { SAME_MAKER_WEIGHT } else { 1.0 };
        carried.push((weight, centre(vec![donor.clone()], &base)?));
    }
    let average = |run: &GpuRun| {
        let known =
            carried.iter().filter_map(|(weight, gpu)| Some((weight, predict(&run.what, gpu).ok()?.ln())));
        let (sum, weights) =
            known.fold((0.0, 0.0), |(sum, all), (weight, log)| (sum + weight * log, all + weight));
        (weights > 0.0).then(|| GpuRun { measured_us: (sum / weights).exp(), ..run.clone() })
    };
    let predicted: Vec<GpuRun> = SAMPLE.iter().filter_map(average).collect();
    let options = Options { from_scratch: true, ..Options::of(source) };
    let base = centre(donors.to_vec(), &bare)?;
    let mut fitted = gpu::calibrate(&base, &predicted, &options, &|_, _| {}).gpu;
    for &table in KernelTable::ALL {
        if let Some(parameters) = fitted.parameters_mut(table) {
            *parameters.basis = Basis::Transferred;
            for (_, quantity) in parameters.quantities {
                // The intervals of a fit to average predictions do not apply to the device.
                *quantity = Quantity::plain(quantity.value);
            }
        }
    }
    Ok(fitted)
}

/// The host path: medians over the donors, with the time of an inference scaled by the fastest core's
/// rate.
fn host(sheet: &Profile, donors: &[Profile], source: &str) -> Option<HostPath> {
    let rate = |cpu: &Cpu| cpu.clusters.first().map(|cluster| cluster.clock_mhz.value * cpu::width(cpu, 0));
    let own = rate(&sheet.cpu)?;
    let known: Vec<(f64, &HostPath)> = donors
        .iter()
        .filter_map(|donor| {
            Some(((rate(&donor.cpu)? / own).powf(HOST_POWER), donor.gpu.as_ref()?.host.as_ref()?))
        })
        .collect();
    let median = |value: &dyn Fn(f64, &HostPath) -> f64| {
        let values: Vec<f64> = known.iter().map(|(slower, host)| value(*slower, host)).collect();
        statistics::median(&values).map(|value| Quantity::plain(rounded(value, VALUE_DIGITS)))
    };
    Some(HostPath {
        source: source.to_owned(),
        submit_us: median(&|slower, host| slower * host.submit_us.value)?,
        read_back_us: median(&|slower, host| slower * host.read_back_us.value)?,
        kernel_factor: median(&|_, host| host.kernel_factor.value)?,
        gap_us: median(&|_, host| host.gap_us.value)?,
        traffic_us_per_byte: median(&|_, host| host.traffic_us_per_byte.value)?,
    })
}
