//! Measured runs: what was executed, where, and how long it took.
//!
//! Responsible for: the records and the importers of public data sets. Not for:
//! fitting (`calibrate`) or validation (`validate`). Invariant: an unusable row is
//! returned with its line and the reason, never dropped.

pub mod ai_hub;
pub mod ai_hub_llm;
pub mod benchmark_cpu;
pub mod benchmark_gpu;
pub mod benchmark_gpu_network;
pub mod benchmark_table;
pub mod digest;
pub mod draw;
mod gaps;
pub mod llama_bench;
pub mod runs;
pub mod tools;

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::Serialize;

pub use ai_hub::Inference;
pub use ai_hub_llm::Answer;
use coexec_sim::device::{Direction, LinkTransfer};
use coexec_sim::workload::{Class, DataType, Layer, Movement, Operator, Reduction, Stage};
use coexec_sim::{InputError, Mechanism, Plan, PlanFile, Profile, Text};
use runs::ExecutedOn;

/// The measured time of a network, or of a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<W> {
    /// The network, which cross-validation keeps in one fold.
    pub network: String,
    /// What ran.
    pub what: W,
    /// Time in microseconds.
    pub measured_us: f64,
    /// Standard deviation over the repetitions, in microseconds.
    pub deviation_us: Option<f64>,
    /// Line of its file, from 1.
    pub line: u64,
}

impl Run<()> {
    /// A run of `network`, or the reason that `measured_us` is not a time; an impossible deviation
    /// becomes none.
    fn timed(
        network: &str,
        (measured_us, deviation_us): (f64, Option<f64>),
        line: u64,
    ) -> Result<Self, String> {
        Ok(Self {
            network: network.to_owned(),
            what: (),
            measured_us: time(measured_us, format_args!("{measured_us:?} us"))?,
            deviation_us: deviation_us.filter(|deviation| (0.0..=*TIMES_US.end()).contains(deviation)),
            line,
        })
    }
}

impl<W> Run<W> {
    /// The same run with another `what`.
    fn of<V>(self, what: V) -> Run<V> {
        let Self { network, measured_us, deviation_us, line, .. } = self;
        Run { network, what, measured_us, deviation_us, line }
    }
}

/// A layer on a GPU: the time of its launch.
pub type GpuRun = Run<Layer>;
/// A network on a GPU, end to end.
pub type GpuNetwork = Run<OnGpu>;
/// A network on CPU cores, end to end.
pub type CpuRun = Run<OnCores>;
/// An operator that the host timed, from its call until it saw the end.
pub type HostTimed = Run<ByHost>;

/// A network under a plan of several processors, end to end.
pub type PlannedRun = Run<UnderPlan>;

/// A network on a GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnGpu {
    /// Its launches, in order.
    pub launches: Vec<Layer>,
    /// What is copied where the GPU has its own memory. Empty if the device timed itself, or the tensors are unknown.
    pub copies: Vec<(LinkTransfer, Direction)>,
}

impl FromIterator<Layer> for OnGpu {
    fn from_iter<I: IntoIterator<Item = Layer>>(launches: I) -> Self {
        Self { launches: launches.into_iter().collect(), copies: Vec::new() }
    }
}

/// A network, or an operator, under a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct UnderPlan {
    /// The network.
    pub stages: Vec<Stage>,
    /// The plan's file.
    pub plan: Text,
}

impl UnderPlan {
    /// The plan on `device`, or the reason why it does not fit.
    pub(crate) fn resolve(&self, device: &Profile) -> Result<Plan, String> {
        let unfit = |error: InputError| error.to_string();
        let file: PlanFile = self.plan.parse().map_err(unfit)?;
        file.resolve(&self.plan, &self.stages, device).map_err(unfit)
    }
}

/// A network on CPU cores.
#[derive(Clone, Debug, PartialEq)]
pub struct OnCores {
    /// Core set as its table names it: `1large2med`.
    pub core_set: String,
    /// Number format of the model: [`DataType::F32`] or [`DataType::I8`].
    pub data_type: DataType,
    /// The network's operators in order, each of which runs as a pass of its own. Activations that
    /// the operator before applies for free are not listed. Empty where the operators are unknown.
    pub layers: Arc<[Layer]>,
}

/// An operator that the host timed.
#[derive(Clone, Debug, PartialEq)]
pub struct ByHost {
    /// The whole operator.
    pub layer: Layer,
    /// Where it ran, whole or cut.
    pub ran: ExecutedOn,
    /// Synchronisation mechanism between the processors.
    pub synchronisation: Option<Mechanism>,
    /// The plan, where `ran` names its file.
    pub plan: Option<UnderPlan>,
}

/// Runs of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs<W> {
    /// The usable runs, in the order of the file.
    pub runs: Vec<Run<W>>,
    /// The unusable rows, each with the line of its own file.
    pub left_out: Vec<SkippedRow>,
}

/// Runs by processor and kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByProcessor {
    /// Layers on the GPU.
    pub gpu: Vec<GpuRun>,
    /// Whole networks on the GPU.
    pub gpu_networks: Vec<GpuNetwork>,
    /// Networks on the CPU. A layer that ran alone is a network of one, named by what it
    /// computes, so that cross-validation keeps equal shapes in one fold.
    pub cpu: Vec<CpuRun>,
    /// Operators that the host timed: cut between processors, or on the GPU alone from the
    /// host's memory and back.
    pub host_timed: Vec<HostTimed>,
    /// Whole networks under plans.
    pub planned: Vec<PlannedRun>,
    /// Whole networks on one unit, as a runtime compiled them.
    pub inferences: Vec<Inference>,
    /// Times of language models.
    pub answers: Vec<Answer>,
    /// The unusable rows.
    pub left_out: Vec<SkippedRow>,
}

impl ByProcessor {
    /// Number of usable runs.
    pub fn count(&self) -> usize {
        let Self { gpu, gpu_networks, cpu, host_timed, planned, inferences, answers, left_out: _ } = self;
        let whole = planned.len() + inferences.len() + answers.len();
        gpu.len() + gpu_networks.len() + cpu.len() + host_timed.len() + whole
    }
}

/// The family of operations by which a GPU's error figures are grouped; none for operations
/// without a group.
pub fn family(operator: &Operator) -> Option<&'static str> {
    Some(match operator.class() {
        Class::Convolution(conv) if conv.groups > 1 => "grouped_conv2d",
        Class::Convolution(_) => "conv2d",
        Class::Depthwise(_) => "depthwise_conv2d",
        Class::Product(product) if product.trained => "fully_connected",
        Class::Reduction(Reduction::Pixels { .. }) => "mean",
        Class::Movement(Movement::Joined(_)) => "concat",
        Class::Pool(_) => "pool",
        Class::Product(_)
        | Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_)
        | Class::Gather(_)
        | Class::Recurrent(_)
        | Class::Generic(_) => return None,
    })
}

/// Accepted measured times, in microseconds: from a nanosecond, below any clock's resolution, to 1,000
/// s, beyond any value of a profile.
const TIMES_US: RangeInclusive<f64> = 1e-3..=1e9;

/// A measured time in microseconds, or the reason that it is not one; `found` is its text in the file.
fn time(micros: f64, found: impl Display) -> Result<f64, String> {
    let (least, most) = (TIMES_US.start(), TIMES_US.end());
    let refused = || format!("the time is {found}, expected microseconds from {least} to {most:e}");
    if TIMES_US.contains(&micros) { Ok(micros) } else { Err(refused()) }
}

/// The measured time in a cell.
fn time_in(cell: &str) -> Result<f64, String> {
    time(cell.trim().parse().unwrap_or(f64::NAN), format_args!("{cell:?}"))
}

/// The reason that a network which ran as a whole cannot be used.
pub(crate) fn unknown_operators(network: &str) -> String {
    format!(
        "the operators of {network} are not known: put its model or scenario next to the runs, as {network}.onnx, \
         {network}.tflite or {network}.toml (`coexec import` writes the latter, with the options that the model needs)"
    )
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Reason that it cannot be used.
    pub reason: String,
}

/// Error of a data set without runs of `device`; `what` names its devices, such as `chips` or `phones`.
fn no_such_device<N: Into<String>>(
    text: &Text,
    device: &str,
    what: &str,
    known: impl IntoIterator<Item = N>,
) -> InputError {
    let known: Vec<String> = known.into_iter().map(Into::into).collect();
    InputError::Option {
        option: "--device-column",
        found: format!("{device:?}"),
        expected: format!("one of the {what} in {}: {}", text.name, known.join(", ")),
    }
}

/// Separates rows, each with its line, into the usable ones and the others.
pub(crate) fn usable<T, E: ToString>(
    rows: impl Iterator<Item = (u64, Result<T, E>)>,
) -> (Vec<T>, Vec<SkippedRow>) {
    let (mut usable, mut left_out) = (Vec::new(), Vec::new());
    for (line, row) in rows {
        match row {
            Ok(row) => usable.push(row),
            Err(reason) => left_out.push(SkippedRow { line, reason: reason.to_string() }),
        }
    }
    (usable, left_out)
}

/// The values of each key. Keys are in the order of their first occurrence, values in their own.
pub(crate) fn grouped<K: Hash + Eq + Clone, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, value) in pairs {
        let place = *places.entry(key).or_insert_with_key(|key| {
            groups.push((key.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(value);
    }
    groups
}
