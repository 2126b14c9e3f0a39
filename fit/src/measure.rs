//! Measured runs: what was executed, where, and how long it took.
//!
//! Responsible for: the records and the importers of public data sets. Not for:
//! fitting (`calibrate`) or judging predictions (`validate`). Invariant: a row
//! that cannot be used is handed back with its line and the reason, never dropped.

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
use coexec_sim::workload::{Class, DataType, Layer, Movement, Operator, Reduction};
use coexec_sim::{InputError, Mechanism, Text};
use runs::ExecutedOn;

/// How long something took that is part of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<W> {
    /// The network: what cross-validation keeps together.
    pub network: String,
    /// What ran.
    pub what: W,
    /// Time in microseconds.
    pub measured_us: f64,
    /// Standard deviation over the repetitions, in microseconds.
    pub deviation_us: Option<f64>,
    /// Line of the file it comes from, from 1.
    pub line: u64,
}

impl Run<()> {
    /// Something in `network` that took `measured_us`, or why that is no time; a deviation that is none is left out.
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
    /// The same time, of something else.
    fn of<V>(self, what: V) -> Run<V> {
        let Self { network, measured_us, deviation_us, line, .. } = self;
        Run { network, what, measured_us, deviation_us, line }
    }
}

/// A layer on a GPU: the time of its launch.
pub type GpuRun = Run<Layer>;
/// A network on a GPU from end to end: its launches, in order.
pub type GpuNetwork = Run<Vec<Layer>>;
/// A network on CPU cores from end to end.
pub type CpuRun = Run<OnCores>;
/// An operator that the host timed, from its call until it knew of the end.
pub type HostTimed = Run<ByHost>;

/// What CPU cores ran.
#[derive(Clone, Debug, PartialEq)]
pub struct OnCores {
    /// Core set as its table names it: `1large2med`.
    pub core_set: String,
    /// Number format of the model: [`DataType::F32`] or [`DataType::I8`].
    pub data_type: DataType,
    /// The network's operators in order, each running as a pass of its own; activations that
    /// the operator before applies for free are not listed. None where they are not known.
    pub layers: Arc<[Layer]>,
}

/// What the host timed.
#[derive(Clone, Debug, PartialEq)]
pub struct ByHost {
    /// The whole operator.
    pub layer: Layer,
    /// How it was cut, or that it was not.
    pub ran: ExecutedOn,
    /// How the processors learned of each other's results.
    pub synchronisation: Option<Mechanism>,
}

/// Runs of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs<W> {
    /// Those that can be used, in the order of the file.
    pub runs: Vec<Run<W>>,
    /// What cannot; each with the line of its own file.
    pub left_out: Vec<SkippedRow>,
}

/// Runs by the processor they were made on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByProcessor {
    /// Layers on the GPU.
    pub gpu: Vec<GpuRun>,
    /// Whole networks on the GPU.
    pub gpu_networks: Vec<GpuNetwork>,
    /// Networks on the CPU. A layer that ran alone is a network of one, called by
    /// what it computes: what cross-validation keeps together is its shape.
    pub cpu: Vec<CpuRun>,
    /// Operators that the host timed: cut between processors, or on the GPU alone from the
    /// host's memory and back.
    pub host_timed: Vec<HostTimed>,
    /// Whole networks on one unit, as a runtime compiled them.
    pub inferences: Vec<Inference>,
    /// Times of language models.
    pub answers: Vec<Answer>,
    /// What is none of these, and why.
    pub left_out: Vec<SkippedRow>,
}

impl ByProcessor {
    /// How many runs can be used.
    pub fn count(&self) -> usize {
        let Self { gpu, gpu_networks, cpu, host_timed, inferences, answers, left_out: _ } = self;
        gpu.len() + gpu_networks.len() + cpu.len() + host_timed.len() + inferences.len() + answers.len()
    }
}

/// The kind of operation by which a GPU's error figures are grouped; none of one that has no
/// group.
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

/// What a measured time may be, in microseconds: from a nanosecond, which no clock tells, to 1,000 s, beyond which no value of
/// a profile lies.
const TIMES_US: RangeInclusive<f64> = 1e-3..=1e9;

/// A measured time in microseconds, which stands as `found`; why it is none otherwise.
fn time(micros: f64, found: impl Display) -> Result<f64, String> {
    let (least, most) = (TIMES_US.start(), TIMES_US.end());
    let refused = || format!("the time is {found}, expected microseconds from {least} to {most:e}");
    if TIMES_US.contains(&micros) { Ok(micros) } else { Err(refused()) }
}

/// The same of a cell.
fn time_in(cell: &str) -> Result<f64, String> {
    time(cell.trim().parse().unwrap_or(f64::NAN), format_args!("{cell:?}"))
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// That a data set has no runs of a device, but of others: `chips`, `phones`.
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

/// What became of rows, by their lines: what can be used, and which cannot.
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

/// The values of each key, both in the order in which they occur first.
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
