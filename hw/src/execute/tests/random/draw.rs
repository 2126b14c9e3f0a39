//! Random graphs, plans and settings: small, and of every kind that hardware runs.

use std::fmt;

use coexec_sim::plan::{Part, Processor, Region, Span};
use coexec_sim::schedule::schedule;
use coexec_sim::workload::{
    DataType, Dimension, Elementwise, Function, Generic, GenericKind, GraphBuilder, MatMul, NormKind,
    Operator, Padding, PoolKind, Shape, Slice, Source, Transpose, Window, fuse,
};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::super::*;
use crate::execute::program::setting;

/// Largest number of operators in a graph.
const MAX_OPERATORS: usize = 8;
/// Heads of attention.
const HEADS: u32 = 2;
/// Devices whose dispatch rules and layouts are used.
const DEVICES: [&str; 4] = ["pixel4", "h200", "xeon-pocl", "oneplus11"];

/// A workload and plan, and how the processors share them.
pub(super) struct Case {
    pub(super) stages: Vec<Stage>,
    pub(super) plan: Plan,
    pub(super) profile: Profile,
    pub(super) sharing: Sharing,
}

/// Mechanism and shared memory of the processors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    pub(super) mechanism: Mechanism,
    pub(super) memory: Home,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} by the rules of {}", self.sharing, self.profile.name)?;
        writeln!(f, "in the order {:?}", self.plan.in_order().collect::<Vec<_>>())?;
        for (index, (stage, placement)) in self.stages.iter().zip(&self.plan.placements).enumerate() {
            write!(f, "{index}: {} of {:?}, ", stage.layer.operator, stage.reads)?;
            write!(f, "chain {:?}, on", self.plan.chain(index))?;
            for Part { by, region } in placement.parts() {
                write!(f, " {} {:?} x {:?}", by.kind(), region.rows.range(), region.channels.range())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Sharing {
    /// Whether kernels notify the host through flags.
    pub(super) fn uses_flags(self) -> bool {
        match self.mechanism {
            Mechanism::SvmPolling | Mechanism::PinnedPolling | Mechanism::SleepThenPoll => true,
            Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => false,
        }
    }

    /// Whether results are mapped at synchronisations.
    pub(super) fn maps(self) -> bool {
        self.memory == Home::Mapped && self.mechanism.modelled().maps()
    }

    /// A random combination that works on this machine.
    fn drawn(random: &mut ChaCha8Rng, machine: &Machine) -> Self {
        let runtime = machine.runtime().expect("a device was opened");
        let mut memories = vec![Home::Device];
        let is_fine = runtime.device().polls_shared_memory;
        memories.extend(is_fine.then_some(Home::Shared));
        let maps = sharing::choose(runtime, Mechanism::EventWait) == Home::Mapped;
        memories.extend(maps.then_some(Home::Mapped));
        let mut mechanisms = vec![Mechanism::EventWait, Mechanism::EventPolling, Mechanism::BlockingFinish];
        mechanisms.extend(is_fine.then_some(Mechanism::SvmPolling));
        mechanisms.extend(maps.then_some(Mechanism::PinnedPolling));
        Self { mechanism: one(random, &mechanisms), memory: one(random, &memories) }
    }
}

fn one<T: Clone>(random: &mut ChaCha8Rng, choices: &[T]) -> T {
    choices.choose(random).expect("there are some").clone()
}

/// A random case.
pub(super) fn drawn(random: &mut ChaCha8Rng, machine: &Machine) -> Case {
    let profile = Profile::load(one(random, &DEVICES)).unwrap();
    let stages = graph(random);
    let placements: Vec<Placement> = stages.iter().map(|stage| placement(random, stage, &profile)).collect();
    let plan = chained(random, &stages, Plan::new(Modelled::SvmPolling, placements), &profile);
    let plan = if random.random_bool(0.5) { Plan { order: order(random, &stages), ..plan } } else { plan };
    Case { stages, plan, profile, sharing: Sharing::drawn(random, machine) }
}

/// A random topological order.
fn order(random: &mut ChaCha8Rng, stages: &[Stage]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(stages.len());
    while order.len() < stages.len() {
        let can_be_next = |stage: &usize| {
            !order.contains(stage) && stages[*stage].inputs().all(|input| order.contains(&input))
        };
        order.push(one(random, &(0..stages.len()).filter(can_be_next).collect::<Vec<_>>()));
    }
    order
}

/// A graph whose operators read any earlier results and inputs of the workload.
fn graph(random: &mut ChaCha8Rng) -> Vec<Stage> {
    let mut net = GraphBuilder::new("a test", DataType::F32);
    let image = Shape::image(one(random, &[9, 12]), 7, one(random, &[8, 12]));
    let image = Shape { batch: one(random, &[1, 1, 2]), ..image };
    let tokens = Shape::tokens(one(random, &[6, 8]), 16);
    let mut tensors = vec![net.constant(image), net.input(image), net.input(tokens)];
    for _ in 0..random.random_range(1..=MAX_OPERATORS) {
        // Recent results are preferred, so that graphs are deep.
        let back = random.random_range(1..=3_usize.min(tensors.len()));
        let from = tensors[tensors.len() - back];
        let other = one(random, &tensors);
        tensors.push(operator(random, &mut net, from, other));
    }
    fuse(&net.build().unwrap())
}

/// An operator that reads `from` and, if it has two inputs that fit, `other`.
fn operator(random: &mut ChaCha8Rng, net: &mut GraphBuilder, from: Source, other: Source) -> Source {
    let (shape, beside) = (net.shape(from), net.shape(other));
    if from != other && shape == beside && random.random_bool(0.5) {
        return match random.random_range(0..3) {
            0 => net.add(from, other),
            1 => net.multiply(from, other),
            _ => net.concat(&[from, other]),
        };
    }
    let product = Elementwise { function: Function::Multiply, input: shape, other: Some(beside) };
    if shape != beside && Operator::from(product).check().is_ok() && random.random_bool(0.5) {
        return net.multiply(from, other);
    }
    let function = one(random, &[Function::Relu, Function::Sigmoid, Function::Tanh]);
    if shape.height == 1 {
        return match random.random_range(0..7) {
            6 if shape.batch == 1 && shape.channels.is_multiple_of(HEADS) => {
                heads(net, from, random.random_bool(0.5))
            }
            0..3 if shape.batch == 1 => net.linear(from, one(random, &[16, 24])),
            3 => net.softmax(from),
            4 if shape.batch == 1 => net.norm(from, NormKind::Layer),
            _ => net.activate(from, function),
        };
    }
    if random.random_bool(0.1) {
        let kind = one(random, &[GenericKind::Elementwise, GenericKind::Reduction, GenericKind::Gather]);
        let generic = Generic { kind, inputs: vec![shape, beside], output: shape, passes: 1 };
        return net.operator("generic", generic, &[from, other]);
    }
    let odd = one(random, &[1, 3]);
    let strided = Window::same(3).stride(2).padding(Padding { top: 1, bottom: 1, left: 0, right: 1 });
    match random.random_range(0..13) {
        0..4 => net.conv(from, one(random, &[8, 12, 16]), Window::same(odd)),
        4 if shape.height > 4 => net.conv(from, 16, strided),
        5..7 => net.depthwise_norm(from, Window::same(3)),
        7 if shape.height > 4 => net.pool(from, one(random, &[PoolKind::Max, PoolKind::Average]), strided),
        8 if shape.channels > 4 => {
            net.operator("slice", Slice::of_channels(shape, 4, shape.channels - 4), &[from])
        }
        9 => net.mean(from),
        10 if shape.batch == 1 && shape.elements() < 2_000 => {
            net.reshape(from, Shape::tokens(1, shape.elements() as u32))
        }
        11 => {
            let gate = net.conv(from, 1, Window::same(odd));
            net.multiply(from, gate)
        }
        _ => net.activate(from, function),
    }
}

/// Products of activations, by heads: of the tokens `from` with themselves, masked alike for all heads, then with the
/// weights that result.
/// Another operator reads the heads too if `is_read_again`.
pub(in crate::execute::tests) fn heads(net: &mut GraphBuilder, from: Source, is_read_again: bool) -> Source {
    use Dimension::{Batch, Channels, Height, Width};
    let Shape { width: tokens, channels, .. } = net.shape(from);
    let features = channels / HEADS;
    let transpose = |net: &mut GraphBuilder, from, order| {
        let transpose = Transpose { input: net.shape(from), images: 1, order };
        net.operator("transpose", transpose, &[from])
    };
    let split = net.reshape(from, Shape::image(tokens, HEADS, features));
    let first = transpose(net, split, [Width, Batch, Height, Channels]);
    let keys = transpose(net, split, [Width, Batch, Channels, Height]);
    let product = |k, n| MatMul { images: 1, batch: HEADS, m: tokens, k, n };
    let scores = net.operator("scores", product(features, tokens), &[first, keys]);
    let mask = net.constant(Shape::tokens(tokens, tokens));
    let masked = net.add(scores, mask);
    let weights = net.softmax(masked);
    let values = if is_read_again { net.activate(first, Function::Tanh) } else { first };
    let read = net.operator("read", product(tokens, features), &[weights, values]);
    let merged = transpose(net, read, [Height, Width, Batch, Channels]);
    net.reshape(merged, Shape::tokens(tokens, channels))
}

/// The placement of a stage: one processor, or both in up to four parts.
fn placement(random: &mut ChaCha8Rng, stage: &Stage, profile: &Profile) -> Placement {
    let cpu = Processor::Cpu(cores(profile));
    let operator = &stage.layer.operator;
    let mut by = [cpu, Processor::Gpu];
    if random.random_bool(0.5) {
        by.reverse();
    }
    let channels = cuts(random, Axis::Channels, operator);
    let rows = cuts(random, Axis::Height, operator);
    let whole = Region::of(operator.output());
    let placed = match random.random_range(0..8) {
        0..3 => return Placement::whole(by[0]),
        3..5 => side_by_side(Axis::Channels, &channels, (whole, by)),
        5..7 => side_by_side(Axis::Height, &rows, (whole, by)),
        _ if channels.is_empty() || rows.is_empty() => Vec::new(),
        // Some channels of the first rows, the rest of their channels, and all of the remaining
        // rows.
        _ => {
            let (first, behind) = (Span::new(0, rows[0]), Span::new(rows[0], whole.rows.end));
            let (left, right) = (Span::new(0, channels[0]), Span::new(channels[0], whole.channels.end));
            let boxes = [(first, left), (first, right), (behind, whole.channels)];
            let part = |(index, (rows, channels))| Part {
                by: by[usize::from(index != 0)],
                region: Region { rows, channels },
            };
            boxes.into_iter().enumerate().map(part).collect()
        }
    };
    if placed.is_empty() { Placement::whole(by[0]) } else { Placement::of(&placed).unwrap() }
}

/// Positions of one or two cuts; none if the operator cannot be cut. The GPU computes slices of
/// four channels, and has no kernel for a single row of a linear layer with several.
fn cuts(random: &mut ChaCha8Rng, axis: Axis, operator: &Operator) -> Vec<u32> {
    let step = match (axis, operator) {
        (Axis::Channels, _) => 4,
        (Axis::Height, Operator::Linear(_)) => 2,
        (Axis::Height, _) => 1,
    };
    let places = axis.extent(operator).map_or(0, |extent| (extent - 1) / step);
    if places == 0 {
        return Vec::new();
    }
    let mut cuts: Vec<u32> =
        (0..random.random_range(1..=2)).map(|_| step * random.random_range(1..=places)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// The parts between the cuts of `whole`, with alternating processors.
fn side_by_side(axis: Axis, cuts: &[u32], (whole, by): (Region, [Processor; 2])) -> Vec<Part> {
    if cuts.is_empty() {
        return Vec::new();
    }
    let ends = cuts.iter().copied().chain([whole.span(axis).end]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let part = |(index, (start, end))| Part {
        by: by[index % 2],
        region: Region::along(axis, Span::new(start, end)),
    };
    starts.zip(ends).enumerate().map(part).collect()
}

/// The plan with chains where stages can be chained: along the height by one cut, or after a stage
/// with another kind of cut, by a cut of its own.
fn chained(random: &mut ChaCha8Rng, stages: &[Stage], plan: Plan, profile: &Profile) -> Plan {
    let mut plan = plan.chained(vec![Some(0); stages.len()]);
    plan.chains.fill(None);
    let mut first: Option<(u32, Placement)> = None;
    for (index, stage) in stages.iter().enumerate() {
        if !plan.placements[index].is_cut() || random.random_bool(0.2) {
            first = None;
        }
        let own = plan.placements[index];
        if let Some((chain, begun)) = first.filter(|_| random.random_bool(0.9)) {
            // The processors in the order of the chain's first stage.
            let by: Vec<Processor> = begun.parts().map(|part| part.by).collect();
            let operator = &stage.layer.operator;
            if let (Some(Axis::Height), [one, other], Some(&cut)) =
                (begun.axis(), by.as_slice(), cuts(random, Axis::Height, operator).first())
            {
                let behind = operator.output().lines() - cut;
                plan.placements[index] = Placement::cut(Axis::Height, [(*one, cut), (*other, behind)]);
            }
            plan.chains[index] = Some(chain);
        } else if own.is_cut() {
            first = Some((index as u32, own));
            plan.chains[index] = Some(index as u32);
        }
        let so_far = Plan::new(plan.synchronisation, plan.placements[..=index].to_vec())
            .chained(plan.chains[..=index].to_vec());
        if schedule(&stages[..=index], &so_far, &setting(None, profile)).is_err() {
            (plan.placements[index], plan.chains[index]) = (own, None);
        }
    }
    let chains = std::mem::take(&mut plan.chains);
    plan.chained(chains)
}
