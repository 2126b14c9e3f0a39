//! Table 3: whole networks with the GPU and three CPU threads.

use super::{DATA_TYPE, MOST_THREADS, PHONES, Phone, options};
use crate::device::profile::Profile;
use crate::explore::{Strategy, explore};
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::synchronisation::Mechanism;
use crate::published::{BarSeries, Bars, Comparison, Drawing, Inputs, Limit, Picture, ReproduceError};
use crate::simulate::{SimulateError, Simulator};
use crate::workload::{Operator, Stage, fuse, network};

/// Microseconds in a millisecond.
const MICROS_PER_MILLI: f64 = 1e3;

/// The paper's networks: in ids of facts, here, and for a reader.
///
/// Its Inception-v3 is read as one with square windows: the sets of operators and the
/// predictors of the paper know no others, and with a row and a column for each square all
/// of its times come out a third to a half short ([`of_factorised`]), on CPU and GPU alike.
const NETWORKS: [(&str, &str, &str); 4] = [
    ("vgg16", "vgg16", "VGG16"),
    ("resnet18", "resnet18", "ResNet-18"),
    ("resnet34", "resnet34", "ResNet-34"),
    (INCEPTION, "inception-v3-square", "Inception-v3"),
];

/// The network that has rows and columns of windows where it is defined, and its name.
const INCEPTION: &str = "inception-v3";

/// A network on a phone, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Run {
    phone: Phone,
    network: &'static str,
    gpu_only: f64,
    /// Each operator alone, cut where that is faster, summed up.
    operators: f64,
    /// All of them in one plan.
    together: f64,
}

/// Sets ours beside Table 3.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    let mut runs = Vec::new();
    for phone in PHONES {
        let profile = inputs.profile(phone.profile)?;
        for (key, name, _) in NETWORKS {
            runs.extend(run(profile, phone, key, name)?);
        }
    }
    let reading = of_factorised(comparison, inputs)?;
    let mut rows = |group: &str, limit: Limit, quantity: &str, ours: fn(&Run) -> f64| {
        comparison.group(group, limit);
        for run in &runs {
            comparison.row(&format!("network/{}/{}/{quantity}", run.phone.key, run.network), ours(run));
            if run.network == INCEPTION {
                comparison.note(&reading);
            }
        }
    };
    let speedups = Limit::mean_and_worst(6.0, 15.0);
    rows("Table 3: speedup of networks", speedups, "network-speedup", |run| run.gpu_only / run.together);
    rows("Table 3: speedup of single operators, summed", speedups, "operators-speedup", |run| {
        run.gpu_only / run.operators
    });
    let times = Limit::each(20.0);
    rows("Table 3: GPU alone", times, "gpu-ms", |run| run.gpu_only);
    rows("Table 3: operators shared, summed", times, "operators-ms", |run| run.operators);
    rows("Table 3: networks shared", times, "network-ms", |run| run.together);
    let figure = figure(comparison, &runs);
    comparison.figure(figure);
    Ok(())
}

/// How the paper's Inception-v3 is read, and what its times were with the network's own
/// windows.
fn of_factorised(comparison: &Comparison, inputs: &Inputs) -> Result<String, ReproduceError> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for phone in PHONES {
        let Some(run) = run(inputs.profile(phone.profile)?, phone, INCEPTION, INCEPTION)? else { continue };
        for (quantity, ours) in
            [("gpu-ms", run.gpu_only), ("operators-ms", run.operators), ("network-ms", run.together)]
        {
            let published = comparison.number(&format!("network/{}/{INCEPTION}/{quantity}", phone.key));
            let deviation = 100.0 * (ours / published - 1.0);
            (least, most) = (least.min(deviation), most.max(deviation));
        }
    }
    Ok(format!(
        "read as one with square windows, 7x7 and 3x3, in place of rows and columns: the paper's sets and predictors know \
         no others. With the network's own windows its twelve times are {least:+.0} to {most:+.0} % off, \
         GPU and CPU alike. The reading was chosen with both results known"
    ))
}

fn run(profile: &Profile, phone: Phone, key: &'static str, name: &str) -> Result<Option<Run>, SimulateError> {
    let (Some(graph), Some(cores)) = (network(name), CoreSet::fastest(&profile.cpu, MOST_THREADS)) else {
        return Ok(None);
    };
    let stages = fuse(&graph.with_data_type(DATA_TYPE));
    let mut simulator = Simulator::new(profile, Library::Xnnpack);
    let shared = options(cores, Mechanism::SvmPolling);
    let answer = explore(&mut simulator, &stages, &shared)?;
    let gpu_only =
        explore(&mut simulator, &stages, &crate::explore::Options { strategy: Strategy::GpuOnly, ..shared })?;
    let alone = stages.iter().zip(&answer.searches).filter_map(|(stage, search)| {
        let placed = if is_cut_by_the_paper(stage) { Some(search.best) } else { search.gpu_only };
        placed.map(|candidate| candidate.latency.as_micros() / MICROS_PER_MILLI)
    });
    Ok(Some(Run {
        phone,
        network: key,
        gpu_only: gpu_only.prediction.latency.as_micros() / MICROS_PER_MILLI,
        operators: alone.sum(),
        together: answer.prediction.latency.as_micros() / MICROS_PER_MILLI,
    }))
}

/// Whether the paper considers cutting it: it leaves all but linear and convolution layers
/// on the GPU.
fn is_cut_by_the_paper(stage: &Stage) -> bool {
    matches!(stage.layer.operator, Operator::Linear(_) | Operator::Conv2d(_))
}

/// Bars of the networks' speedups, the paper's and ours.
fn figure(comparison: &Comparison, runs: &[Run]) -> Picture {
    let mut series = Vec::new();
    for (key, _, title) in NETWORKS {
        let of_network = || runs.iter().filter(move |run| run.network == key);
        let published =
            |run: &Run| comparison.number(&format!("network/{}/{key}/network-speedup", run.phone.key));
        series.push(BarSeries {
            name: format!("{title}, published"),
            is_published: true,
            values: of_network().map(|run| Some(published(run))).collect(),
        });
        series.push(BarSeries {
            name: format!("{title}, coexec"),
            is_published: false,
            values: of_network().map(|run| Some(run.gpu_only / run.together)).collect(),
        });
    }
    Picture {
        name: "networks".to_owned(),
        title: "Speedup of networks with the help of three CPU threads".to_owned(),
        subtitle: "over the GPU alone (EPEW'25, Table 3)".to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "speedup".to_owned(),
            categories: PHONES.iter().map(|phone| phone.title.to_owned()).collect(),
            series,
        }),
    }
}
