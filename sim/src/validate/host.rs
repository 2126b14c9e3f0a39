//! The error figures of whole inferences on a GPU: launches and host path.
//!
//! An inference is unseen where its network does not occur among those the
//! profile was fitted on. With a profile that knows no host path, the sum of the
//! launches stands for the inference: it falls short, and the figures say by how
//! much.

use std::collections::HashSet;

use super::flops_linear::{FlopsLinear, operations};
use super::gpu::Scored;
use super::point::Point;
use super::{coverage_percent, figures};
use crate::device::gpu::Gpu;
use crate::kernel::Unsupported;
use crate::kernel::gpu::execute;
use crate::measure::LeftOut;
use crate::measure::benchmark_gpu_network::GpuNetwork;

/// Group of whole inferences.
const GROUP: &str = "gpu/end_to_end";

/// What the model says of the launches of one network, without the host path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Launches {
    /// Sum of their times, each alone, in microseconds.
    pub alone_us: f64,
    /// Bytes of tensors and weights they move.
    pub bytes: u64,
    /// How many there are.
    pub count: usize,
}

impl Launches {
    /// The launches of `network` on `gpu`.
    ///
    /// # Errors
    /// The profile lacks a kernel's parameters.
    pub fn of(network: &GpuNetwork, gpu: &Gpu) -> Result<Self, Unsupported> {
        let mut launches = Self { count: network.layers.len(), ..Self::default() };
        for layer in &network.layers {
            let phases = execute(layer, gpu)?.phases;
            launches.alone_us += phases.duration().as_micros();
            launches.bytes += phases.bytes().0;
        }
        Ok(launches)
    }

    /// The inference, in microseconds; the sum of the launches where the profile
    /// knows no host path.
    pub fn inference_us(&self, gpu: &Gpu) -> f64 {
        gpu.host.as_ref().map_or(self.alone_us, |host| {
            let launches =
                host.launch_us(self.alone_us, self.bytes) + host.gap_us.value * (self.count as f64 - 1.0);
            host.inference_us() + launches
        })
    }
}

/// Time of an inference of `network` on `gpu`, in microseconds.
///
/// # Errors
/// The profile lacks a kernel's parameters.
pub fn predict(network: &GpuNetwork, gpu: &Gpu) -> Result<f64, Unsupported> {
    Ok(Launches::of(network, gpu)?.inference_us(gpu))
}

/// Inferences that were not seen in a fit, predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Figures of all inferences, then of those of unseen networks.
    pub groups: Vec<Scored>,
    /// Each inference beside its prediction.
    pub points: Vec<Point>,
    /// Networks the profile cannot predict.
    pub left_out: Vec<LeftOut>,
}

/// Compares predictions of `gpu` with the times of `networks`. `seen` names the
/// networks the profile was fitted on, which the FLOPs-linear baseline is fitted
/// on too.
pub fn validate(gpu: &Gpu, networks: &[GpuNetwork], seen: Option<&[GpuNetwork]>) -> Validation {
    let baseline = seen.and_then(flops_linear);
    let names: HashSet<&str> = seen.unwrap_or_default().iter().map(|network| network.name.as_str()).collect();
    let (mut points, mut used, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for network in networks {
        match predict(network, gpu) {
            Ok(predicted_us) => {
                let unseen = seen.is_some() && !names.contains(network.name.as_str());
                points.push(point(network, predicted_us, unseen, baseline));
                used.push(network);
            }
            Err(error) => left_out.push(LeftOut { line: network.line, reason: error.to_string() }),
        }
    }
    Validation { groups: groups(&points, &used, seen.is_some()), points, left_out }
}

/// The baseline, fitted on `networks`.
fn flops_linear(networks: &[GpuNetwork]) -> Option<FlopsLinear> {
    FlopsLinear::fit(networks.iter().map(|network| (network_operations(network), network.measured_us)))
}

fn network_operations(network: &GpuNetwork) -> f64 {
    network.layers.iter().map(operations).sum()
}

/// A prediction beside its measurement.
fn point(network: &GpuNetwork, predicted_us: f64, unseen: bool, baseline: Option<FlopsLinear>) -> Point {
    Point {
        group: GROUP.to_owned(),
        network: network.name.clone(),
        what: network.name.clone(),
        unseen,
        measured_us: network.measured_us,
        predicted_us,
        physics_us: predicted_us,
        flops_linear_us: baseline.map(|baseline| baseline.predict(network_operations(network))),
        ..Point::default()
    }
}

/// The points of networks that a fit without them predicted; for cross-validation.
/// `predicted` has a network, its prediction, and what the baseline was fitted on.
pub(crate) fn held_out_point(network: &GpuNetwork, predicted_us: f64, seen: &[&GpuNetwork]) -> Point {
    let pairs = seen.iter().map(|seen| (network_operations(seen), seen.measured_us));
    point(network, predicted_us, true, FlopsLinear::fit(pairs))
}

/// The figures of `points`, which stand for `networks`; those of the unseen ones
/// only where it is known what was seen.
pub(crate) fn groups(points: &[Point], networks: &[&GpuNetwork], with_unseen: bool) -> Vec<Scored> {
    let members: Vec<(&Point, &GpuNetwork)> = points.iter().zip(networks.iter().copied()).collect();
    let unseen: Vec<(&Point, &GpuNetwork)> =
        members.iter().filter(|(point, _)| point.unseen).copied().collect();
    let mut groups = Vec::new();
    if !members.is_empty() {
        groups.push(score("all", &members));
    }
    if with_unseen && !unseen.is_empty() {
        groups.push(score("unseen", &unseen));
    }
    groups
}

fn score(part: &str, members: &[(&Point, &GpuNetwork)]) -> Scored {
    let pairs: Vec<(f64, f64)> =
        members.iter().map(|(point, _)| (point.predicted_us, point.measured_us)).collect();
    let linear: Option<Vec<(f64, f64)>> = members
        .iter()
        .map(|(point, _)| point.flops_linear_us.map(|predicted| (predicted, point.measured_us)))
        .collect();
    let noise: Vec<f64> = members
        .iter()
        .filter_map(|(_, network)| network.deviation_us.map(|deviation| deviation / network.measured_us))
        .collect();
    // Without a residual the physics is the prediction, and no baseline.
    let has_residual =
        members.iter().any(|(point, _)| point.physics_us.to_bits() != point.predicted_us.to_bits());
    let physics: Vec<(f64, f64)> =
        members.iter().map(|(point, _)| (point.physics_us, point.measured_us)).collect();
    Scored {
        group: figures(format!("{GROUP}/{part}"), &pairs),
        physics_mape_percent: has_residual.then(|| figures("", &physics).mape_percent),
        interval_coverage_percent: coverage_percent(members.iter().map(|(point, _)| *point)),
        flops_linear_mape_percent: linear.map(|pairs| figures("", &pairs).mape_percent),
        repeat_noise_percent: (!noise.is_empty())
            .then(|| 100.0 * noise.iter().sum::<f64>() / noise.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::HostPath;
    use crate::device::quantity::Quantity;
    use crate::workload::{DataType, Layer, Linear, Operator};

    fn pixel4() -> Gpu {
        toml::from_str(include_str!("../../tests/golden/gpu_pixel4.toml")).unwrap()
    }

    fn host() -> HostPath {
        HostPath {
            source: "test".to_owned(),
            submit_us: Quantity::plain(600.0),
            read_back_us: Quantity::plain(400.0),
            kernel_factor: Quantity::plain(1.1),
            gap_us: Quantity::plain(3.0),
            traffic_us_per_byte: Quantity::plain(1e-5),
        }
    }

    /// A network of linear layers of those output features, timed at `measured_us`.
    fn network(name: &str, features: &[u32], measured_us: f64) -> GpuNetwork {
        let layer = |&output_features: &u32| {
            let linear = Linear { rows: 1, input_features: 512, output_features, bias: true };
            Layer::new(Operator::Linear(linear), DataType::F32)
        };
        GpuNetwork {
            name: name.to_owned(),
            layers: features.iter().map(layer).collect(),
            measured_us,
            deviation_us: Some(0.02 * measured_us),
            line: 2,
        }
    }

    #[test]
    fn an_inference_is_its_launches_each_with_its_gap_and_the_host_path_once() {
        let gpu = Gpu { host: Some(host()), ..pixel4() };
        let network = network("net", &[100, 1000, 500], 1.0);
        let launches = Launches::of(&network, &gpu).unwrap();
        let each: f64 = network
            .layers
            .iter()
            .map(|layer| {
                let phases = execute(layer, &gpu).unwrap().phases;
                host().launch_us(phases.duration().as_micros(), phases.bytes().0)
            })
            .sum();
        assert_eq!(launches.count, 3);
        assert!((predict(&network, &gpu).unwrap() - (1000.0 + each)).abs() < 1e-6);
        assert!((launches.inference_us(&pixel4()) - launches.alone_us).abs() < f64::EPSILON);
    }

    #[test]
    fn a_network_is_unseen_where_the_fit_did_not_have_it() {
        let gpu = Gpu { host: Some(host()), ..pixel4() };
        let networks: Vec<GpuNetwork> = [("a", 100), ("b", 4000), ("c", 900)]
            .iter()
            .map(|&(name, features)| {
                let unmeasured = network(name, &[features], 1.0);
                GpuNetwork { measured_us: predict(&unmeasured, &gpu).unwrap(), ..unmeasured }
            })
            .collect();
        let validation = validate(&gpu, &networks, Some(&networks[..2]));
        let names: Vec<(&str, usize)> =
            validation.groups.iter().map(|scored| (scored.group.name.as_str(), scored.group.n)).collect();
        assert_eq!(names, [("gpu/end_to_end/all", 3), ("gpu/end_to_end/unseen", 1)]);
        assert!(validation.groups.iter().all(|scored| scored.group.mape_percent < 1e-9));
        assert!(validation.groups[0].flops_linear_mape_percent.is_some());
        let unseen: Vec<bool> = validation.points.iter().map(|point| point.unseen).collect();
        assert_eq!(unseen, [false, false, true]);
        assert_eq!(validate(&gpu, &networks, None).groups.len(), 1);
    }
}
