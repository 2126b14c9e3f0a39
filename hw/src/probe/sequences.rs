//! Small networks under the plan that a search finds for each, beside both processors alone.
//!
//! Responsible for: which networks, running them, and how far each way is from its prediction. Not for: what that
//! says of an answer (`coexec_sim::simulate::Errors`). Invariant: no network is one that anybody asks about, each is
//! drawn from a seed; every way of one is timed by the host's clock, in turn with the others.

use coexec_fit::validate::cut::given_alone;
use coexec_fit::validate::point::Point;
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::explore::{Effort, SearchOptions, Strategy, explore};
use coexec_sim::statistics::median;
use coexec_sim::workload::{
    DataType, Function, Graph, GraphBuilder, GraphError, NormKind, Shape, Source, Window, fuse,
};
use coexec_sim::{
    CoreSet, Library, Measure, Picos, Placement, Plan, ProcessorKind, Profile, Simulator, Stage,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::layers::pick;
use super::{Bench, ProbeError, RUN_LIMIT, Result};
use crate::execute::{Machine, Settings, side_by_side};

/// Networks that are shared, quickly and in full.
const NETWORKS: [usize; 2] = [4, 12];
/// Repetitions of each way to compute one.
const REPETITIONS: [u32; 2] = [7, 15];
/// Networks drawn for each that is wanted: of some the best plan is one processor alone.
const DRAWS: usize = 3;
/// Part of the probe's time that is kept for them: they wait for the fits.
pub(super) const TIME_PART: f64 = 0.2;

/// What networks take, beside what the profile predicts: alone on each processor, and of the plan given those.
pub(super) fn measure(bench: &Bench<'_>, machine: &mut Machine, profile: &Profile) -> Result<Vec<Point>> {
    let full = usize::from(!bench.options.quick);
    let budget = bench.kept(TIME_PART);
    let strategy = Strategy::Optimal;
    let options = SearchOptions { strategy, effort: Effort::Quick, ..SearchOptions::on(profile) };
    let mut random = ChaCha8Rng::seed_from_u64(bench.options.seed);
    let (wanted, mut shared, mut points) = (NETWORKS[full], 0, Vec::new());
    for number in 0..DRAWS * wanted {
        if shared == wanted || budget.is_over() {
            break;
        }
        let graph = if number % 2 == 0 { image_network(&mut random) } else { token_network(&mut random) };
        let graph = graph.map_err(|error| ProbeError::Layer(error.to_string()))?;
        let name = format!("network {number} of the probe");
        let stages = fuse(&graph);
        let network = Network { name: &name, stages: &stages, profile, options: &options };
        let Some((plan, cores)) = network.shared_plan() else { continue };
        budget.report(&format!("shared networks: {shared} of {wanted}"));
        let settings = Settings { repetitions: REPETITIONS[full], seed: bench.options.seed, deadline: None };
        points.extend(network.timed(machine, (&plan, cores), settings)?);
        shared += 1;
    }
    Ok(points)
}

/// Convolutions of networks for images, with sums over blocks of them.
fn image_network(random: &mut ChaCha8Rng) -> Result<Graph, GraphError> {
    let mut net = GraphBuilder::new("of images", DataType::F32);
    let side = pick([28, 56, 112], random);
    let input = net.input(Shape::image(side, side, 3));
    let mut last = net.conv_norm(input, pick([16, 32, 64], random), Window::same(3));
    let function = pick([Function::Relu, Function::HardSwish, Function::Silu], random);
    for _ in 0..pick([4, 6, 8, 10], random) {
        let Shape { height, channels, .. } = net.shape(last);
        let shrinks = height > 7 && pick([true, false, false], random);
        let (stride, outputs) = if shrinks { (2, (2 * channels).min(512)) } else { (1, channels) };
        let window = Window::same(3).stride(stride);
        let block = if pick([true, false], random) {
            let first = net.conv_norm(last, outputs, window);
            let first = net.activate(first, function);
            net.conv_norm(first, outputs, Window::same(3))
        } else {
            let wide = net.conv_norm(last, pick([2, 4, 6], random) * channels, Window::same(1));
            let wide = net.activate(wide, function);
            let wide = net.depthwise_norm(wide, window);
            let wide = net.activate(wide, function);
            net.conv_norm(wide, outputs, Window::same(1))
        };
        last = if shrinks { net.activate(block, function) } else { net.add(block, last) };
    }
    let pooled = net.mean(last);
    net.linear(pooled, 1_000);
    net.build()
}

/// Mixers of features as transformers have them behind their attention.
fn token_network(random: &mut ChaCha8Rng) -> Result<Graph, GraphError> {
    let mut net = GraphBuilder::new("of tokens", DataType::F32);
    let features = pick([128, 192, 384, 768], random);
    let mut last: Source = net.input(Shape::tokens(pick([49, 64, 128, 197], random), features));
    for _ in 0..pick([2, 4, 6], random) {
        let normed = net.norm(last, NormKind::Layer);
        let wide = net.linear(normed, 4 * features);
        let wide = net.activate(wide, Function::Gelu);
        let block = net.linear(wide, features);
        last = net.add(block, last);
    }
    net.build()
}

/// A network on a machine of that profile.
struct Network<'a> {
    name: &'a str,
    stages: &'a [Stage],
    profile: &'a Profile,
    options: &'a SearchOptions,
}

impl Network<'_> {
    fn simulator(&self) -> Simulator<'_> {
        let library = Library::default_for(&self.profile.cpu);
        Simulator::new(self.profile, library).measuring(Measure::Inference)
    }

    /// The plan that a search finds, and the cores in it, where CPU and GPU share the network.
    fn shared_plan(&self) -> Option<(Plan, CoreSet)> {
        let plan = explore(&mut self.simulator(), self.stages, self.options).ok()?.plan;
        let uses = |kind| plan.placements.iter().any(|placement| placement.uses(kind));
        let cores = plan.placements.iter().find_map(Placement::cores)?;
        uses(ProcessorKind::Gpu).then_some((plan, cores))
    }

    fn timed(
        &self,
        machine: &mut Machine,
        (plan, cores): (&Plan, CoreSet),
        settings: Settings,
    ) -> Result<Vec<Point>> {
        let (stages, work) = (self.stages, (self.stages, self.profile));
        let alone = [Placement::cpu(cores), Placement::GPU]
            .map(|placement| Plan::new(plan.synchronisation, vec![placement; stages.len()]));
        let plans = [plan, &alone[0], &alone[1]].map(Plan::clone);
        let failed = |error: &dyn std::fmt::Display| ProbeError::Layer(format!("{}: {error}", self.name));
        let measured =
            side_by_side(machine, work, &plans, (settings, RUN_LIMIT)).map_err(|error| failed(&error))?;
        let mut medians = [0.0; 3];
        for (to, measured) in medians.iter_mut().zip(measured) {
            let measured = match measured {
                Ok(measured) => measured,
                Err(error) if error.is_of_variant() => return Ok(Vec::new()),
                Err(error) => return Err(failed(&error)),
            };
            *to = median(&measured.wall_us).ok_or_else(|| failed(&"no repetition"))?;
        }
        let [shared_us, cpu_us, gpu_us] = medians;
        let mut simulator = self.simulator();
        let mut takes = |plan: &Plan| simulator.latency(stages, plan).ok().map(Picos::as_micros);
        let predicted = [takes(&alone[0]), takes(&alone[1])];
        let given = given_alone(&self.simulator(), (stages, plan), cores, [cpu_us, gpu_us]);
        let point = |group: ErrorGroup, measured_us: f64, predicted_us: Option<f64>| {
            predicted_us.map(|predicted_us| Point {
                group: group.to_string(),
                network: self.name.to_owned(),
                what: self.name.to_owned(),
                unseen: true,
                measured_us,
                predicted_us,
                physics_us: predicted_us,
                ..Point::default()
            })
        };
        let points = [
            point("cpu/end_to_end/float".into(), cpu_us, predicted[0]),
            point("gpu/end_to_end/float".into(), gpu_us, predicted[1]),
            point(ErrorGroup::Plans, shared_us, given),
        ];
        Ok(points.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_depend_on_the_seed_alone_and_are_of_a_size_that_a_probe_can_run() {
        let draw = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            [image_network(&mut random).unwrap(), token_network(&mut random).unwrap()]
        };
        for seed in 0..20 {
            let networks = draw(seed);
            assert_eq!(networks, draw(seed));
            for network in networks {
                assert!((1_000_000..20_000_000_000).contains(&network.macs()), "{}", network.macs());
            }
        }
        assert_ne!(draw(1), draw(2));
    }
}
