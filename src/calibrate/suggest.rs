//! `coexec calibrate --suggest`: what to measure next on a device.

use std::path::Path;

use coexec_fit::calibrate::gpu::design::{Choice, candidates, design, design_networks};
use coexec_sim::scenario::{InputTable, ScenarioFile};
use coexec_sim::workload::{OperatorTable, fuse, network, networks};
use coexec_sim::{CoreSet, DataType, Gpu, Layer, Profile, Strategy};
use serde::Serialize;

use crate::output::{record, row};
use crate::{Calibrate, Common, Failure, OutputFile, Result, output, runs};

/// Launches per suggested network: the ratio that makes predictions of both good (six-phone study).
const LAUNCHES_A_NETWORK: usize = 10;
/// Threads of a network that is measured on several cores.
const THREADS: u32 = 4;

/// Something to measure; suggestions are ordered from the most to the least informative.
#[derive(Serialize)]
struct Suggestion {
    /// The operator with its shapes, or the network.
    measure: String,
    /// Processors and core sets.
    on: String,
    /// Expected error of all launches, or of all networks, on the GPU after this is measured, in
    /// percent.
    error_then_percent: f64,
}

impl Suggestion {
    fn new(measure: String, on: String, choice: &Choice) -> Self {
        Self { measure, on, error_then_percent: 100.0 * choice.left }
    }
}

/// Suggests `count` launches, and networks to measure along with them.
pub(super) fn run(profile: &Profile, count: usize, options: &Calibrate, common: &Common) -> Result {
    let read = [Some(Path::new(&options.base)), options.runs.path.as_deref()];
    output::check_all_distinct(&[options.out.as_deref()], &read)?;
    let Some(gpu) = &profile.gpu else {
        return Err(Failure::usage(
            format!("--suggest suggests GPU launches, and the profile {} has no [gpu] table", profile.name),
            "give runs of whole networks on its cores: `coexec calibrate --runs`",
        ));
    };
    let measured = options.runs.path.as_ref();
    let measured = measured.map(|path| runs::measured(profile, path, &options.runs, common)).transpose()?;
    let mut known: Vec<Layer> =
        measured.into_iter().flat_map(|measured| measured.runs.gpu).map(|run| run.what).collect();
    let candidates = candidates();
    let launches = design(gpu, &candidates, &known, count);
    let chosen: Vec<&Layer> = launches.iter().map(|choice| &candidates[choice.candidate].0).collect();
    known.extend(chosen.iter().copied().cloned());
    let mut suggested: Vec<Suggestion> = (launches.iter().zip(&chosen))
        .map(|(choice, layer)| Suggestion::new(layer.operator.to_string(), "gpu".to_owned(), choice))
        .collect();
    suggested.extend(suggest_networks(profile, gpu, &known, count.div_ceil(LAUNCHES_A_NETWORK)));
    if let Some(path) = &options.out {
        output::write(&[OutputFile::encoded(path, scenario(profile, &chosen).to_toml())?])?;
    }
    if common.json {
        return output::json(&record!(Document {
            device: &profile.name,
            /// The scenario that was written.
            out: &options.out,
            suggested,
        }));
    }
    let cells = |one: &Suggestion| row![one.measure, one.on, format!("{:.1} %", one.error_then_percent)];
    output::table(&["measure", "on", "expected error then"], suggested.iter().map(cells));
    if let Some(path) = &options.out {
        output::line(&format!("wrote {0}; on the device: coexec run {0} --out runs.csv", path.display()));
    }
    Ok(())
}

/// Suggests `count` networks, given that the launches `known` are measured.
fn suggest_networks(
    profile: &Profile,
    gpu: &Gpu,
    known: &[Layer],
    count: usize,
) -> impl Iterator<Item = Suggestion> + use<> {
    let layers = |name| Some(fuse(&network(name)?).into_iter().map(|stage| stage.layer).collect());
    let (names, layers): (Vec<&str>, Vec<Vec<Layer>>) =
        networks().filter_map(|(name, _)| Some((name, layers(name)?))).unzip();
    let cores = [1, THREADS].into_iter().filter_map(|threads| CoreSet::fastest(&profile.cpu, threads));
    let on: Vec<String> = cores.map(|cores| format!(", cpu {cores}")).collect();
    let on = format!("gpu{}", on.concat());
    let chosen = design_networks(gpu, &layers, known, count).into_iter();
    chosen.map(move |choice| Suggestion::new(names[choice.candidate].to_owned(), on.clone(), &choice))
}

/// The launches as a scenario, each operator with its own input.
fn scenario(profile: &Profile, launches: &[&Layer]) -> ScenarioFile {
    let name = |index: usize| format!("input-{}", index + 1);
    let input = |(index, layer): (usize, &&Layer)| InputTable {
        name: name(index),
        extent: layer.operator.extent(),
        constant: false,
    };
    let operator = |(index, layer): (usize, &&Layer)| {
        let table = OperatorTable::new(&format!("{}-{}", layer.operator.name(), index + 1), &layer.operator);
        OperatorTable { from: Some(vec![name(index)]), ..table }
    };
    ScenarioFile {
        title: format!("most informative launches for the GPU of {}", profile.title),
        input: Some(launches.iter().enumerate().map(input).collect()),
        operator: Some(launches.iter().enumerate().map(operator).collect()),
        data_type: Some(DataType::F32),
        strategy: Some(Strategy::GpuOnly),
        ..ScenarioFile::default()
    }
}
