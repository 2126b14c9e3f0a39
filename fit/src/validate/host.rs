//! Validation of whole inferences on a GPU: launches, host path, and copies to a GPU with its own memory.
//!
//! An inference is unseen where its network is not among those that the profile was
//! fitted to. Without a host path in the profile, the prediction is the sum of the
//! launches, which is too short.

use super::flops_linear::{self, FlopsLinear};
use super::point::Point;
use super::{Validation, is_unseen};
use crate::measure::GpuNetwork;
use coexec_sim::device::calibration::{Computed, ErrorGroup};
use coexec_sim::device::gpu::Gpu;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::{Calibration, ProcessorKind, Unsupported};

/// Group of whole inferences.
const GROUP: ErrorGroup =
    ErrorGroup::On { processor: ProcessorKind::Gpu, what: Computed::Networks, runs: None };

/// Predicted totals of the launches of one network and of the copies around them, without the host path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Launches {
    /// Sum of the launches' times alone, in microseconds.
    pub alone_us: f64,
    /// Bytes of tensors and weights that they move.
    pub bytes: u64,
    /// Number of launches.
    pub count: u32,
    /// Time of the copies between the host's memory and the GPU's own, in microseconds.
    pub copies_us: f64,
}

impl Launches {
    /// The launches of `network` on `gpu`.
    ///
    /// # Errors
    /// The profile lacks a kernel's parameters.
    pub fn of(network: &GpuNetwork, gpu: &Gpu) -> Result<Self, Unsupported> {
        let mut launches = Self::default();
        if let Some(memory) = &gpu.memory {
            let copies = network.what.copies.iter();
            launches.copies_us =
                copies.map(|&(copy, direction)| memory.link.transfer(copy, direction).as_micros()).sum();
        }
        for layer in &network.what.launches {
            let execution = execute(layer, gpu)?;
            launches.alone_us += execution.phases.duration().as_micros();
            launches.bytes += execution.phases.bytes().0;
            launches.count += execution.detail.launches;
        }
        Ok(launches)
    }

    /// Time of the inference, in microseconds; copies and the sum of the launches where the profile has no host path.
    pub fn inference_us(&self, gpu: &Gpu) -> f64 {
        self.copies_us
            + gpu.host.as_ref().map_or(self.alone_us, |host| {
                host.inference_us() + host.launches_us(self.alone_us, self.bytes, self.count)
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

/// Compares predictions of `gpu` with the times of `networks`. `seen` are the networks
/// that the profile was fitted to, to which the FLOPs-linear baseline is fitted too. The
/// intervals come from `calibration`, that of the profile.
pub fn validate(
    gpu: &Gpu,
    calibration: Option<&Calibration>,
    networks: &[GpuNetwork],
    seen: Option<&[GpuNetwork]>,
) -> Validation {
    let spread = calibration.and_then(|calibration| calibration.gpu_inference.as_ref());
    let predictor = Predictor::new(gpu, seen.unwrap_or_default());
    let is_unseen = is_unseen(seen);
    Validation::of(networks, |network| {
        let unseen = is_unseen(network);
        let point = Point { unseen, ..predictor.point(network)? };
        Ok::<_, Unsupported>(point.within(|predicted| Some(spread?.interval(predicted))))
    })
}

/// A GPU's predictions of whole inferences, prepared once for many networks.
pub(crate) struct Predictor<'a> {
    gpu: &'a Gpu,
    physics: Gpu,
    baseline: Option<FlopsLinear>,
}

impl<'a> Predictor<'a> {
    /// A predictor for `gpu`, with the FLOPs-linear baseline fitted to `seen`.
    pub(crate) fn new<'b>(gpu: &'a Gpu, seen: impl IntoIterator<Item = &'b GpuNetwork>) -> Self {
        let pairs = seen.into_iter().map(|network| (operations(network), network.measured_us));
        Self { gpu, physics: gpu.without_residual(), baseline: FlopsLinear::fit(pairs) }
    }

    /// The prediction of `network`, without an interval and marked as seen.
    pub(crate) fn point(&self, network: &GpuNetwork) -> Result<Point, Unsupported> {
        let predicted_us = predict(network, self.gpu)?;
        let physics_us = match self.gpu.residual {
            Some(_) => predict(network, &self.physics)?,
            None => predicted_us,
        };
        Ok(Point {
            physics_us,
            flops_linear_us: self.baseline.map(|baseline| baseline.predict(operations(network))),
            ..Point::of(network, GROUP, network.network.clone(), predicted_us)
        })
    }
}

/// Multiply-adds of a network.
fn operations(network: &GpuNetwork) -> f64 {
    network.what.launches.iter().map(flops_linear::operations).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::score::score;
    use coexec_sim::device::gpu::HostPath;
    use coexec_sim::device::quantity::Quantity;
    use coexec_sim::workload::{DataType, Layer, Linear, Operator};

    fn pixel4() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
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
            network: name.to_owned(),
            what: features.iter().map(layer).collect(),
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
            .what
            .launches
            .iter()
            .map(|layer| {
                let phases = execute(layer, &gpu).unwrap().phases;
                host().launches_us(phases.duration().as_micros(), phases.bytes().0, 1)
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
        let validation = validate(&gpu, None, &networks, Some(&networks[..2]));
        let groups = score(&validation.points);
        let mut names: Vec<(String, usize)> =
            groups.iter().map(|scored| (scored.group.name.to_string(), scored.group.n)).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [("gpu/end_to_end/all", 3), ("gpu/end_to_end/unseen", 1)].map(|(name, n)| (name.to_owned(), n))
        );
        assert!(groups.iter().all(|scored| scored.group.mape_percent < 1e-9));
        assert!(groups[0].flops_linear_mape_percent.is_some());
        let unseen: Vec<bool> = validation.points.iter().map(|point| point.unseen).collect();
        assert_eq!(unseen, [false, false, true]);
        assert_eq!(score(&validate(&gpu, None, &networks, None).points).len(), 1);
    }
}
