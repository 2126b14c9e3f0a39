//! `coexec devices`: the profiles and scenarios there are, or one profile with
//! the source of every value.

use coexec_sim::device::profile::Profile;
use coexec_sim::scenario;
use coexec_sim::workload::{LANGUAGE_MODELS, NETWORKS, OPERATOR_SETS};
use serde::Serialize;

use crate::cli::{Common, Devices};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Listing {
    devices: Vec<Device>,
    scenarios: Vec<ScenarioEntry>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    aliases: Vec<String>,
    title: String,
    soc: String,
    cpu: String,
    /// Cores of each cluster, the fastest first: `1+3+4`.
    cores: String,
    gpu: Option<String>,
    npu: Option<String>,
}

#[derive(Serialize)]
struct ScenarioEntry {
    kind: Kind,
    name: &'static str,
    title: String,
}

/// What a name that `simulate` and `explore` take stands for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Scenario,
    Network,
    OperatorSet,
    LanguageModel,
}

impl Kind {
    /// All of them, with a heading.
    const ALL: [(Self, &'static str); 4] = [
        (Self::Scenario, "scenario"),
        (Self::Network, "network"),
        (Self::OperatorSet, "operator set"),
        (Self::LanguageModel, "language model"),
    ];

    fn of(name: &str) -> Self {
        if NETWORKS.iter().any(|network| network.0 == name) {
            Self::Network
        } else if OPERATOR_SETS.iter().any(|set| set.0 == name) {
            Self::OperatorSet
        } else if LANGUAGE_MODELS.iter().any(|model| model.0 == name) {
            Self::LanguageModel
        } else {
            Self::Scenario
        }
    }
}

pub(crate) fn run(options: &Devices, common: &Common) -> Result<(), Failure> {
    match &options.name {
        Some(name) => show(&Profile::load(name)?, common),
        None => list(common),
    }
}

fn list(common: &Common) -> Result<(), Failure> {
    let devices: Vec<Device> = Profile::bundled()?.into_iter().map(device).collect();
    let scenarios: Vec<ScenarioEntry> = scenario::names()
        .into_iter()
        .map(|(name, title)| ScenarioEntry { kind: Kind::of(name), name, title })
        .collect();
    if common.json {
        output::json(&Listing { devices, scenarios });
        return Ok(());
    }
    let absent = || "-".to_owned();
    let rows: Vec<Vec<String>> = devices
        .into_iter()
        .map(|device| {
            let Device { name, title, cores, gpu, npu, .. } = device;
            vec![name, title, cores, gpu.map_or_else(absent, shortened), npu.unwrap_or_else(absent)]
        })
        .collect();
    output::table(&["device", "what it is", "cores", "GPU", "NPU"], &rows);
    for (kind, heading) in Kind::ALL {
        let rows: Vec<Vec<String>> = scenarios
            .iter()
            .filter(|entry| entry.kind == kind)
            .map(|entry| vec![entry.name.to_owned(), entry.title.clone()])
            .collect();
        output::line("");
        output::table(&[heading, "what it is"], &rows);
    }
    Ok(())
}

/// Characters of a GPU's name that a table has room for.
const MOST_OF_A_NAME: usize = 20;

/// The beginning of a long name; `coexec devices NAME` shows all of it.
fn shortened(name: String) -> String {
    if name.chars().count() <= MOST_OF_A_NAME {
        return name;
    }
    name.chars().take(MOST_OF_A_NAME - 3).chain("...".chars()).collect()
}

fn device(profile: Profile) -> Device {
    let clusters = profile.cpu.clusters.iter().map(|cluster| {
        format!("{} {} at {} GHz", cluster.cores, cluster.name.as_str(), cluster.clock_mhz.value / 1e3)
    });
    let cores = profile.cpu.clusters.iter().map(|cluster| cluster.cores.to_string());
    Device {
        cores: cores.collect::<Vec<_>>().join("+"),
        cpu: clusters.collect::<Vec<_>>().join(", "),
        gpu: profile.gpu.map(|gpu| gpu.name),
        npu: profile.npu.map(|npu| npu.name),
        name: profile.name,
        aliases: profile.aliases,
        title: profile.title,
        soc: profile.soc,
    }
}

/// Prints a profile as it would be written, sources included.
fn show(profile: &Profile, common: &Common) -> Result<(), Failure> {
    if common.json {
        output::json(profile);
        return Ok(());
    }
    let text = toml::to_string_pretty(profile).map_err(|error| Failure::Usage {
        problem: format!("the profile cannot be shown as TOML: {error}"),
        help: "use --json".to_owned(),
    })?;
    output::line(text.trim_end());
    Ok(())
}
